"""The demo's chart: one small panel for each kind of layer, its error over the depth, one line a format and kind of
activations."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from .encoder import LINEARS

# By the first and the last part of a name ("NVFP4 W4A16"): apart in hue and shape, and in dash and filling.
_FORMATS = {"NVFP4": ("#1f6fb4", "o"), "MXFP4": ("#d1661f", "s")}
_ACTIVATIONS = {"W4A4": ("-", "full"), "W4A16": (":", "none")}


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
    """Writes the PNG. ``errors``: "NVFP4 W4A4" -> {"<layer> <name>": relative error}."""
    depth = 1 + max(int(key.split(" ", 1)[0]) for values in errors.values() for key in values)
    top = 100 * max(max(values.values()) for values in errors.values())
    figure, axes = plt.subplots(2, 3, figsize=(10, 6), sharex=True, sharey=True, layout="constrained")
    for axis, name in zip(axes.flat, LINEARS, strict=True):
        for label, values in errors.items():
            format, _, activations = label.partition(" ")
            (color, marker), (dash, filling) = _FORMATS[format], _ACTIVATIONS[activations]
            series = [100 * values[f"{i} {name}"] for i in range(depth)]
            axis.plot(
                range(depth),
                series,
                dash,
                color=color,
                marker=marker,
                fillstyle=filling,
                label=label,
                linewidth=2,
                markersize=6,
            )
        axis.set_title(name, fontsize=11)
        axis.set_ylim(0, top * 1.12)
        axis.set_xticks(range(depth))
        axis.grid(axis="y", color="#dddddd")
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=len(labels))
    axes[1, 1].set_xlabel("encoder layer", fontsize=12)  # the legend is below: a figure's label would lie under it
    figure.supylabel("relative error of the output, %")
    figure.suptitle(f"FP4 against fp32, for each linear layer of MiniLM-L6 (image {image})")
    figure.savefig(path, dpi=130)
    plt.close(figure)
