"""Fakes of the W4A16 ops (see torch_fakes.py), and what autograd does with their products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._fake_checks import (
    CODES,
    LINEAR,
    MXFP4,
    NVFP4,
    Fake,
    Format,
    check_bias,
    check_bytes,
    check_device,
    check_dtype,
    check_float,
    check_k,
    check_matrix,
    check_n,
    check_scalar,
    check_swizzled,
    require,
    row_count,
    swizzled_shape,
)
from .errors import no_backward


def prepared_bytes(vector: int, n: int, k: int) -> int:
    """Bytes of prepared weights: 16 x 64 tiles of codes and scales."""
    return (n + 15) // 16 * ((k + 63) // 64) * (512 + 1024 // vector)


def _prepare(op: str, fmt: Format) -> Fake:
    def fake(codes: Tensor, scales: Tensor, scale_layout: int = 0, pdl: bool = False) -> Tensor:
        vector, scale_dtype = fmt
        check_dtype(op, "codes", codes, CODES)
        text = f"codes (weights) must have two dimensions, [N, K/2]; it has {codes.dim()}."
        require(codes.dim() == 2, op, text)
        check_device(op, "scales", scales, codes)
        check_dtype(op, "scales", scales, (scale_dtype, torch.uint8))
        n, k = codes.shape[0], codes.shape[1] * 2
        check_n(op, n)
        check_k(op, k, vector)
        if scale_layout == LINEAR and scales.dim() != 1:
            check_matrix(op, "scales", scales)
            text = " has the wrong shape; linear scales are [N, K/block], or a flat buffer."
            require(scales.shape[-1] == k // vector, op, "scales", text)
            require(row_count(scales.shape) >= n, op, "scales", text)
        elif scale_layout == LINEAR:
            check_bytes(op, "scales", scales, n * (k // vector))
        else:
            check_swizzled(op, "scales", scales, n, k // vector)
        return codes.new_empty((prepared_bytes(vector, n, k),), dtype=torch.uint8)

    return fake


def _check_prepared(op: str, name: str, prepared: Tensor, vector: int, n: int, k: int) -> None:
    check_dtype(op, name, prepared, (torch.uint8,))
    check_n(op, n)
    check_k(op, k, vector)
    needed = prepared_bytes(vector, n, k)
    text = (name, " has ", prepared.numel(), " bytes; weights of N = ", n, ", K = ", k, " have ", needed, ".")
    require(prepared.numel() >= needed, op, *text)


def _restore(op: str, fmt: Format) -> Fake:
    def fake(prepared: Tensor, n: int, k: int, scale_layout: int = 0, pdl: bool = False) -> tuple[Tensor, Tensor]:
        vector, scale_dtype = fmt
        _check_prepared(op, "prepared", prepared, vector, n, k)
        shape = (n, k // vector) if scale_layout == LINEAR else swizzled_shape(n, k // vector)
        return prepared.new_empty((n, k // 2), dtype=torch.uint8), prepared.new_empty(shape, dtype=scale_dtype)

    return fake


def _gemm(op: str, fmt: Format) -> Fake:
    def fake(
        a: Tensor,
        b: Tensor,
        n: int,
        k: int,
        out_dtype: torch.dtype,
        alpha: Tensor | None = None,
        bias: Tensor | None = None,
        tactic: int = 0,
        pdl: bool = False,
    ) -> Tensor:
        check_matrix(op, "a", a)
        text = f"a is {a.dtype}; allowed are torch.bfloat16 and torch.float16. Convert it: .to(torch.bfloat16)."
        require(a.dtype in (torch.bfloat16, torch.float16), op, text)
        columns = a.shape[-1]
        require(columns == k, op, "a has ", columns, " columns and b (weights) K = ", k, "; a must be [*, K].")
        check_device(op, "b", b, a)
        _check_prepared(op, "b", b, fmt[0], n, k)
        check_float(op, "out_dtype", out_dtype)
        check_scalar(op, "alpha", alpha, a)
        check_bias(op, bias, n, a)
        return a.new_empty((*a.shape[:-1], n), dtype=out_dtype)

    return fake


FAKES: dict[str, Fake] = {
    f"{kind}_w4a16_{name}": make(f"{kind}_w4a16_{name}", fmt)
    for kind, make in {"prepare": _prepare, "restore": _restore, "gemm": _gemm}.items()
    for name, fmt in {"nvfp4": NVFP4, "mxfp4": MXFP4}.items()
}


def _backward(op: str) -> Callable[..., Any]:
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise no_backward(op)

    return backward


def register_backward() -> None:
    """Makes a backward pass through a product raise: torch alone only warns, and leaves the gradient of ``a`` out.

    Where no gradient is needed this costs a dispatched call some microseconds outside of ``torch.inference_mode()``;
    the fast path does not come here.
    """
    for name in FAKES:
        if name.startswith("gemm"):
            torch.library.register_autograd(f"fp4aot::{name}", _backward(name))
