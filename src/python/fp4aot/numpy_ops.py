"""The ops on NumPy arrays, through the C ABI on the CPU. No torch; block scales are uint8 arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import _loader
from ._arrays import (
    array_of,
    check_apart,
    check_linear,
    check_shape,
    code_array,
    float_code,
    float_scalar,
    matrix,
    numpy,
    output_dtype,
    scalar_array,
    scale_array,
    scale_matrix,
    writable,
)
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
    x = array_of(op, "x", x, first=True)
    rows, columns, stride = matrix(op, "x", x)
    if not isinstance(epsilon, (int, float)) or isinstance(epsilon, bool):
        raise TypeError(f"{op}: epsilon is {epsilon!r}; it must be a float.")
    if op.startswith("silu") and columns % 2:
        raise ValueError(f"{op}: x has {columns} columns; it must have 2 * K, the gate and then the up half.")
    k = columns // 2 if op.startswith("silu") else columns
    blocks = k // (16 if op.endswith("nvfp4") else 32)
    lead = x.shape[:-1]
    if out is None:
        shape = (*lead, blocks) if layout == 1 else swizzled_shape(rows, blocks)
        codes, scales = np.empty((*lead, k // 2), np.uint8), np.empty(shape, np.uint8)
    else:
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise ValueError(f"{op}: out is a {type(out).__name__}; it must be a pair of arrays (codes, scales).")
        codes = writable(op, "out[0] (codes)", code_array(op, "out[0] (codes)", out[0]))
        scales = writable(op, "out[1] (scales)", scale_array(op, "out[1] (scales)", out[1]))
        check_shape(op, "out[0] (codes)", codes, (*lead, k // 2))
        if layout == 1:
            check_linear(op, "out[1] (scales)", scales, rows, blocks)
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
    if global_scale is not None:
        global_scale = float_scalar(op, "global_scale", global_scale)
        params.global_scale = global_scale.ctypes.data  # type: ignore[attr-defined]
    if op.startswith("rmsnorm"):
        weight = array_of(op, "weight", weight)
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
    outputs = {"out[0] (codes)": codes, "out[1] (scales)": scales}
    if residual is not None:
        outputs["residual"] = residual
    check_apart(op, outputs, {"x": x, "weight": weight, "global_scale": global_scale})
    _loader.call(op, params)
    return codes, scales


def dequantize(op: str, codes: Any, scales: Any, layout: int, dtype: Any, out: Any, global_scale: Any) -> Array:
    """dequantize_nvfp4 and dequantize_mxfp4."""
    np = numpy()
    codes = code_array(op, "codes", codes, first=True)
    scales = scale_array(op, "scales", scales)
    rows, half, stride = matrix(op, "codes", codes)
    if layout == 1:
        check_linear(op, "scales", scales, rows, half * 2 // (16 if op.endswith("nvfp4") else 32))
    shape = (*codes.shape[:-1], half * 2)
    if out is None:
        out = np.empty(shape, output_dtype(op, "dtype", dtype))
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
    check_apart(op, {"out": out}, {"codes": codes, "scales": scales, "global_scale": scalar})
    _loader.call(op, params)
    return out


def nvfp4_global_scale(x: Any, out: Any) -> Array:
    """One float32 of shape []."""
    np, op = numpy(), "nvfp4_global_scale"
    x = array_of(op, "x", x, first=True)
    rows, columns, stride = matrix(op, "x", x)
    out = np.empty((), np.float32) if out is None else writable(op, "out", scalar_array(op, "out", out))
    check_apart(op, {"out": out}, {"x": x})
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
    scales = scale_matrix(op, "scales", scales, first=True)
    rows, columns, stride = matrix(op, "scales", scales)
    if out is None:
        out = np.empty(swizzled_shape(rows, columns), scales.dtype)
    out = writable(op, "out", scale_array(op, "out", out))
    check_apart(op, {"out": out}, {"scales": scales})
    _relayout(op, rows, columns, scales, stride, out)
    return out


def unswizzle_scales(scales: Any, rows: int, columns: int, out: Any) -> Array:
    """Swizzled to linear."""
    np, op = numpy(), "unswizzle_scales"
    scales = scale_array(op, "scales", scales, first=True)
    rows, columns = _loader.integer(op, "rows", rows), _loader.integer(op, "columns", columns)
    shape = max(rows, 0), max(columns, 0)
    needed = math.prod(swizzled_shape(*shape))
    if scales.size < needed:  # before an allocation of any size
        raise ValueError(
            f"{op}: scales have {scales.size} bytes, but {needed} are needed for rows = {rows}, columns = {columns} "
            "(roundup(rows, 128) * roundup(columns, 4))."
        )
    if out is None:
        out = np.empty(shape, scales.dtype)
    out = writable(op, "out", scale_matrix(op, "out", out))
    check_shape(op, "out", out, shape)
    check_apart(op, {"out": out}, {"scales": scales})
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


def set_alpha_and_bias(op: str, params: Any, alpha: Any, bias: Any, n: int) -> tuple[Any, Any]:
    """Gives a product's params what is applied to its sums. Returns the arrays, which must outlive the call."""
    if alpha is not None:
        alpha = float_scalar(op, "alpha", alpha)
        params.alpha = alpha.ctypes.data
    if bias is not None:
        bias = array_of(op, "bias", bias)
        check_shape(op, "bias", bias, (n,))
        matrix(op, "bias", bias)
        params.bias = bias.ctypes.data
        params.bias_dtype = float_code(op, "bias", bias)
    return alpha, bias


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
    a, b = code_array(op, "a", a, first=True), code_array(op, "b", b)
    a_scales, b_scales = scale_array(op, "a_scales", a_scales), scale_array(op, "b_scales", b_scales)
    m, half, a_stride = matrix(op, "a", a)
    n, b_half, b_stride = matrix(op, "b", b)
    if b.ndim != 2 or b_half != half:
        raise ValueError(f"{op}: a has shape {a.shape} and b {b.shape}; they must be [*, K/2] and [N, K/2].")
    if out is None:
        out = np.empty((*a.shape[:-1], n), output_dtype(op, "out_dtype", out_dtype))
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
    alpha, bias = set_alpha_and_bias(op, params, alpha, bias, n)
    inputs = {"a": a, "b": b, "a_scales": a_scales, "b_scales": b_scales, "alpha": alpha, "bias": bias}
    check_apart(op, {"out": out}, inputs)
    _loader.call(op, params)
    return out
