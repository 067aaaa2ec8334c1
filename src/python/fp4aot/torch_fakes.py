"""Fake (shape-only) versions of the ops, for torch.compile, torch.export and FakeTensor."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_NVFP4 = (16, torch.float8_e4m3fn)
_MXFP4 = (32, torch.float8_e8m0fnu)
_LINEAR = 1


def swizzled_shape(rows: int, columns: int) -> tuple[int, int]:
    """Shape of a swizzled scale buffer for ``rows`` x ``columns`` block scales."""
    return (rows + 127) // 128 * 128, (columns + 3) // 4 * 4


def _rows(shape: torch.Size) -> int:
    rows = 1
    for size in shape[:-1]:
        rows = rows * size
    return rows


def _quantized(input: Tensor, k: int, fmt: tuple[int, torch.dtype], layout: int) -> tuple[Tensor, Tensor]:
    vector, dtype = fmt
    columns = k // vector
    codes = input.new_empty((*input.shape[:-1], k // 2), dtype=torch.uint8)
    if layout == _LINEAR:
        return codes, input.new_empty((*input.shape[:-1], columns), dtype=dtype)
    return codes, input.new_empty(swizzled_shape(_rows(input.shape), columns), dtype=dtype)


def _quantize_nvfp4(
    input: Tensor, global_scale: Tensor | None = None, scale_layout: int = 0, pdl: bool = False
) -> tuple[Tensor, Tensor]:
    return _quantized(input, input.shape[-1], _NVFP4, scale_layout)


def _quantize_mxfp4(
    input: Tensor, rounding: int = 0, scale_layout: int = 0, pdl: bool = False
) -> tuple[Tensor, Tensor]:
    return _quantized(input, input.shape[-1], _MXFP4, scale_layout)


def _silu_mul_quantize_nvfp4(
    input: Tensor, global_scale: Tensor | None = None, scale_layout: int = 0, pdl: bool = False
) -> tuple[Tensor, Tensor]:
    return _quantized(input, input.shape[-1] // 2, _NVFP4, scale_layout)


def _silu_mul_quantize_mxfp4(
    input: Tensor, rounding: int = 0, scale_layout: int = 0, pdl: bool = False
) -> tuple[Tensor, Tensor]:
    return _quantized(input, input.shape[-1] // 2, _MXFP4, scale_layout)


def _rmsnorm_quantize_nvfp4(
    input: Tensor,
    weight: Tensor,
    global_scale: Tensor | None = None,
    epsilon: float = 1e-6,
    residual: Tensor | None = None,
    scale_layout: int = 0,
    pdl: bool = False,
) -> tuple[Tensor, Tensor]:
    return _quantized(input, input.shape[-1], _NVFP4, scale_layout)


def _dequantize_nvfp4(
    codes: Tensor,
    scales: Tensor,
    global_scale: Tensor | None,
    dtype: torch.dtype,
    scale_layout: int = 0,
    pdl: bool = False,
) -> Tensor:
    return codes.new_empty((*codes.shape[:-1], codes.shape[-1] * 2), dtype=dtype)


def _dequantize_mxfp4(
    codes: Tensor, scales: Tensor, dtype: torch.dtype, scale_layout: int = 0, pdl: bool = False
) -> Tensor:
    return codes.new_empty((*codes.shape[:-1], codes.shape[-1] * 2), dtype=dtype)


def _nvfp4_global_scale(input: Tensor, pdl: bool = False) -> Tensor:
    return input.new_empty((), dtype=torch.float32)


def _swizzle_scales(scales: Tensor, pdl: bool = False) -> Tensor:
    return scales.new_empty(swizzled_shape(_rows(scales.shape), scales.shape[-1]))


def _unswizzle_scales(swizzled: Tensor, rows: int, columns: int, pdl: bool = False) -> Tensor:
    return swizzled.new_empty((rows, columns))


def _gemm(
    a: Tensor,
    b: Tensor,
    a_scales: Tensor,
    b_scales: Tensor,
    out_dtype: torch.dtype,
    alpha: Tensor | None = None,
    bias: Tensor | None = None,
    tactic: int = -1,
    pdl: bool = False,
) -> Tensor:
    return a.new_empty((*a.shape[:-1], b.shape[0]), dtype=out_dtype)


def _nothing(*args: object, **kwargs: object) -> None:
    """An _out op only writes to what it is given."""


FAKES: dict[str, Callable[..., object]] = {
    "quantize_nvfp4": _quantize_nvfp4,
    "quantize_mxfp4": _quantize_mxfp4,
    "silu_mul_quantize_nvfp4": _silu_mul_quantize_nvfp4,
    "silu_mul_quantize_mxfp4": _silu_mul_quantize_mxfp4,
    "rmsnorm_quantize_nvfp4": _rmsnorm_quantize_nvfp4,
    "dequantize_nvfp4": _dequantize_nvfp4,
    "dequantize_mxfp4": _dequantize_mxfp4,
    "nvfp4_global_scale": _nvfp4_global_scale,
    "swizzle_scales": _swizzle_scales,
    "unswizzle_scales": _unswizzle_scales,
    "gemm_nvfp4": _gemm,
    "gemm_mxfp4": _gemm,
}


def register() -> None:
    """Registers every fake; the ops must be loaded."""
    for name, fake in FAKES.items():
        torch.library.register_fake(f"fp4aot::{name}", fake)
        torch.library.register_fake(f"fp4aot::{name}_out", _nothing)
