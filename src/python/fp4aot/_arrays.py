"""Checks of NumPy arguments: what reaches the C ABI is a pointer, so everything is checked here."""

from __future__ import annotations

import math
import sys
from typing import Any

from ._wording import give, is_output
from .runtime import dtype_code


def numpy() -> Any:
    """The numpy module, or a TypeError that says it is missing."""
    try:
        import numpy as np
    except ModuleNotFoundError:
        raise TypeError(
            "fp4aot's ops take torch tensors or NumPy arrays; neither fits here and NumPy is not installed: "
            "pip install numpy"
        ) from None
    return np


def _masked_arrays() -> Any:
    """The class of masked arrays, or no class: naming it would import numpy.ma, which takes 20 ms, or for ever in a
    child that was forked while another thread was importing it."""
    return getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())


def array_of(op: str, name: str, value: Any, *, first: bool = False) -> Any:
    """``value`` as a native-endian array, or a TypeError. ``first``: the argument that chooses between tensors and
    arrays; where it is another, that one was an array."""
    np = numpy()
    if isinstance(value, _masked_arrays()):
        fix = give(name, "an unmasked") if is_output(name) else f"Pass {name}.filled(value)."
        raise TypeError(f"{op}: {name} is a masked array, and the mask would be ignored. {fix}")
    if isinstance(value, np.ndarray):
        if value.dtype.isnative:
            return value
        fix = "" if is_output(name) else " Convert it: .astype(array.dtype.newbyteorder('='))."
        raise TypeError(f"{op}: {name} has dtype {value.dtype.str}; NumPy arrays must be of native byte order.{fix}")
    given = f"{name} is a {type(value).__module__}.{type(value).__name__}"
    if first:
        raise TypeError(f"{op}: {given}; the arguments must be torch tensors, or NumPy arrays.")
    fix = f"Pass {name} as a NumPy array"
    if type(value).__module__.partition(".")[0] == "torch":
        fix += " (tensor.numpy()), or all as torch tensors (torch.from_numpy(array))"
    raise TypeError(f"{op}: {given}, but the first argument is a NumPy array. {fix}.")


def _contiguous(name: str) -> str:
    """What to do about an array whose elements are not where they must be."""
    return give(name, "a contiguous") if is_output(name) else "Pass a contiguous copy: numpy.ascontiguousarray(...)."


def matrix(op: str, name: str, array: Any) -> tuple[int, int, int]:
    """(rows, columns, row stride in elements) with the leading dimensions as rows; never copies."""
    if array.ndim < 1:
        raise ValueError(f"{op}: {name} is a scalar; it must have at least one dimension, [rows, columns].")
    fix = _contiguous(name)
    columns = array.shape[-1]
    if columns > 1 and array.size and array.strides[-1] != array.itemsize:
        raise ValueError(f"{op}: the last dimension of {name} {array.shape} must be contiguous. {fix}")
    rows = math.prod(array.shape[:-1])
    stride, expected = columns, None
    for size, byte_stride in zip(reversed(array.shape[:-1]), reversed(array.strides[:-1]), strict=True):
        if size == 1 or rows == 0:
            continue
        if expected is None:
            if byte_stride % array.itemsize:
                raise ValueError(f"{op}: the rows of {name} must be whole elements apart. {fix}")
            stride = byte_stride // array.itemsize
        elif byte_stride != expected:
            raise ValueError(
                f"{op}: {name} of shape {array.shape} and strides {array.strides} cannot be seen as [rows, columns] "
                f"without a copy. {fix}"
            )
        expected = byte_stride * size
    if rows > 1 and stride < columns:
        raise ValueError(
            f"{op}: the rows of {name} {array.shape} are {stride} elements apart; they may not overlap or run "
            f"backwards, so at least {columns}. {fix}"
        )
    return rows, columns, stride


def float_code(op: str, name: str, array: Any) -> int:
    """fp4aot_dtype of the array."""
    try:
        return dtype_code(array.dtype)
    except ValueError:
        fix = "" if is_output(name) else " Convert it: .astype(numpy.float32)."
        raise ValueError(
            f"{op}: {name} is {array.dtype}; allowed are float32, float16 and ml_dtypes.bfloat16.{fix}"
        ) from None


