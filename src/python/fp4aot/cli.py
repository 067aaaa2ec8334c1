"""``fp4aot`` and ``python -m fp4aot``: what is installed, a demonstration on real weights, and benchmarks."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from . import _abi, _loader, runtime
from .bench import options as bench_options
from .errors import Fp4aotError


def table(rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns; the first row is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join("  " + line for line in lines)


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch_ops_state() -> str:
    if _version_of("torch") is None:
        return "torch is not installed; NumPy arrays work"
    try:
        from . import torch_ops  # noqa: F401
    except Fp4aotError as error:
        return str(error)
    return "registered"


def collect() -> dict[str, Any]:
    """All that ``info`` shows: the library's own account, and this Python's versions."""
    result = runtime.info()
    result["python"] = platform.python_version()
    result["packages"] = {name: _version_of(name) for name in ("torch", "numpy")}
    result["torch_ops"] = _torch_ops_state()
    result["ops"] = list(_abi.load().ops)
    result["environment"] = {
        name: value for name, value in sorted(os.environ.items()) if name.startswith("FP4AOT_") and value
    }
    return result


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _image_state(image: dict[str, Any]) -> str:
    if not image["error"]:
        built = f", CUDA {_cuda(image['cuda_toolkit'])}" if image["cuda_toolkit"] else ""
        return f"{len(image['ops'])} ops{built}"
    return "cannot be used" if image["path"] else "not installed"


def _ops_by_image(data: dict[str, Any]) -> str:
    """One line an op, one column an image and format."""
    images = [image for image in data["images"] if not image["error"]]
    if not images:
        return "  none: no image is installed"
    formats = ("nvfp4", "mxfp4")
    names: list[str] = []
    for op in data["ops"]:
        name = op.removesuffix("_nvfp4").removesuffix("_mxfp4")
        if name not in names:
            names.append(name)
    rows = [["op", *(f"{image['name']} {fmt}" for image in images for fmt in formats)]]
    for name in names:
        row = [name]
        for image in images:
            for fmt in formats:
                op = name if name in data["ops"] else f"{name}_{fmt}"
                own_format = name.startswith(formats) and not name.startswith(fmt)
                exists = op in data["ops"] and not own_format
                row.append(("yes" if op in image["ops"] else "no") if exists else "-")
        rows.append(row)
    return table(rows)


def print_info(data: dict[str, Any]) -> None:
    """The readable form of :func:`collect`."""
    packages = ", ".join(f"{name} {version or 'not installed'}" for name, version in data["packages"].items())
    print(f"fp4aot {data['version']} (ABI {data['abi']}), Python {data['python']}, {packages}")
    print(f"torch ops: {data['torch_ops']}")
    driver = data["driver"]
    if driver["error"]:
        print(f"driver: none seen ({driver['error']})")
    else:
        print(f"driver: {driver['version']}, for CUDA {_cuda(driver['cuda'])}")
    for name, value in data["environment"].items():
        print(f"{name}={value}")
        if name == "FP4AOT_IMAGE_DIR" and data["image_dir_error"]:
            print(f"  {data['image_dir_error']}")

    print("\nImages")
    rows = [["image", "for", "state"]]
    for image in data["images"]:
        target = f"compute capability {image['capability']}" if image["capability"] else "the CPU"
        rows.append([image["name"], target, _image_state(image)])
    print(table(rows))
    for image in data["images"]:
        if image["error"]:
            wrapper = textwrap.TextWrapper(110, "  ", "    ", break_on_hyphens=False, break_long_words=False)
            print(wrapper.fill(f"{image['name']}: {image['error']}"))

    print("\nDevices")
    rows = [["device", "capability", "image", "why"]]
    for device in data["devices"]:
        seen = "" if device["visible"] or not data["visibility_decided"] else " (hidden by CUDA_VISIBLE_DEVICES)"
        rows.append([device["name"] + seen, device["capability"] or "?", device["image"] or "none", device["reason"]])
    cpu = next(image for image in data["images"] if image["capability"] is None)
    why = cpu["error"] or "serves every CPU tensor; never stands in for a GPU"
    rows.append([platform.machine() + " CPU", "-", "none" if cpu["error"] else cpu["name"], why])
    print(table(rows))
    if not data["devices"]:
        print(
            "  No GPU was seen through NVML. In a container without NVML, CUDA devices are bound at their first call."
        )

    print("\nOps by image and format")
    print(_ops_by_image(data))


def _print_whatever() -> None:
    """What the output's encoding lacks is printed as an escape, instead of an error that loses results."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None and getattr(sys.stdout, "errors", "") == "strict":
        reconfigure(errors="backslashreplace")


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="fp4aot", description="FP4 kernels: what is installed, a demonstration on real weights, and benchmarks."
    )
    parser.add_argument("--version", action="version", version=f"fp4aot {_version_of('fp4aot') or '(not installed)'}")
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser(
        "info", help="devices, drivers, images, ops, versions, and why an image was chosen or not"
    )
    info.add_argument("--json", action="store_true", help="for programs")
    commands.add_parser("cmake-dir", help="print the directory to set fp4aot_DIR to, for find_package(fp4aot)")
    demo = commands.add_parser("demo", help="quantise a sentence encoder to FP4 and compare it with fp32")
    demo.add_argument(
        "--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: a GPU that an image serves"
    )
    demo.add_argument("--format", choices=["both", "nvfp4", "mxfp4"], default="both", help="default: both")
    demo.add_argument("--output", default="fp4aot-demo.png", help="where the chart goes (default: %(default)s)")
    demo.add_argument("--json", dest="json_path", metavar="PATH", help="also write every number shown to this file")
    bench_options.add_arguments(commands.add_parser("bench", help="time the products, or the host time of a call"))
    options = parser.parse_args(arguments)
    try:
        if options.command == "info":
            _print_whatever()
            data = collect()
            if options.json:
                print(json.dumps(data, indent=2))
            else:
                print_info(data)
            return 0
        if options.command == "cmake-dir":
            print(_loader.LIBRARY_DIR / "cmake" / "fp4aot")
            return 0
        _print_whatever()
        if options.command == "bench":
            from . import bench

            return bench.run(bench_options.make_plan(options, list(sys.argv[1:] if arguments is None else arguments)))
        from .demo import run

        return run(options.device, options.format, options.output, options.json_path)
    except BrokenPipeError:  # `fp4aot info | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Fp4aotError, ValueError) as error:
        print(f"fp4aot: {error}", file=sys.stderr)
        return 1
