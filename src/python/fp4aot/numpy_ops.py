"""The ops on NumPy arrays, through the C ABI on the CPU. No torch; block scales are uint8 arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _loader
from ._arrays import array_of, byte_array, check_shape, float_code, float_scalar, matrix, numpy, scale_array, writable
from .runtime import parse_device

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def swizzled_shape(rows: int, columns: int) -> tuple[int, int]:
    """Shape of a swizzled scale buffer."""
    return (rows + 127) // 128 * 128, (columns + 3) // 4 * 4


def quantize(
    op: str,
    x: Any,
    layout: int,
    out: tuple[Any, Any] | None,
    *,
    global_scale: Any = None,
    rounding: int = 0,
    weight: Any = None,
    epsilon: float = 0.0,
    residual: Any = None,
) -> tuple[Array, Array]:
    """Every op that quantises."""
    np = numpy()
    x = array_of(op, "x", x)
    rows, columns, stride = matrix(op, "x", x)
    if op.startswith("silu") and columns % 2:
        raise ValueError(f"{op}: x has {columns} columns; it must have 2 * K, the gate and then the up half.")
    k = columns // 2 if op.startswith("silu") else columns
    blocks = k // (16 if op.endswith("nvfp4") else 32)
    lead = x.shape[:-1]
    if out is None:
        shape = (*lead, blocks) if layout == 1 else swizzled_shape(rows, blocks)
        codes, scales = np.empty((*lead, k // 2), np.uint8), np.empty(shape, np.uint8)
    else:
        codes = writable(op, "out[0] (codes)", byte_array(op, "out[0] (codes)", out[0]))
        scales = writable(op, "out[1] (scales)", scale_array(op, "out[1] (scales)", out[1]))
        check_shape(op, "out[0] (codes)", codes, (*lead, k // 2))
    params = _loader.make_params(
        op,
        device=parse_device("cpu"),
        input_dtype=float_code(op, "x", x),
        rows=rows,
        k=k,
        input=x.ctypes.data,
        input_stride=stride,
        codes=codes.ctypes.data,
        codes_stride=matrix(op, "out[0] (codes)", codes)[2],
        scales=scales.ctypes.data,
        scales_bytes=scales.size,
        scale_layout=layout,
        rounding=rounding,
        epsilon=epsilon,
    )
    keep = [x]
    if global_scale is not None:
        keep.append(float_scalar(op, "global_scale", global_scale))
        params.global_scale = keep[-1].ctypes.data  # type: ignore[attr-defined]
    for name, value, shape in (("weight", weight, (k,)), ("residual", residual, x.shape)):
        if value is None:
            continue
        array = array_of(op, name, value)
        check_shape(op, name, array, shape)
        if array.dtype != x.dtype:
            raise ValueError(f"{op}: {name} is {array.dtype}; it must have the dtype of x, {x.dtype}.")
        row_stride = matrix(op, name, array)[2]
        if name == "residual":
            params.residual_stride = row_stride  # type: ignore[attr-defined]
            writable(op, name, array)
        setattr(params, name, array.ctypes.data)
        keep.append(array)
    _loader.call(op, params)
    return codes, scales


def dequantize(op: str, codes: Any, scales: Any, layout: int, dtype: Any, out: Any, global_scale: Any) -> Array:
    """dequantize_nvfp4 and dequantize_mxfp4."""
    np = numpy()
    codes = byte_array(op, "codes", codes)
    scales = scale_array(op, "scales", scales)
    rows, half, stride = matrix(op, "codes", codes)
    shape = (*codes.shape[:-1], half * 2)
    if out is None:
        out = np.empty(shape, np.float32 if dtype is None else dtype)
    else:
        out = writable(op, "out", array_of(op, "out", out))
        check_shape(op, "out", out, shape)
    params = _loader.make_params(
        op,
        device=parse_device("cpu"),
        output_dtype=float_code(op, "out", out),
        rows=rows,
        k=half * 2,
        codes=codes.ctypes.data,
        codes_stride=stride,
        scales=scales.ctypes.data,
        scales_bytes=scales.size,
        scale_layout=layout,
        output=out.ctypes.data,
        output_stride=matrix(op, "out", out)[2],
    )
    scalar = None if global_scale is None else float_scalar(op, "global_scale", global_scale)
    if scalar is not None:
        params.global_scale = scalar.ctypes.data  # type: ignore[attr-defined]
    _loader.call(op, params)
    return out


def nvfp4_global_scale(x: Any, out: Any) -> Array:
    """One float32 of shape []."""
    np, op = numpy(), "nvfp4_global_scale"
    x = array_of(op, "x", x)
    rows, columns, stride = matrix(op, "x", x)
    out = np.empty((), np.float32) if out is None else writable(op, "out", float_scalar(op, "out", out))
    params = _loader.make_params(
        op,
        device=parse_device("cpu"),
        input_dtype=float_code(op, "x", x),
        rows=rows,
        k=columns,
        input=x.ctypes.data,
        input_stride=stride,
        global_scale=out.ctypes.data,
    )
    _loader.call(op, params)
    return out


def swizzle_scales(scales: Any, out: Any) -> Array:
    """Linear to swizzled."""
    np, op = numpy(), "swizzle_scales"
    scales = byte_array(op, "scales", scales)
    rows, columns, stride = matrix(op, "scales", scales)
    if out is None:
        out = np.empty(swizzled_shape(rows, columns), scales.dtype)
    out = writable(op, "out", scale_array(op, "out", out))
    _relayout(op, rows, columns, scales, stride, out)
    return out


def unswizzle_scales(scales: Any, rows: int, columns: int, out: Any) -> Array:
    """Swizzled to linear."""
    np, op = numpy(), "unswizzle_scales"
    scales = scale_array(op, "scales", scales)
    if out is None:
        out = np.empty((max(rows, 0), max(columns, 0)), scales.dtype)
    out = writable(op, "out", byte_array(op, "out", out))
    check_shape(op, "out", out, (max(rows, 0), max(columns, 0)))
    _relayout(op, rows, columns, out, matrix(op, "out", out)[2], scales)
    return out


def _relayout(op: str, rows: int, columns: int, linear: Any, stride: int, swizzled: Any) -> None:
    params = _loader.make_params(
        op,
        device=parse_device("cpu"),
        rows=rows,
        columns=columns,
        linear=linear.ctypes.data,
        linear_stride=stride,
        swizzled=swizzled.ctypes.data,
        swizzled_bytes=swizzled.size,
    )
    _loader.call(op, params)


def gemm(
    op: str,
    a: Any,
    b: Any,
    a_scales: Any,
    b_scales: Any,
    alpha: Any,
    bias: Any,
    out_dtype: Any,
    out: Any,
    tactic: int,
) -> Array:
    """gemm_nvfp4 and gemm_mxfp4."""
    np = numpy()
    a, b = byte_array(op, "a", a), byte_array(op, "b", b)
    a_scales, b_scales = scale_array(op, "a_scales", a_scales), scale_array(op, "b_scales", b_scales)
    m, half, a_stride = matrix(op, "a", a)
    n, b_half, b_stride = matrix(op, "b", b)
    if b.ndim != 2 or b_half != half:
        raise ValueError(f"{op}: a has shape {a.shape} and b {b.shape}; they must be [*, K/2] and [N, K/2].")
    if out is None:
        out = np.empty((*a.shape[:-1], n), np.float32 if out_dtype is None else out_dtype)
    out = writable(op, "out", array_of(op, "out", out))
    check_shape(op, "out", out, (*a.shape[:-1], n))
    dtype = float_code(op, "out", out)
    params = _loader.make_params(
        op,
        device=parse_device("cpu"),
        tactic=tactic,
        m=m,
        n=n,
        k=half * 2,
        a_codes=a.ctypes.data,
        a_stride=a_stride,
        a_scales=a_scales.ctypes.data,
        a_scales_bytes=a_scales.size,
        b_codes=b.ctypes.data,
        b_stride=b_stride,
        b_scales=b_scales.ctypes.data,
        b_scales_bytes=b_scales.size,
        d=out.ctypes.data,
        d_stride=matrix(op, "out", out)[2],
        d_dtype=dtype,
        bias_dtype=dtype,
    )
    keep = []
    if alpha is not None:
        keep.append(float_scalar(op, "alpha", alpha))
        params.alpha = keep[-1].ctypes.data  # type: ignore[attr-defined]
    if bias is not None:
        keep.append(array_of(op, "bias", bias))
        check_shape(op, "bias", keep[-1], (n,))
        matrix(op, "bias", keep[-1])
        params.bias = keep[-1].ctypes.data  # type: ignore[attr-defined]
        params.bias_dtype = float_code(op, "bias", keep[-1])  # type: ignore[attr-defined]
    _loader.call(op, params)
    return out
