"""Finds what a build needs (nvcc, CUTLASS headers, torch) and says which PyPI packages bring what is missing.

The one place for this: CMake asks it, and so do the build backend (build_backend.py), the Makefile and the tests.
Only the standard library is used, because it runs before anything is installed.

    python cmake/toolchain.py nvcc [oldest version]   -> path of nvcc, or an error with the command that fixes it
    python cmake/toolchain.py cutlass                 -> include directory of CUTLASS, likewise
    python cmake/toolchain.py torch                   -> directory of the torch package, likewise
    python cmake/toolchain.py images                  -> the images that FP4AOT_IMAGES stands for, e.g. "cpu;sm90a"
    python cmake/toolchain.py requirements            -> PyPI packages to install for these images, one a line
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# One toolkit version: mixing minor versions of nvcc, nvvm and the headers is not supported by any of them.
TOOLKIT = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
]
OLDEST_NVCC = (12, 9)
# PyPI's nvidia-cutlass ends at 4.2.0.0, whose block-scaled kernels have known faults (README, "Building"); this package
# carries the complete 4.8.1 headers.
CUTLASS = "sgl-deep-gemm==0.2.5"
OLDEST_CUTLASS = (4, 7)
CUTLASS_REPOSITORY, CUTLASS_TAG = "https://github.com/NVIDIA/cutlass.git", "v4.8.1"
# Headers only: the binding uses torch's stable ABI (target 2.10), so one build serves every torch from 2.10 on.
TORCH = "torch==2.13.0"


class Missing(Exception):
    """Something a build needs is not there; the text says what and gives one command."""


def package_directory(name: str) -> Path | None:
    """Where a package lies, without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def version_text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def nvcc_version(nvcc: Path) -> tuple[int, ...]:
    try:
        text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0,)
    match = re.search(r"release (\d+)\.(\d+)", text)
    return tuple(map(int, match.groups())) if match else (0,)


