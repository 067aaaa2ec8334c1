"""Loads libfp4aot.so with ctypes, checks its ABI, and turns its statuses into exceptions.

Nothing here touches a GPU, a driver or NVML; the library does at the first call that names a CUDA device.
"""

from __future__ import annotations

import ctypes
import functools
import operator
from pathlib import Path
from typing import Any

from . import _abi
from ._wording import in_python
from .errors import DriverTooOldError, Fp4aotError, LaunchError, LoadError, NoImageError, UnsupportedError

LIBRARY_DIR = _abi.installed("lib")

_EXCEPTIONS: dict[str, type[Exception]] = {
    "FP4AOT_INVALID_ARGUMENT": ValueError,
    "FP4AOT_UNSUPPORTED": UnsupportedError,
    "FP4AOT_NO_IMAGE": NoImageError,
    "FP4AOT_LOAD_FAILED": LoadError,
    "FP4AOT_DRIVER_TOO_OLD": DriverTooOldError,
    "FP4AOT_WORKSPACE_TOO_SMALL": ValueError,
    "FP4AOT_LAUNCH_FAILED": LaunchError,
}


def check_abi(found: int, expected: tuple[int, int], path: Path) -> None:
    """Raises LoadError unless the library's ABI (major << 16 | minor) serves this package's header."""
    major, minor = found >> 16, found & 0xFFFF
    if major != expected[0] or minor < expected[1]:
        raise LoadError(
            f"{path} has ABI {major}.{minor}, but this fp4aot package needs {expected[0]}.{expected[1]} (the same "
            "major, at least this minor). Files of two versions are mixed: pip install --force-reinstall fp4aot"
        )


@functools.cache
def library() -> ctypes.CDLL:
    """libfp4aot.so, loaded and checked once a process."""
    path = LIBRARY_DIR / "libfp4aot.so"
    if not path.exists():
        raise LoadError(
            f"{path} is missing: this fp4aot was not built (a source tree on sys.path?) or is damaged. "
            "Install the wheel, or build it with: pip install ."
        )
    try:
        lib = ctypes.CDLL(str(path))
    except OSError as error:
        raise LoadError(
            f"{path} cannot be loaded: {error}. fp4aot needs x86-64 Linux with glibc 2.28 or newer."
        ) from None
    abi = _abi.load()
    lib.fp4aot_abi_version.restype = ctypes.c_uint32
    check_abi(lib.fp4aot_abi_version(), abi.version, path)
    for name in ("last_error", "version", "info_json"):
        getattr(lib, f"fp4aot_{name}").restype = ctypes.c_char_p
        getattr(lib, f"fp4aot_{name}").argtypes = []
    device = abi.structs["fp4aot_device"]
    lib.fp4aot_supports.argtypes = [ctypes.c_int, device]
    lib.fp4aot_preload.argtypes = [device]
    lib.fp4aot_image_name.argtypes = [device, ctypes.POINTER(ctypes.c_char_p)]
    lib.fp4aot_tactic_name.argtypes = [ctypes.c_int, device, ctypes.c_int32, ctypes.POINTER(ctypes.c_char_p)]
    return lib


def check(status: int) -> None:
    """Raises what a status of the C ABI stands for, with fp4aot_last_error() as its text."""
    if status == 0:
        return
    message = in_python(library().fp4aot_last_error().decode())
    constants = _abi.load().constants
    for name, exception in _EXCEPTIONS.items():
        if constants[name] == status:
            raise exception(message)
    raise Fp4aotError(message)


_BITS: dict[Any, int] = {ctypes.c_int32: 32, ctypes.c_int64: 64}


def is_boolean(value: Any) -> bool:
    """Whether it is a bool, or a tensor or an array of them: Python counts True as 1, where it is always a mistake."""
    if isinstance(value, int):
        return isinstance(value, bool)
    return str(getattr(value, "dtype", "")).removeprefix("torch.") == "bool"


def is_switch(value: object) -> bool:
    """Whether torch takes it as a bool."""
    return hasattr(type(value), "__bool__")


def integer(op: str, name: str, value: Any, bits: int = 64) -> int:
    """``value`` as an int of a signed field, which ctypes would truncate, or a TypeError or ValueError."""
    try:
        if is_boolean(value):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{op}: {name} is {value!r}; it must be an integer.") from None
    limit = 1 << (bits - 1)
    if not -limit <= number < limit:
        raise ValueError(f"{op}: {name} = {number} is out of range; it must be in {-limit}..{limit - 1}.")
    return number


@functools.cache
def _integers(op: str) -> dict[str, int]:
    """The bits of the struct's signed integers."""
    return {field[0]: _BITS[field[1]] for field in _abi.load().ops[op]._fields_ if field[1] in _BITS}


def make_params(op: str, **values: Any) -> ctypes.Structure:
    """The op's parameter struct with struct_size set and everything not named zero; integers are range-checked."""
    struct, integers = _abi.load().ops[op], _integers(op)
    for name, value in values.items():
        if name in integers:
            values[name] = integer(op, name, value, integers[name])
    return struct(struct_size=ctypes.sizeof(struct), **values)


def call(op: str, params: ctypes.Structure) -> None:
    """Runs an op whose tensors are CPU memory, with a workspace of the size that it asks for."""
    lib = library()
    needed = ctypes.c_size_t()
    check(getattr(lib, f"fp4aot_{op}_workspace_size")(ctypes.byref(params), ctypes.byref(needed)))
    workspace = None
    if needed.value:
        workspace = ctypes.create_string_buffer(needed.value + 16)
        address = ctypes.addressof(workspace)
        params.workspace = (address + 15) // 16 * 16  # type: ignore[attr-defined]
        params.workspace_bytes = needed.value  # type: ignore[attr-defined]
    check(getattr(lib, f"fp4aot_{op}")(ctypes.byref(params)))


def slot(op: str) -> int:
    """The op's number in the C ABI."""
    ops = list(_abi.load().ops)
    if op not in ops:
        raise ValueError(f"{op!r} is not an op of fp4aot. The ops are: {', '.join(ops)}.")
    return ops.index(op)
