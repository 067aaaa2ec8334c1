"""libptxsim.so, and images linked against it.

Folders, each with an environment variable that overrides it:
    FP4AOT_BUILD_DIR   where the images were built: the newest of build/* that holds objects of one
    PTXSIM_BUILD_DIR   where the simulator and the simulated images go: build/ptxsim
PTXSIM_LIBRARY is a libptxsim.so to use instead of building one (with sanitizers, say).
"""

import functools
import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

import installed
from cpp.test_cutlass_layouts import cuda_includes

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LINK_RULE = re.compile(r"^build lib/libfp4aot_(\w+)\.so: CXX_SHARED_LIBRARY_LINKER\S* ([^|\n]*)", re.MULTILINE)


def _toolchain():
    spec = importlib.util.spec_from_file_location("toolchain", ROOT / "cmake" / "toolchain.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def cuda_image_names() -> tuple[str, ...]:
    """Images for GPUs in cmake/images.cmake, built or not."""
    return tuple(line[0] for line in _toolchain().image_table() if line[2] != "-")


@functools.cache
def build_folder() -> Path | None:
    """The CMake build folder that the images come from; None if there is none."""
    if chosen := os.environ.get("FP4AOT_BUILD_DIR"):
        folder = Path(chosen).absolute()
        assert (folder / "build.ninja").exists(), f"FP4AOT_BUILD_DIR={chosen} is no build folder: it has no build.ninja"
        return folder
    made = [path.parent for path in (ROOT / "build").glob("*/build.ninja") if any(path.parent.glob("lib/libfp4aot.so"))]
    made = [path for path in made if any(path.glob("CMakeFiles/fp4aot_*.dir/src/cpp/images/*/*.cu.o"))]
    return max(made, key=lambda path: (path / "build.ninja").stat().st_mtime, default=None)


def objects(image: str) -> list[Path]:
    """The object files that the build links into the image."""
    folder = build_folder()
    assert folder is not None, "no build folder with images: build the wheel here, or set FP4AOT_BUILD_DIR"
    for name, files in LINK_RULE.findall((folder / "build.ninja").read_text()):
        if name == image:
            return [folder / file for file in files.split()]
    raise AssertionError(f"{folder} has no image {image}")


@functools.cache
def images() -> tuple[str, ...]:
    """CUDA images whose objects exist."""
    folder = build_folder()
    if folder is None:
        return ()
    linked = dict(LINK_RULE.findall((folder / "build.ninja").read_text()))
    return tuple(
        name
        for name in cuda_image_names()
        if name in linked and all((folder / file).exists() for file in linked[name].split())
    )


def has_op(image: str, op: str) -> bool:
    """As the image's sources name its ops."""
    return f"OP({op})" in (ROOT / "src" / "cpp" / "images" / image / "image.cpp").read_text()


def ptx_files(image: str) -> list[Path]:
    """The PTX that the image's units were compiled through."""
    units = [path for path in objects(image) if path.name.endswith(".cu.o")]
    files = [Path(f"{path}.ptx") for path in units]
    missing = [str(path) for path in files if not path.exists()]
    assert not missing, f"no PTX beside the objects of {image}; build them again: {missing}"
    return files


def kernels(image: str) -> dict[str, Path]:
    """Mangled name of every kernel of the image -> the PTX file it is in."""
    found = {}
    for path in ptx_files(image):
        for name in re.findall(r"^\s*(?:\.\w+\s+)*\.entry\s+([\w$.]+)", path.read_text(), re.MULTILINE):
            found.setdefault(name, path)
    return found


def core_library() -> Path:
    """libfp4aot.so of the build that the images come from (the installed one, before its wheel was repaired)."""
    folder = build_folder()
    assert folder is not None, "no build folder with images: build the wheel here, or set FP4AOT_BUILD_DIR"
    return folder / "lib" / "libfp4aot.so"


def output_folder() -> Path:
    return Path(os.environ.get("PTXSIM_BUILD_DIR") or ROOT / "build" / "ptxsim").absolute()


def build_tools() -> list[object]:
    """cmake and ninja: this environment's own, else those on PATH."""
    own = [Path(sys.executable).with_name(name) for name in ("cmake", "ninja")]
    found = [path if path.exists() else shutil.which(path.name) for path in own]
    installed.need(all(found), "no cmake or ninja: pip install -r tests/requirements.txt")
    return found


@functools.cache
def simulator() -> Path:
    """libptxsim.so, built if it is not up to date."""
    if ready := os.environ.get("PTXSIM_LIBRARY"):
        assert Path(ready).exists(), f"PTXSIM_LIBRARY={ready} does not exist"
        return Path(ready).absolute()
    cuda = cuda_includes()
    installed.need(cuda, "no CUDA headers: set CUDA_HOME, or pip install nvidia-cuda-runtime nvidia-cuda-cccl")
    cmake, ninja = build_tools()
    folder = output_folder() / "simulator"
    includes = ";".join(map(str, cuda))
    installed.run(cmake, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", "-S", HERE, "-B", folder,
                  f"-DCMAKE_CXX_COMPILER={installed.compiler()}", f"-DPTXSIM_CUDA_INCLUDES={includes}")  # fmt: skip
    installed.run(cmake, "--build", folder)
    return folder / "libptxsim.so"


def _link_to(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def folder_with(library: Path, ptx: list[Path], folder: Path, with_core: bool = True) -> Path:
    """A folder from which core loads the library, with the PTX it is to run, and from which it gets its driver.

    Without core: for libraries that call the CUDA runtime themselves.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # One file under three names is one library, and one device, in a process.
    for name in ("libptxsim.so", "libcuda.so.1", "libnvidia-ml.so.1"):
        _link_to(folder / name, simulator())
    if with_core:
        _link_to(folder / "libfp4aot.so", core_library())
    if library.parent != folder:
        _link_to(folder / library.name, library)
    Path(f"{folder / library.name}.ptx-list").write_text("".join(f"{path}\n" for path in ptx))
    return folder


@functools.cache
def simulated_image(image: str) -> Path:
    """A folder with libfp4aot_<image>.so, of the image's own objects and the stand-in CUDA runtime."""
    folder = output_folder() / "images" / image
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"libfp4aot_{image}.so"
    partial = library.with_suffix(f".{os.getpid()}")
    installed.run(installed.compiler(), "-shared", "-o", partial, *objects(image), simulator(),
                  "-Wl,-rpath,$ORIGIN", "-Wl,-z,nodelete,--no-undefined", f"-Wl,-soname,{library.name}")  # fmt: skip
    partial.replace(library)
    return folder_with(library, ptx_files(image), folder)


def mutated_image(image: str, edited: dict[Path, str], folder: Path) -> Path:
    """The simulated image with other PTX: edited maps one of ptx_files to its new text."""
    library = simulated_image(image) / f"libfp4aot_{image}.so"
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for index, path in enumerate(ptx_files(image)):
        if path in edited:
            path, text = folder / f"{index}-{path.name}", edited[path]
            path.write_text(text)
        files.append(path)
    return folder_with(library, files, folder)


def environment(image: str, folder: Path) -> dict[str, str]:
    """Variables of a process that is to see the virtual GPU; without FP4AOT_CORE if the folder has no core."""
    variables = dict(os.environ)
    for name in ("CUDA_VISIBLE_DEVICES", "FP4AOT_FORCE_IMAGE", "FP4AOT_CORE"):
        variables.pop(name, None)
    variables.update(
        FP4AOT_SIM=image, FP4AOT_IMAGE_DIR=str(folder),
        LD_LIBRARY_PATH=os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")])),
    )  # fmt: skip
    if (folder / "libfp4aot.so").exists():
        variables["FP4AOT_CORE"] = str(folder / "libfp4aot.so")
    return variables
