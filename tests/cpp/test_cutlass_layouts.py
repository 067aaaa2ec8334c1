"""Our scale layout against CUTLASS's own, compiled for the host.

CUTLASS headers (4.7 or newer) are taken from $FP4AOT_CUTLASS_DIR, else from the sgl-deep-gemm package, which carries
them. CUDA headers come from $CUDA_HOME, /usr/local/cuda, nvcc's folder, or the nvidia-cuda-* packages. No nvcc needed.
"""

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

import installed
import pytest

pytestmark = pytest.mark.build


def cutlass_include() -> Path | None:
    candidates = []
    if directory := os.environ.get("FP4AOT_CUTLASS_DIR"):
        candidates += [Path(directory), Path(directory) / "include"]
    for package in ("deep_gemm", "cutlass_library"):  # found, not imported: they may need a GPU to import
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or []) if spec else []:
            candidates += [Path(root) / "include", Path(root) / "source" / "include"]
    header = Path("cutlass/detail/sm103_blockscaled_layout.hpp")
    return next((path for path in candidates if (path / header).exists()), None)


def cuda_includes() -> list[Path]:
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    if nvcc := shutil.which("nvcc"):
        roots.append(str(Path(nvcc).resolve().parent.parent))
    folders = [Path(root) / "include" for root in roots if root]
    folders += sorted((Path(sysconfig.get_path("purelib")) / "nvidia").glob("*/include"))
    folders += [folder / "cccl" for folder in folders]
    for header in ("cuda_runtime.h", "cuda/std/utility"):
        if not any((folder / header).exists() for folder in folders):
            return []
    return [folder for folder in folders if folder.is_dir()]


def test_scale_offset_is_cutlass_layout(tmp_path):
    cutlass, cuda = cutlass_include(), cuda_includes()
    installed.need(cutlass, "no CUTLASS >= 4.7 headers: set FP4AOT_CUTLASS_DIR or pip install sgl-deep-gemm")
    installed.need(
        cuda, "no CUDA headers: set CUDA_HOME, or pip install nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-crt"
    )
    program = tmp_path / "cutlass_layouts"
    includes = [flag for folder in [installed.include_dir(), cutlass, *cuda] for flag in ("-I", folder)]
    source = Path(__file__).with_name("cutlass_layouts.cpp")
    unit = installed.compile_object(source, tmp_path / "cutlass_layouts.o", "-std=c++17", "-O1", "-w", *includes)
    installed.run(installed.compiler(), unit, "-o", program)
    lines = [line.split() for line in installed.run(program).stdout.splitlines()]
    assert len({line[0] for line in lines}) == 8
    assert len(lines) == 80
    assert sum(int(line[3]) for line in lines) > 6_000_000
    assert all(int(line[4]) == 0 for line in lines)
