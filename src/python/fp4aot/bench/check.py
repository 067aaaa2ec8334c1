"""Results against fp64 of the dequantised operands."""

from __future__ import annotations

from dataclasses import dataclass

import torch

_NORM = {torch.bfloat16: 2e-3, torch.float16: 3e-4, torch.float32: 1e-6}
_UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-23}


@dataclass(frozen=True)
class Verdict:
    """``norm``: of the error, relative to that of the result; ``element``: the largest error of an element over what
    it may be. Right if norm <= norm_bound and element <= 1."""

    norm: float
    norm_bound: float
    element: float

    @property
    def is_right(self) -> bool:
        return self.norm <= self.norm_bound and self.element <= 1


class Reference:
    """The product of ``a`` [M, K] and ``b`` [N, K], fp64, times alpha, and what its elements may be off."""

    def __init__(self, a: torch.Tensor, b: torch.Tensor, alpha: float) -> None:
        self.k = a.shape[1]
        self.expected = a @ b.T * alpha
        self.magnitude = a.abs() @ b.abs().T * abs(alpha)

    def compare(self, out: torch.Tensor) -> Verdict:
        """Of a result [M, N] that was rounded once to its dtype."""
        error = (out.double() - self.expected).abs()
        allowed = _UNIT[out.dtype] * self.expected.abs() + (self.k / 16 + 4) * 2.0**-23 * self.magnitude
        ratio = torch.where(error == 0, 0.0, error / allowed).max().item()
        norm = 0.0 if not error.any() else (error.norm() / self.expected.norm()).item()
        bound = _NORM[out.dtype] * (max(1.0, self.k / 4096) if out.dtype == torch.float32 else 1.0)
        return Verdict(norm, bound, ratio)
