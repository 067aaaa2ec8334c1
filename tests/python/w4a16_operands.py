"""Activations and weights for the W4A16 tests."""

import fp4aot
import numpy as np
import reference
import torch
from operands import DTYPES, Operand, floats_of

FORMATS = ["nvfp4", "mxfp4"]
HALVES = ["bf16", "fp16"]


def prepare(b: Operand) -> "fp4aot.PreparedWeight":
    return fp4aot.prepare_w4a16_weights(b.packed, b.swizzled(), format=b.format)


def gemm(format: str, a, weight, alpha=None, bias=None, **options):
    return getattr(fp4aot, f"gemm_w4a16_{format}")(a, weight, alpha, bias, **options)


def activations(rng, m: int, k: int, dtype: str, device: str) -> torch.Tensor:
    return torch.from_numpy(rng.standard_normal((m, k)).astype(np.float32)).to(DTYPES[dtype]).to(device)


def strided(a: torch.Tensor, gap: int) -> torch.Tensor:
    """The same activations with NaN between and behind the rows."""
    wide = torch.full((a.shape[0], a.shape[1] + gap), float("nan"), dtype=a.dtype, device=a.device)
    wide[:, : a.shape[1]] = a
    return wide[:, : a.shape[1]]


def name_of(dtype: torch.dtype) -> str:
    return next(name for name, value in DTYPES.items() if value == dtype)


def assert_correct(out, a: torch.Tensor, b: Operand, alpha: float = 1.0, bias=None, norm: bool = True) -> None:
    """Within the bounds of every product of the library, against fp64."""
    expected = reference.product(floats_of(a).astype(np.float64), b.values, alpha, bias)
    reference.assert_product(floats_of(out), expected, b.k, name_of(out.dtype), norm)
