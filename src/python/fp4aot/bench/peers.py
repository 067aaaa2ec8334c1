"""Products of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .timing import Call

Product = Callable[[torch.Tensor], Call]  # bf16 activations [M, K] -> a call of their product

_HUMMING: dict[str, dict[str, Any]] = {
    "nvfp4": {"dtype": "float4e2m1", "scale_dtype": "float8e4m3", "group_size": 16, "scale_2_type": "tensor"},
    "mxfp4": {"dtype": "float4e2m1", "scale_dtype": "float8e8m0", "group_size": 32},
}


def matmul(dense: torch.Tensor) -> Product:
    """torch.mm in the dtype of ``dense`` [N, K]: cuBLAS on a GPU."""

    def product(x: torch.Tensor) -> Call:
        a = x.to(dense.dtype)
        out = torch.empty(x.shape[0], dense.shape[0], dtype=dense.dtype, device=dense.device)
        return lambda: torch.mm(a, dense.T, out=out)

    return product


def humming(format: str, dense: torch.Tensor) -> Product:
    """Humming's layer with these weights in its own order. It compiles a kernel when it first needs it."""
    from humming.layer import HummingLayer

    n, k = dense.shape
    config = dict(_HUMMING[format])
    layer = HummingLayer(shape_n=n, shape_k=k, weight_config=config, torch_dtype=torch.bfloat16).cuda()
    layer.load_from_unquantized(dense)
    layer.transform()

    def product(x: torch.Tensor) -> Call:
        out = torch.empty(x.shape[0], n, dtype=torch.bfloat16, device=x.device)
        return lambda: layer(x, outputs=out)

    return product
