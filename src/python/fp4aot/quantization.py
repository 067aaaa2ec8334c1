"""Quantising to NVFP4 and MXFP4 and back. Shapes, dtypes and layouts: :mod:`fp4aot.ops`."""

from __future__ import annotations

from typing import Any

from ._backend import (
    LAYOUTS,
    ROUNDINGS,
    SWIZZLED,
    Array,
    Rounding,
    ScaleLayout,
    Tensor,
    argument_error,
    code,
    numpy_backend,
    torch_backend,
)


def quantize_nvfp4(
    x: Array,
    global_scale: Array | None = None,
    *,
    scale_layout: ScaleLayout = "swizzled",
    out: tuple[Array, Array] | None = None,
    pdl: bool = False,
) -> tuple[Array, Array]:
    """Quantises ``x`` ``[*, K]`` (bfloat16, float16, float32; K a multiple of 16) to NVFP4.

    Per block of 16: ``scale = e4m3(global_scale * amax / 6)``, ``codes = e2m1(x * global_scale / scale)``, to the bit
    the same on every device. A block with a NaN or an infinity gets scale NaN.

    Returns ``(codes, scales)``; see :mod:`fp4aot.ops` for shapes and dtypes.
    """
    layout = 0 if scale_layout is SWIZZLED else code(LAYOUTS, "scale_layout", scale_layout)
    if not isinstance(x, Tensor):
        return numpy_backend(x, pdl).quantize("quantize_nvfp4", x, layout, out, global_scale=global_scale)
    try:
        if out is None:
            if layout or pdl is not False:
                return torch_backend().quantize_nvfp4(x, global_scale, layout, pdl)
            return torch_backend().quantize_nvfp4(x, global_scale)  # torch takes 0.4 us to read two arguments
        torch_backend().quantize_nvfp4_out(out[0], out[1], x, global_scale, layout, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error("quantize_nvfp4", error, out, x=x, global_scale=global_scale, pdl=pdl) from None


def quantize_mxfp4(
    x: Array,
    *,
    rounding: Rounding = "ceil",
    scale_layout: ScaleLayout = "swizzled",
    out: tuple[Array, Array] | None = None,
    pdl: bool = False,
) -> tuple[Array, Array]:
    """Quantises ``x`` ``[*, K]`` (bfloat16, float16, float32; K a multiple of 32) to MXFP4.

    Per block of 32 the scale is a power of two: ``rounding="ceil"`` the smallest with ``amax / 6 <= scale`` (nothing
    saturates), ``"floor"`` the OCP MX rule ``2 ** (floor(log2(amax)) - 2)`` (large values saturate).

    Returns ``(codes, scales)``.
    """
    layout = 0 if scale_layout is SWIZZLED else code(LAYOUTS, "scale_layout", scale_layout)
    mode = code(ROUNDINGS, "rounding", rounding)
    if not isinstance(x, Tensor):
        return numpy_backend(x, pdl).quantize("quantize_mxfp4", x, layout, out, rounding=mode)
    try:
        if out is None:
            if mode or layout or pdl is not False:
                return torch_backend().quantize_mxfp4(x, mode, layout, pdl)
            return torch_backend().quantize_mxfp4(x)
        torch_backend().quantize_mxfp4_out(out[0], out[1], x, mode, layout, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error("quantize_mxfp4", error, out, x=x, pdl=pdl) from None


def silu_mul_quantize_nvfp4(
    x: Array,
    global_scale: Array | None = None,
    *,
    scale_layout: ScaleLayout = "swizzled",
    out: tuple[Array, Array] | None = None,
    pdl: bool = False,
) -> tuple[Array, Array]:
    """``quantize_nvfp4(silu(gate) * up)`` for ``x = [gate, up]`` of ``[*, 2K]``, the gate in the first half.

    The product is computed in float32 and rounded to ``x.dtype`` before it is quantised.
    """
    layout = 0 if scale_layout is SWIZZLED else code(LAYOUTS, "scale_layout", scale_layout)
    if not isinstance(x, Tensor):
        return numpy_backend(x, pdl).quantize("silu_mul_quantize_nvfp4", x, layout, out, global_scale=global_scale)
    try:
        if out is None:
            return torch_backend().silu_mul_quantize_nvfp4(x, global_scale, layout, pdl)
        torch_backend().silu_mul_quantize_nvfp4_out(out[0], out[1], x, global_scale, layout, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error("silu_mul_quantize_nvfp4", error, out, x=x, global_scale=global_scale, pdl=pdl) from None


def silu_mul_quantize_mxfp4(
    x: Array,
    *,
    rounding: Rounding = "ceil",
    scale_layout: ScaleLayout = "swizzled",
    out: tuple[Array, Array] | None = None,
    pdl: bool = False,
) -> tuple[Array, Array]:
    """``quantize_mxfp4(silu(gate) * up)`` for ``x = [gate, up]`` of ``[*, 2K]``, the gate in the first half."""
    layout = 0 if scale_layout is SWIZZLED else code(LAYOUTS, "scale_layout", scale_layout)
    mode = code(ROUNDINGS, "rounding", rounding)
    if not isinstance(x, Tensor):
        return numpy_backend(x, pdl).quantize("silu_mul_quantize_mxfp4", x, layout, out, rounding=mode)
    try:
        if out is None:
            return torch_backend().silu_mul_quantize_mxfp4(x, mode, layout, pdl)
        torch_backend().silu_mul_quantize_mxfp4_out(out[0], out[1], x, mode, layout, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error("silu_mul_quantize_mxfp4", error, out, x=x, pdl=pdl) from None


def rmsnorm_quantize_nvfp4(
    x: Array,
    weight: Array,
    global_scale: Array | None = None,
    *,
    epsilon: float = 1e-6,
    residual: Array | None = None,
    scale_layout: ScaleLayout = "swizzled",
    out: tuple[Array, Array] | None = None,
    pdl: bool = False,
) -> tuple[Array, Array]:
    """``quantize_nvfp4(x / sqrt(mean(x ** 2) + epsilon) * weight)`` for ``x`` ``[*, K]`` and ``weight`` ``[K]``.

    With ``residual`` ``[*, K]``, ``x + residual`` (rounded to ``x.dtype``) takes the place of ``x`` and is written back
    to ``residual`` **in place**. ``weight`` and ``residual`` have the dtype of ``x``. The result is computed in float32
    and rounded to ``x.dtype`` before it is quantised.
    """
    layout = 0 if scale_layout is SWIZZLED else code(LAYOUTS, "scale_layout", scale_layout)
    if not isinstance(x, Tensor):
        return numpy_backend(x, pdl).quantize(
            "rmsnorm_quantize_nvfp4",
            x,
            layout,
            out,
            global_scale=global_scale,
            weight=weight,
            epsilon=epsilon,
            residual=residual,
        )
    try:
        if epsilon is True or epsilon is False:  # which torch counts as numbers
            raise TypeError
        if out is None:
            return torch_backend().rmsnorm_quantize_nvfp4(x, weight, global_scale, epsilon, residual, layout, pdl)
        torch_backend().rmsnorm_quantize_nvfp4_out(
            out[0], out[1], x, weight, global_scale, epsilon, residual, layout, pdl
        )
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error(
            "rmsnorm_quantize_nvfp4",
            error,
            out,
            x=x,
            weight=weight,
            global_scale=global_scale,
            residual=residual,
            epsilon=epsilon,
            pdl=pdl,
        ) from None


def dequantize_nvfp4(
    codes: Array,
    scales: Array,
    global_scale: Array | None = None,
    *,
    dtype: Any = None,
    scale_layout: ScaleLayout = "swizzled",
    out: Array | None = None,
    pdl: bool = False,
) -> Array:
    """``e2m1(codes) * scales / global_scale`` as ``[*, K]``, computed in float32 and rounded once.

    ``dtype`` is bfloat16 (default for tensors), float16 or float32 (default for NumPy); ignored if ``out`` is given.
    """
    layout = 0 if scale_layout is SWIZZLED else code(LAYOUTS, "scale_layout", scale_layout)
    if not isinstance(codes, Tensor):
        return numpy_backend(codes, pdl).dequantize("dequantize_nvfp4", codes, scales, layout, dtype, out, global_scale)
    try:
        if out is None:
            backend = torch_backend()
            return backend.dequantize_nvfp4(codes, scales, global_scale, backend.dtype(dtype), layout, pdl)
        torch_backend().dequantize_nvfp4_out(out, codes, scales, global_scale, layout, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error(
            "dequantize_nvfp4", error, out, codes=codes, scales=scales, global_scale=global_scale, pdl=pdl
        ) from None


def dequantize_mxfp4(
    codes: Array,
    scales: Array,
    *,
    dtype: Any = None,
    scale_layout: ScaleLayout = "swizzled",
    out: Array | None = None,
    pdl: bool = False,
) -> Array:
    """``e2m1(codes) * scales`` as ``[*, K]``; as :func:`dequantize_nvfp4`, without a global scale."""
    layout = 0 if scale_layout is SWIZZLED else code(LAYOUTS, "scale_layout", scale_layout)
    if not isinstance(codes, Tensor):
        return numpy_backend(codes, pdl).dequantize("dequantize_mxfp4", codes, scales, layout, dtype, out, None)
    try:
        if out is None:
            backend = torch_backend()
            return backend.dequantize_mxfp4(codes, scales, backend.dtype(dtype), layout, pdl)
        torch_backend().dequantize_mxfp4_out(out, codes, scales, layout, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error("dequantize_mxfp4", error, out, codes=codes, scales=scales, pdl=pdl) from None
