"""The installed fp4aot package as files: its libraries, headers and CMake configuration, and compilers to use them."""

import ctypes
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_strict = os.environ.get("FP4AOT_TESTS_STRICT", "0")
assert _strict in ("0", "1"), f"FP4AOT_TESTS_STRICT is {_strict!r}; it must be 1 or 0, or not set."
STRICT = _strict == "1"


def need(condition: object, reason: str) -> None:
    """Skips the test with a reason; with FP4AOT_TESTS_STRICT=1 (CI) a missing tool is a failure instead."""
    if condition:
        return
    if STRICT:
        pytest.fail(f"FP4AOT_TESTS_STRICT is set and a test cannot run: {reason}")
    pytest.skip(reason)


@functools.cache
def package_root() -> Path:
    """Folder of the installed package; found without importing it."""
    spec = importlib.util.find_spec("fp4aot")
    assert spec is not None, "fp4aot is not installed: build the wheel and install it first"
    return Path(str(spec.origin)).parent


def _only(pattern: str) -> Path:
    found = sorted(package_root().rglob(pattern))
    assert len(found) == 1, f"expected one {pattern} in {package_root()}, found {[str(p) for p in found]}"
    return found[0]


@functools.cache
def core_library() -> Path:
    return _only("libfp4aot.so")


@functools.cache
def image_library(name: str) -> Path:
    return _only(f"libfp4aot_{name}.so")


@functools.cache
def image_names() -> list[str]:
    files = core_library().parent.glob("libfp4aot_*.so")
    return sorted(name for path in files if (name := path.stem.removeprefix("libfp4aot_")) != "torch")


@functools.cache
def include_dir() -> Path:
    return _only("fp4aot.h").parent.parent


@functools.cache
def cmake_dir() -> Path:
    return _only("fp4aotConfig.cmake").parent


def is_manylinux() -> bool:
    """True if the installed wheel's tag promises an old glibc (a wheel of a plain build does not)."""
    tags = [path.read_text() for path in package_root().parent.glob("fp4aot-*.dist-info/WHEEL")]
    return any("manylinux" in text for text in tags)


def compiler(language: str = "c++") -> str:
    """A host compiler: $CXX or $CC, else the first of the usual names. Skips the test if there is none."""
    variable, names = ("CC", ("cc", "gcc", "clang")) if language == "c" else ("CXX", ("c++", "g++", "clang++"))
    candidates = [os.environ.get(variable, ""), *names]
    found = next((path for name in candidates if name and (path := shutil.which(name))), None)
    need(found, f"no host compiler for {language}: set {variable} or install g++")
    return str(found)


def run(*command: object, **options) -> subprocess.CompletedProcess:
    """Runs a command that must succeed; its output is in the assertion message."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def compile_object(source: Path, output: Path, *flags: object) -> Path:
    """Compiles one C++ file to an object. ccache, where there is one, sees paths from the output's folder: it knows a
    file again in the next run's temporary folders."""
    ccache = [found] if (found := shutil.which("ccache")) else []
    environment = dict(os.environ, CCACHE_BASEDIR="/", CCACHE_NOHASHDIR="1")
    run(*ccache, compiler(), *flags, "-c", source.absolute(), "-o", output, cwd=output.parent, env=environment)
    return output


def build_library(source: Path, output: Path, *flags: str, include: Path | None = None) -> Path:
    """Compiles one C++ file to a shared library."""
    to_link = [flag for flag in flags if flag.startswith("-Wl,")]
    flags = tuple(flag for flag in flags if flag not in to_link)
    unit = compile_object(source, output.with_suffix(".o"), "-std=c++17", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror",
                          *flags, "-I", include or include_dir())  # fmt: skip
    run(compiler(), "-shared", unit, *to_link, "-o", output)
    return output


def python(code: str, *arguments: str, env: dict[str, str] | None = None, check: bool = True):
    """Runs code in a new interpreter from another folder, with variables added to (or, if None, taken from) ours."""
    merged = dict(os.environ)
    for name, value in (env or {}).items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = value
    tests = str(Path(__file__).parent)
    merged["PYTHONPATH"] = os.pathsep.join(filter(None, [tests, merged.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=merged, cwd="/", timeout=300
    )
    if check:
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def load(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))
