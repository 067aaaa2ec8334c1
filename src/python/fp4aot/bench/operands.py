"""The weights of a shape and the activations of a number of rows: quantised Gaussians, since data changes clocks."""

from __future__ import annotations

from typing import Any

import torch

from .. import products, quantization, scales, w4a16
from .timing import Call

_VECTOR = {"nvfp4": 16, "mxfp4": 32}
_SEED = 2026


def _quantize(format: str, x: torch.Tensor) -> tuple[Any, Any, torch.Tensor]:
    """codes, scales, and what dequantised values are to be multiplied with."""
    if format == "mxfp4":
        return *quantization.quantize_mxfp4(x), torch.ones((), device=x.device)
    scale = scales.nvfp4_global_scale(x)
    return *quantization.quantize_nvfp4(x, scale), 1 / scale


def _values(format: str, codes: Any, block_scales: Any) -> torch.Tensor:
    dequantize = quantization.dequantize_mxfp4 if format == "mxfp4" else quantization.dequantize_nvfp4
    return dequantize(codes, block_scales, dtype=torch.float32).double()


class Operands:
    """Weights of one format and shape, and activations that ``set_rows`` makes.

    Attributes: ``dense``, the weights before they were quantised, bf16 [N, K]; ``x``, the activations, bf16 [M, K].
    """

    suite = ""

    def __init__(self, format: str, n: int, k: int, device: str, out_dtype: torch.dtype) -> None:
        self.format, self.n, self.k, self.device, self.out_dtype = format, n, k, device, out_dtype
        torch.manual_seed(_SEED)
        self.dense = torch.randn(n, k, dtype=torch.bfloat16, device=device)
        self.codes, self.scales, self.factor = _quantize(format, self.dense)
        self.op = f"gemm_{'w4a16_' if self.suite == 'w4a16' else ''}{format}"

    def set_rows(self, m: int) -> None:
        self.m = m
        self.x = torch.randn(m, self.k, dtype=torch.bfloat16, device=self.device)
        self.out = torch.empty(m, self.n, dtype=self.out_dtype, device=self.device)
        self.alpha = self.factor

    @property
    def read_bytes(self) -> int:
        """Of the operands in memory that a product of these rows reads."""
        raise NotImplementedError

    def product(self, tactic: int) -> Call:
        """A call of the product into ``out``."""
        raise NotImplementedError

    def values(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Activations and weights as the product takes them, in fp64, without alpha."""
        raise NotImplementedError


class W4a16(Operands):
    suite = "w4a16"

    def __init__(self, format: str, n: int, k: int, device: str, out_dtype: torch.dtype) -> None:
        super().__init__(format, n, k, device, out_dtype)
        prepared_format: Any = format
        self.weight = w4a16.prepare_w4a16_weights(self.codes, self.scales, format=prepared_format)

    @property
    def read_bytes(self) -> int:
        return self.weight.nbytes

    def product(self, tactic: int) -> Call:
        gemm = getattr(w4a16, self.op)
        x, weight, alpha, out = self.x, self.weight, self.alpha, self.out
        return lambda: gemm(x, weight, alpha, out=out, tactic=tactic)

    def multiply(self, a: torch.Tensor, alpha: torch.Tensor, out: torch.Tensor, pdl: bool) -> torch.Tensor:
        """``out``, after the product of other activations was queued."""
        result: torch.Tensor = getattr(w4a16, self.op)(a, self.weight, alpha, out=out, pdl=pdl)
        return result

    def values(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x.double(), _values(self.format, self.codes, self.scales)


class W4a4(Operands):
    suite = "w4a4"

    def set_rows(self, m: int) -> None:
        super().set_rows(m)
        self.a, self.a_scales, factor = _quantize(self.format, self.x)
        self.alpha = self.factor * factor

    @property
    def read_bytes(self) -> int:
        return (self.m + self.n) * (self.k // 2 + self.k // _VECTOR[self.format])

    def product(self, tactic: int) -> Call:
        gemm = getattr(products, self.op)
        a, b, a_scales, b_scales, alpha, out = self.a, self.codes, self.a_scales, self.scales, self.alpha, self.out
        return lambda: gemm(a, b, a_scales, b_scales, alpha, out=out, tactic=tactic)

    def values(self) -> tuple[torch.Tensor, torch.Tensor]:
        return _values(self.format, self.a, self.a_scales), _values(self.format, self.codes, self.scales)


SUITES: dict[str, type[Operands]] = {"w4a16": W4a16, "w4a4": W4a4}
