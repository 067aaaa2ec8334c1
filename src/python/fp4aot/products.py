"""Matrix products of FP4 operands. Shapes, dtypes and layouts: :mod:`fp4aot.ops`."""

from __future__ import annotations

from typing import Any

from ._backend import DEFAULT_TACTIC, Array, Tensor, argument_error, numpy_backend, torch_backend
from ._loader import is_boolean


def gemm_nvfp4(
    a: Array,
    b: Array,
    a_scales: Array,
    b_scales: Array,
    alpha: Array | None = None,
    bias: Array | None = None,
    *,
    out_dtype: Any = None,
    out: Array | None = None,
    tactic: int = 0,
    pdl: bool = False,
) -> Array:
    """``alpha * dequantised(a) @ dequantised(b).T + bias``, both operands NVFP4 (W4A4), summed in float32.

    Args:
        a: codes of the activations, ``[*, K/2]``; K a multiple of 32.
        b: codes of the weights, ``[N, K/2]``; N a multiple of 8.
        a_scales, b_scales: swizzled block scales (:func:`fp4aot.swizzle_scales` makes them from linear ones). Padding
            along K has to be zero, as fp4aot writes it; padding rows may hold anything.
        alpha: one float32 on the device, ``1 / (global_a * global_b)``; None means 1. Compute it as
            ``1 / global_a / global_b``, which is right wherever alpha is a float32: ``global_a * global_b`` overflows
            where both operands are small (alpha would be 0), though alpha times the sum is not. Below 2**-126 alpha is
            subnormal and loses digits.
        bias: ``[N]``, bfloat16, float16 or float32; added in float32.
        out_dtype: bfloat16 (default for tensors), float16 or float32 (default for NumPy); ignored if ``out`` is given.
        out: ``[*, N]``, rows may be strided.
        tactic: a number of :func:`fp4aot.list_tactics` for this shape; 0 chooses.

    Returns ``[*, N]``, rounded once.
    """
    if not isinstance(a, Tensor):
        return numpy_backend(a, pdl).gemm("gemm_nvfp4", a, b, a_scales, b_scales, alpha, bias, out_dtype, out, tactic)
    try:
        if tactic is not DEFAULT_TACTIC and is_boolean(tactic):  # which torch counts as a number
            raise TypeError
        if out is None:
            backend = torch_backend()
            dtype = backend.dtype(out_dtype)
            if tactic is not DEFAULT_TACTIC or pdl is not False:
                return backend.gemm_nvfp4(a, b, a_scales, b_scales, dtype, alpha, bias, tactic, pdl)
            return backend.gemm_nvfp4(a, b, a_scales, b_scales, dtype, alpha, bias)  # 0.4 us less in torch's parser
        torch_backend().gemm_nvfp4_out(out, a, b, a_scales, b_scales, alpha, bias, tactic, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error(
            "gemm_nvfp4",
            error,
            out,
            a=a,
            b=b,
            a_scales=a_scales,
            b_scales=b_scales,
            alpha=alpha,
            bias=bias,
            tactic=tactic,
            pdl=pdl,
        ) from None


def gemm_mxfp4(
    a: Array,
    b: Array,
    a_scales: Array,
    b_scales: Array,
    alpha: Array | None = None,
    bias: Array | None = None,
    *,
    out_dtype: Any = None,
    out: Array | None = None,
    tactic: int = 0,
    pdl: bool = False,
) -> Array:
    """``alpha * dequantised(a) @ dequantised(b).T + bias``, both operands MXFP4; arguments as :func:`gemm_nvfp4`."""
    if not isinstance(a, Tensor):
        return numpy_backend(a, pdl).gemm("gemm_mxfp4", a, b, a_scales, b_scales, alpha, bias, out_dtype, out, tactic)
    try:
        if tactic is not DEFAULT_TACTIC and is_boolean(tactic):  # which torch counts as a number
            raise TypeError
        if out is None:
            backend = torch_backend()
            dtype = backend.dtype(out_dtype)
            if tactic is not DEFAULT_TACTIC or pdl is not False:
                return backend.gemm_mxfp4(a, b, a_scales, b_scales, dtype, alpha, bias, tactic, pdl)
            return backend.gemm_mxfp4(a, b, a_scales, b_scales, dtype, alpha, bias)  # 0.4 us less in torch's parser
        torch_backend().gemm_mxfp4_out(out, a, b, a_scales, b_scales, alpha, bias, tactic, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error(
            "gemm_mxfp4",
            error,
            out,
            a=a,
            b=b,
            a_scales=a_scales,
            b_scales=b_scales,
            alpha=alpha,
            bias=bias,
            tactic=tactic,
            pdl=pdl,
        ) from None