def nvcc_candidates() -> list[Path]:
    """In order of preference: CUDACXX, CUDA_HOME/CUDA_PATH, PATH, the PyPI toolkit packages."""
    found = [Path(os.environ["CUDACXX"])] if os.environ.get("CUDACXX") else []
    found += [Path(os.environ[name]) / "bin" / "nvcc" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    on_path = shutil.which("nvcc")
    found += [Path(on_path)] if on_path else []
    nvidia = package_directory("nvidia")
    found += sorted(nvidia.glob("cu*/bin/nvcc"), reverse=True) if nvidia else []
    return found


def find_nvcc(oldest: tuple[int, ...] = OLDEST_NVCC) -> Path:
    tried = []
    for nvcc in nvcc_candidates():
        version = nvcc_version(nvcc)
        if version >= oldest:
            return nvcc
        tried.append(f"{nvcc} ({'cannot be run' if version == (0,) else version_text(version)})")
    places = ", ".join(tried) or "CUDACXX, CUDA_HOME, PATH and the PyPI packages"
    raise Missing(
        f"No nvcc {version_text(oldest)} or newer was found; tried {places}. Fix: pip install {' '.join(TOOLKIT)}"
    )


def cutlass_version(include: Path) -> tuple[int, ...]:
    try:
        text = (include / "cutlass" / "version.h").read_text()
    except OSError:
        return (0,)
    parts = [re.search(rf"#define CUTLASS_{part} (\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return tuple(int(part.group(1)) for part in parts if part)


def clone_cutlass(repository: str) -> Path:
    """The pinned tag's headers, cloned once into the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fp4aot"
    clone = cache / f"cutlass-{CUTLASS_TAG}"
    if not clone.exists():
        partial = cache / f"cutlass-{CUTLASS_TAG}.{os.getpid()}"
        cache.mkdir(parents=True, exist_ok=True)
        command = ["git", "clone", "--quiet", "--depth", "1", "--branch", CUTLASS_TAG, repository, str(partial)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
            partial.rename(clone)
        except (OSError, subprocess.CalledProcessError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            if not clone.exists():  # nor has another build made it
                reason = getattr(error, "stderr", None) or error
                raise Missing(
                    f"FP4AOT_CUTLASS_GIT is set, but {CUTLASS_TAG} of {repository} could not be cloned: "
                    f"{str(reason).strip()}. Fix: unset it and pip install --no-deps {CUTLASS}"
                ) from None
    return clone / "include"


def find_cutlass() -> Path:
    """FP4AOT_CUTLASS_DIR (the include directory or its parent), nvidia-cutlass if new enough, sgl-deep-gemm, and with
    FP4AOT_CUTLASS_GIT=1 (or the address of a mirror) a clone of the pinned tag."""
    override = os.environ.get("FP4AOT_CUTLASS_DIR")
    places = [Path(override), Path(override) / "include"] if override else []
    if not override:
        for package, inside in (("cutlass_library", "source/include"), ("deep_gemm", "include")):
            directory = package_directory(package)
            places += [directory / inside] if directory else []
    tried = []
    for include in places:
        version = cutlass_version(include)
        if version >= OLDEST_CUTLASS:
            return include
        if version != (0,):
            tried.append(f"{include} has {version_text(version)}")
    git = os.environ.get("FP4AOT_CUTLASS_GIT", "0")
    if not override and git not in ("", "0"):
        return clone_cutlass(CUTLASS_REPOSITORY if git == "1" else git)
    raise Missing(
        f"No CUTLASS headers {version_text(OLDEST_CUTLASS)} or newer were found"
        f"{' under FP4AOT_CUTLASS_DIR=' + override if override else ''}{'; ' + ', '.join(tried) if tried else ''}. "
        f"Fix: pip install --no-deps {CUTLASS} (or set FP4AOT_CUTLASS_DIR to a CUTLASS checkout)"
    )


def find_torch() -> Path:
    directory = package_directory("torch")
    if directory is None or not (directory / "include/torch/csrc/stable/library.h").exists():
        raise Missing(
            f"No torch with the stable-ABI headers (2.10 or newer) was found for {sys.executable}. "
            f"Fix: pip install {TORCH} (or build without the torch binding: -DFP4AOT_TORCH=OFF)"
        )
    return directory


def image_table() -> list[list[str]]:
    text = (Path(__file__).parent / "images.cmake").read_text()
    return [line.split() for line in re.findall(r'^ +"([^"]+)"', text, re.MULTILINE)]


def visible_capabilities() -> set[str]:
    try:
        command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return set()
    return set(text.split())


def selected_images(choice: str | None = None) -> list[str]:
    """What FP4AOT_IMAGES (auto, all, or names) stands for. The cpu image is always among them."""
    choice = choice or os.environ.get("FP4AOT_IMAGES") or "auto"
    table = image_table()
    names = [line[0] for line in table]
    if choice == "all":
        return names
    if choice == "auto":
        visible = visible_capabilities()
        return [line[0] for line in table if line[1] == "-" or line[1] in visible]
    chosen = [name for name in re.split(r"[,; ]+", choice) if name]
    for name in chosen:
        if name not in names:
            raise Missing(f"FP4AOT_IMAGES names '{name}', which is not an image. Known: {', '.join(names)}, auto, all.")
    return [name for name in names if name in chosen or name == "cpu"]


def wants_torch() -> bool:
    """FP4AOT_TORCH: whether the torch binding is built."""
    value = os.environ.get("FP4AOT_TORCH", "ON")
    if value.upper() not in ("ON", "OFF", "1", "0"):
        raise Missing(f"FP4AOT_TORCH is '{value}'; it must be ON or OFF, 1 or 0.")
    return value.upper() in ("ON", "1")


def requirements(images: list[str]) -> list[str]:
    """PyPI packages that a build of these images needs and this machine lacks."""
    needed = []
    if any(line[0] in images and line[2] != "-" for line in image_table()):
        try:
            find_nvcc()
        except Missing:
            needed += TOOLKIT
    if any(line[0] in images and line[5] == "cutlass" for line in image_table()):
        try:
            find_cutlass()
        except Missing:
            needed.append(CUTLASS)
    if wants_torch():
        try:
            find_torch()
        except Missing:
            needed.append(TORCH)
    return needed


def main(arguments: list[str]) -> int:
    what = arguments[0] if arguments else ""
    try:
        if what == "nvcc":
            oldest = tuple(map(int, arguments[1].split("."))) if len(arguments) > 1 else OLDEST_NVCC
            print(find_nvcc(oldest))
        elif what == "cutlass":
            print(find_cutlass())
        elif what == "torch":
            print(find_torch())
        elif what == "images":
            print(";".join(selected_images(arguments[1] if len(arguments) > 1 else None)))
        elif what == "requirements":
            print("\n".join(requirements(selected_images())))
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except Missing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
