"""Scales: a tensor's global scale, and the two layouts of block scales. Shapes and dtypes: :mod:`fp4aot.ops`."""

from __future__ import annotations

from ._backend import Array, Tensor, argument_error, numpy_backend, torch_backend
from ._loader import is_boolean


def nvfp4_global_scale(x: Array, *, out: Array | None = None, pdl: bool = False) -> Array:
    """``448 * 6 / amax(|x|)`` over the finite values of ``x`` ``[*, K]``, clamped to [2**-100, 2**100].

    1 if no finite value is other than zero. Returns one float32 of shape ``[]`` on the device; nothing is synchronised.
    """
    if not isinstance(x, Tensor):
        return numpy_backend(x, pdl).nvfp4_global_scale(x, out)
    try:
        if out is None:
            return torch_backend().nvfp4_global_scale(x, pdl)
        torch_backend().nvfp4_global_scale_out(out, x, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error("nvfp4_global_scale", error, out, x=x, pdl=pdl) from None


def swizzle_scales(scales: Array, *, out: Array | None = None, pdl: bool = False) -> Array:
    """Linear block scales ``[*, columns]`` to the tensor cores' order, ``[roundup(rows, 128), roundup(columns, 4)]``.

    The padding is written as zero. Takes e4m3, ue8m0 or uint8 and keeps the dtype. Use it on checkpoints.
    """
    if not isinstance(scales, Tensor):
        return numpy_backend(scales, pdl).swizzle_scales(scales, out)
    try:
        if out is None:
            return torch_backend().swizzle_scales(scales, pdl)
        torch_backend().swizzle_scales_out(out, scales, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error("swizzle_scales", error, out, scales=scales, pdl=pdl) from None


def unswizzle_scales(scales: Array, rows: int, columns: int, *, out: Array | None = None, pdl: bool = False) -> Array:
    """The inverse of :func:`swizzle_scales`: ``[rows, columns]``; columns are K / 16 (NVFP4) or K / 32 (MXFP4)."""
    if not isinstance(scales, Tensor):
        return numpy_backend(scales, pdl).unswizzle_scales(scales, rows, columns, out)
    try:
        if is_boolean(rows) or is_boolean(columns):  # which torch counts as numbers
            raise TypeError
        if out is None:
            return torch_backend().unswizzle_scales(scales, rows, columns, pdl)
        if tuple(out.shape) != (rows, columns):
            raise ValueError(f"unswizzle_scales: out has shape {tuple(out.shape)}; it must be {(rows, columns)}.")
        torch_backend().unswizzle_scales_out(out, scales, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error(
            "unswizzle_scales", error, out, scales=scales, rows=rows, columns=columns, pdl=pdl
        ) from None
