"""Builds cutlass/: CUTLASS's own FP4 kernels as libraries for the simulator, one for each chip whose image was built.

    PYTHONPATH=tests python -m ptxsim.cutlass_kernels

compiles them and the simulator ahead of the tests: minutes when nothing is cached. They go where build.py puts the
simulator.
"""

import functools
import sys
import time
from pathlib import Path

import installed
import pytest

from . import build

HERE = Path(__file__).parent / "cutlass"


@functools.cache
def chips() -> tuple[str, ...]:
    return tuple(image for image in build.images() if (HERE / f"{image}.cu").exists())


@functools.cache
def _compiled() -> Path:
    """The CMake folder with a library a chip, brought up to date."""
    toolchain = build._toolchain()
    try:
        toolchain.find_nvcc()
        toolchain.find_cutlass()
    except toolchain.Missing as error:
        installed.need(False, str(error))
    cmake, ninja = build.build_tools()
    folder = build.output_folder() / "cutlass"
    installed.run(cmake, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", "-S", HERE, "-B", folder,
                  f"-DCMAKE_CXX_COMPILER={installed.compiler()}", f"-DPython3_EXECUTABLE={sys.executable}",
                  f"-DIMAGES={';'.join(chips())}", f"-DPTXSIM_LIBRARY={build.simulator()}")  # fmt: skip
    done = installed.run(cmake, "--build", folder)
    for line in done.stdout.splitlines():
        if line.startswith("fp4aot: "):  # how long each unit took
            print(line, flush=True)
    return folder


def library(chip: str) -> Path:
    return _compiled() / f"libcutlass_{chip}.so"


def ptx_file(chip: str) -> Path:
    """The PTX that the chip's unit was compiled through."""
    files = sorted(_compiled().glob(f"CMakeFiles/cutlass_{chip}.dir/*.ptx"))
    assert len(files) == 1, f"no PTX beside the object of {chip}.cu; remove {_compiled()} and build it again"
    return files[0]


@functools.cache
def folder(chip: str) -> Path:
    """A folder with the chip's library and the simulator, as build.environment wants it."""
    return build.folder_with(library(chip), [ptx_file(chip)], build.output_folder() / "chips" / chip, with_core=False)


def edited(chip: str, text: str, place: Path) -> Path:
    """The same with other PTX."""
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"edited-{ptx_file(chip).name}"
    path.write_text(text)
    return build.folder_with(library(chip), [path], place, with_core=False)


def main() -> None:
    start = time.monotonic()
    build.simulator()
    print(f"ptxsim: the simulator took {time.monotonic() - start:.1f} s", flush=True)
    if not chips():
        print("ptxsim: no image was built for whose chip there are kernels of CUTLASS")
        return
    start = time.monotonic()
    for chip in chips():
        folder(chip)
    print(f"ptxsim: CUTLASS's kernels for {', '.join(chips())} took {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    try:
        main()
    except pytest.skip.Exception as why:  # a tool is missing
        raise SystemExit(f"ptxsim: {why}") from None
