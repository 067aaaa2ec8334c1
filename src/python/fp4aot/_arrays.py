"""Checks of NumPy arguments: what reaches the C ABI is a pointer, so everything is checked here."""

from __future__ import annotations

import math
from typing import Any

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


def array_of(op: str, name: str, value: Any) -> Any:
    """``value`` as a native-endian array, or a TypeError that says what the ops take."""
    np = numpy()
    if isinstance(value, np.ndarray) and value.dtype.isnative:
        return value
    given = f"a {type(value).__module__}.{type(value).__name__}"
    if isinstance(value, np.ndarray):
        given = f"an array of dtype {value.dtype}"
    raise TypeError(
        f"{op}: {name} is {given}; the arguments must be torch tensors, or NumPy arrays of native byte order."
    )


def matrix(op: str, name: str, array: Any) -> tuple[int, int, int]:
    """(rows, columns, row stride in elements) with the leading dimensions as rows; never copies."""
    if array.ndim < 1:
        raise ValueError(f"{op}: {name} is a scalar; it must have at least one dimension, [rows, columns].")
    fix = "Pass numpy.ascontiguousarray(...)."
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
    return rows, columns, stride


def float_code(op: str, name: str, array: Any) -> int:
    """fp4aot_dtype of the array."""
    try:
        return dtype_code(array.dtype)
    except ValueError:
        raise ValueError(
            f"{op}: {name} is {array.dtype}; allowed are float32, float16 and ml_dtypes.bfloat16. "
            "Convert it: .astype(numpy.float32)."
        ) from None


def byte_array(op: str, name: str, value: Any) -> Any:
    """An array of one-byte elements: codes or block scales."""
    array = array_of(op, name, value)
    if array.itemsize != 1 or array.dtype.kind in "bi":
        raise ValueError(f"{op}: {name} has dtype {array.dtype}; it must be uint8.")
    return array


def scale_array(op: str, name: str, value: Any) -> Any:
    """A contiguous array of block scales."""
    array = byte_array(op, name, value)
    if not array.flags.c_contiguous:
        raise ValueError(f"{op}: {name} must be contiguous. Pass numpy.ascontiguousarray(...).")
    return array


def float_scalar(op: str, name: str, value: Any) -> Any:
    """One float32, also from a Python float; the returned array owns the memory."""
    np = numpy()
    array = np.asarray(value, dtype=np.float32) if isinstance(value, (int, float)) else np.asarray(value)
    if array.dtype != np.float32 or array.size != 1:
        raise ValueError(f"{op}: {name} must be one float32; it is {array.dtype} of shape {array.shape}.")
    return array


def check_shape(op: str, name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Raises ValueError if the shape differs."""
    if array.shape != shape:
        raise ValueError(f"{op}: {name} has shape {array.shape}; it must be {shape}.")


def writable(op: str, name: str, array: Any) -> Any:
    """The array, or a ValueError if it is read-only."""
    if not array.flags.writeable:
        raise ValueError(f"{op}: {name} is written to, but this array is read-only. Pass a copy: .copy().")
    return array