def output_dtype(op: str, name: str, dtype: Any) -> Any:
    """The numpy.dtype of an output: float32 for None."""
    np = numpy()
    allowed = "it must be numpy.float32, numpy.float16 or ml_dtypes.bfloat16"
    if type(dtype).__module__.partition(".")[0] == "torch":
        raise TypeError(f"{op}: {name} is {dtype}, but the arguments are NumPy arrays; {allowed}.")
    try:
        found = np.dtype(np.float32 if dtype is None else dtype)
        dtype_code(found)
    except (TypeError, ValueError):
        raise ValueError(f"{op}: {name} is {dtype!r}; {allowed}.") from None
    if not found.isnative:
        raise ValueError(f"{op}: {name} is {found.str}; it must be of native byte order.")
    return found


def code_array(op: str, name: str, value: Any, *, first: bool = False) -> Any:
    """An array of codes, two in a byte."""
    array = array_of(op, name, value, first=first)
    if array.dtype != numpy().uint8:
        raise ValueError(f"{op}: {name} has dtype {array.dtype}; it must be uint8, two e2m1 codes in a byte.")
    return array


# By the end of the op's name: ml_dtypes' name of the scales, besides uint8.
_SCALE_DTYPES = {"nvfp4": ("float8_e4m3fn",), "mxfp4": ("float8_e8m0fnu",)}


def scale_matrix(op: str, name: str, value: Any, *, first: bool = False) -> Any:
    """An array of block scales of the op's format, of either where the op has none."""
    array = array_of(op, name, value, first=first)
    allowed = _SCALE_DTYPES.get(op.rpartition("_")[2], ("float8_e4m3fn", "float8_e8m0fnu"))
    if array.dtype != numpy().uint8 and array.dtype.name not in allowed:
        names = " or ".join(f"ml_dtypes.{dtype}" for dtype in allowed)
        raise ValueError(f"{op}: {name} has dtype {array.dtype}; it must be uint8 (the scales' bytes) or {names}.")
    return array


def scale_array(op: str, name: str, value: Any, *, first: bool = False) -> Any:
    """A contiguous :func:`scale_matrix`."""
    array = scale_matrix(op, name, value, first=first)
    if not array.flags.c_contiguous:
        raise ValueError(f"{op}: {name} must be contiguous. {_contiguous(name)}")
    return array


def check_linear(op: str, name: str, scales: Any, rows: int, blocks: int) -> None:
    """Linear scales have a row for each row of the codes, or are a flat buffer (whose size the library checks)."""
    if scales.ndim == 1 or (scales.ndim and scales.shape[-1] == blocks and math.prod(scales.shape[:-1]) == rows):
        return
    raise ValueError(
        f"{op}: {name} has shape {scales.shape}; linear scales here are [{rows}, {blocks}] ([*, K/block]), or "
        'one-dimensional. If they are swizzled, leave out scale_layout="linear".'
    )


def float_scalar(op: str, name: str, value: Any) -> Any:
    """One float32, also from a number; the returned array owns the memory."""
    np = numpy()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return np.asarray(value, dtype=np.float32)
        except OverflowError:
            raise ValueError(f"{op}: {name} is an integer beyond the range of float32.") from None
    return scalar_array(op, name, np.asarray(value) if isinstance(value, np.generic) else value)


def scalar_array(op: str, name: str, value: Any) -> Any:
    """An array of one float32."""
    array = array_of(op, name, value)
    if array.dtype != numpy().float32 or array.size != 1:
        raise ValueError(f"{op}: {name} must be one float32; it is {array.dtype} of shape {array.shape}.")
    return array


def check_apart(op: str, outputs: dict[str, Any], inputs: dict[str, Any]) -> None:
    """Raises ValueError if an output shares memory with an input or another output."""
    np, others = numpy(), dict(inputs)
    for name, output in outputs.items():
        for other_name, other in others.items():
            if other is not None and np.may_share_memory(output, other, max_work=10_000):
                raise ValueError(f"{op}: {name} overlaps {other_name} in memory. Pass an array of its own.")
        others[name] = output


def check_shape(op: str, name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Raises ValueError if the shape differs."""
    if array.shape != shape:
        raise ValueError(f"{op}: {name} has shape {array.shape}; it must be {shape}.")


def writable(op: str, name: str, array: Any) -> Any:
    """The array, or a ValueError if it is read-only."""
    if not array.flags.writeable:
        raise ValueError(f"{op}: {name} is written to, but this array is read-only. {give(name, 'a writable')}")
    return array
