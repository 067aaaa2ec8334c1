"""The demo's chart: one small panel for each kind of layer, its error over the depth, one line a format."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from .encoder import LINEARS

_STYLES = [("#1f6fb4", "o", "-"), ("#d1661f", "s", "--")]  # apart in hue, shape and dash


def output_path(output: str) -> Path:
    """Where the chart goes, absolute; a ValueError if its folder does not exist or it is no PNG."""
    path = Path(output).expanduser().resolve()
    if path.suffix.lower() != ".png":
        raise ValueError(f"--output is {output}; it must end in .png.")
    if not path.parent.is_dir():
        raise ValueError(
            f"--output is {output}, but the folder {path.parent} does not exist. Create it, or give another."
        )
    return path


def draw(errors: dict[str, dict[str, float]], image: str, path: Path) -> None:
    """Writes the PNG. ``errors``: format -> {"<layer> <name>": relative error}."""
    depth = 1 + max(int(key.split(" ", 1)[0]) for values in errors.values() for key in values)
    top = 100 * max(max(values.values()) for values in errors.values())
    figure, axes = plt.subplots(2, 3, figsize=(10, 6), sharex=True, sharey=True, layout="constrained")
    for axis, name in zip(axes.flat, LINEARS, strict=True):
        for (format, values), (color, marker, dash) in zip(errors.items(), _STYLES, strict=False):
            series = [100 * values[f"{i} {name}"] for i in range(depth)]
            axis.plot(range(depth), series, dash, color=color, marker=marker, label=format, linewidth=2, markersize=6)
        axis.set_title(name, fontsize=11)
        axis.set_ylim(0, top * 1.12)
        axis.set_xticks(range(depth))
        axis.grid(axis="y", color="#dddddd")
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes.flat[0].legend(frameon=False, loc="lower right")
    figure.supxlabel("encoder layer")
    figure.supylabel("relative error of the output, %")
    figure.suptitle(f"FP4 weights and activations against fp32, for each linear layer of MiniLM-L6 (image {image})")
    figure.savefig(path, dpi=130)
    plt.close(figure)
