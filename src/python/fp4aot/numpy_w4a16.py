"""The W4A16 ops on NumPy arrays, through the C ABI on the CPU."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from . import _loader
from ._arrays import (
    array_of,
    check_apart,
    check_shape,
    code_array,
    float_code,
    matrix,
    numpy,
    output_dtype,
    scale_array,
    scale_matrix,
    writable,
)
from .numpy_ops import set_alpha_and_bias, swizzled_shape
from .runtime import parse_device

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def prepared_bytes(op: str, n: int, k: int) -> int:
    """Size of prepared weights; ValueError for sizes that the ops do not take."""
    size = ctypes.c_int64()
    numbers = (ctypes.c_int64(_loader.integer(op, name, value)) for name, value in (("n", n), ("k", k)))
    _loader.check(_loader.library().fp4aot_w4a16_prepared_bytes(_loader.slot(op), *numbers, ctypes.byref(size)))
    return size.value


def prepared_array(op: str, name: str, value: Any, n: int, k: int) -> Array:
    """``value`` as prepared weights of these sizes. They are an attribute that anybody may set, and the C ABI gets no
    more than an address."""
    array = array_of(op, name, value)
    if array.dtype != numpy().uint8:
        raise ValueError(f"{op}: {name} holds prepared weights and must be uint8; it is {array.dtype}.")
    if not array.flags.c_contiguous:
        raise ValueError(f"{op}: {name} must be contiguous. Pass numpy.ascontiguousarray(...).")
    needed = prepared_bytes(op, n, k)
    if array.size < needed:
        raise ValueError(
            f"{op}: {name} has {array.size} bytes; weights of N = {n}, K = {k} have {needed}. Give the N, K and format "
            "that were prepared."
        )
    return array  # type: ignore[no-any-return]


def prepare(op: str, codes: Any, scales: Any, layout: int) -> Array:
    """prepare_w4a16_nvfp4 and prepare_w4a16_mxfp4."""
    np = numpy()
    codes = code_array(op, "b", codes, first=True)
    if codes.ndim != 2:
        raise ValueError(f"{op}: b has shape {codes.shape}; it must be [N, K/2].")
    n, half, stride = matrix(op, "b", codes)
    columns = half * 2 // (16 if op.endswith("nvfp4") else 32)
    if layout == 0:
        scales = scale_array(op, "b_scales", scales)
        scales_stride, scales_bytes = 0, scales.size
    else:
        scales = scale_matrix(op, "b_scales", scales)
        rows, width, scales_stride = matrix(op, "b_scales", scales)
        if scales.ndim == 1:
            scales_stride, scales_bytes = columns, scales.size
        elif width != columns or rows < n:
            raise ValueError(
                f"{op}: b_scales has shape {scales.shape}; linear scales here are [{n}, {columns}] ([N, K/block], or "
                'more rows), or one-dimensional. If they are swizzled, leave out scale_layout="linear".'
            )
        else:
            scales_bytes = (rows - 1) * scales_stride + width
    prepared = np.empty(prepared_bytes(op, n, half * 2), np.uint8)
    params = _loader.make_params(
        op,
        device=parse_device("cpu"),
        scale_layout=layout,
        n=n,
        k=half * 2,
        codes=codes.ctypes.data,
        codes_stride=stride,
        scales=scales.ctypes.data,
        scales_stride=scales_stride,
        scales_bytes=scales_bytes,
        prepared=prepared.ctypes.data,
        prepared_bytes=prepared.size,
    )
    _loader.call(op, params)
    return prepared


def restore(op: str, prepared: Any, n: int, k: int, layout: int) -> tuple[Array, Array]:
    """restore_w4a16_nvfp4 and restore_w4a16_mxfp4."""
    np = numpy()
    prepared = prepared_array(op, "data", prepared, n, k)
    columns = k // (16 if op.endswith("nvfp4") else 32)
    codes = np.empty((n, k // 2), np.uint8)
    scales = np.empty((n, columns) if layout == 1 else swizzled_shape(n, columns), np.uint8)
    params = _loader.make_params(
        op,
        device=parse_device("cpu"),
        scale_layout=layout,
        n=n,
        k=k,
        codes=codes.ctypes.data,
        codes_stride=k // 2,
        scales=scales.ctypes.data,
        scales_stride=columns if layout == 1 else 0,
        scales_bytes=scales.size,
        prepared=prepared.ctypes.data,
        prepared_bytes=prepared.size,
    )
    _loader.call(op, params)
    return codes, scales


def gemm(
    op: str, a: Any, prepared: Any, n: int, k: int, alpha: Any, bias: Any, out_dtype: Any, out: Any, tactic: int
) -> Array:
    """gemm_w4a16_nvfp4 and gemm_w4a16_mxfp4."""
    np = numpy()
    a = array_of(op, "a", a, first=True)
    if a.dtype.name not in ("float16", "bfloat16"):
        raise ValueError(
            f"{op}: a is {a.dtype}; allowed are float16 and ml_dtypes.bfloat16. Convert it: .astype(numpy.float16)."
        )
    a_dtype = float_code(op, "a", a)
    m, columns, a_stride = matrix(op, "a", a)
    if columns != k:
        raise ValueError(f"{op}: a has {columns} columns and b (weights) K = {k}; a must be [*, K].")
    prepared = prepared_array(op, "b", prepared, n, k)
    if out is None:
        out = np.empty((*a.shape[:-1], n), output_dtype(op, "out_dtype", a.dtype if out_dtype is None else out_dtype))
    out = writable(op, "out", array_of(op, "out", out))
    check_shape(op, "out", out, (*a.shape[:-1], n))
    dtype = float_code(op, "out", out)
    params = _loader.make_params(
        op,
        device=parse_device("cpu"),
        tactic=tactic,
        m=m,
        n=n,
        k=k,
        a=a.ctypes.data,
        a_stride=a_stride,
        a_dtype=a_dtype,
        prepared=prepared.ctypes.data,
        prepared_bytes=prepared.size,
        d=out.ctypes.data,
        d_stride=matrix(op, "out", out)[2],
        d_dtype=dtype,
        bias_dtype=dtype,
    )
    alpha, bias = set_alpha_and_bias(op, params, alpha, bias, n)
    check_apart(op, {"out": out}, {"a": a, "b": prepared, "alpha": alpha, "bias": bias})
    _loader.call(op, params)
    return out
