"""The fast functions in front of torch's dispatcher, and arguments for them."""

import importlib.util

import installed
import pytest
import torch
from fp4aot import torch_ops
from torch.utils._python_dispatch import TorchDispatchMode

_built = importlib.util.find_spec("fp4aot._torch_fast") is not None
needed = pytest.mark.skipif(
    not torch_ops.fast_path_is_on and not (installed.STRICT and _built),
    reason="the fast path is off (FP4AOT_FAST_PATH=0, or this torch has not what it needs)"
    if _built
    else "the fast path was not built (no Python.h)",
)
if _built:
    from fp4aot._torch_fast import bind
else:
    bind = None

DISPATCHED = object()
FORMATS = ("nvfp4", "mxfp4")


def bound(name: str):
    """The op's fast function; where it would go to the dispatcher, it gives DISPATCHED."""
    return bind(name, lambda *_: DISPATCHED)


def slow(name: str):
    """The op with the dispatcher alone."""
    return getattr(torch.ops.fp4aot, name)


def values(shape, dtype=torch.bfloat16, device="cpu"):
    return torch.randn(shape, generator=torch.Generator().manual_seed(7)).to(device, dtype)


def quantized(fmt: str, shape, device="cpu"):
    x = values(shape, device=device)
    return slow(f"quantize_{fmt}")(x)


def gemm_arguments(fmt="nvfp4", device="cpu", leading=(5,), n=24, k=64) -> list:
    """a, b, a_scales, b_scales, out_dtype, alpha, bias, tactic, pdl"""
    a, a_scales = quantized(fmt, (*leading, k), device)
    b, b_scales = quantized(fmt, (n, k), device)
    alpha = torch.full((), 0.5, device=device)
    return [a, b, a_scales, b_scales, 15, alpha, values((n,), device=device), 0, False]


def w4a16_arguments(fmt="nvfp4", device="cpu", leading=(5,), n=24, k=64) -> list:
    """a, b, n, k, out_dtype, alpha, bias, tactic, pdl"""
    prepared = slow(f"prepare_w4a16_{fmt}")(*quantized(fmt, (n, k), device))
    alpha = torch.full((), 0.5, device=device)
    return [values((*leading, k), device=device), prepared, n, k, 15, alpha, values((n,), device=device), 0, False]


def quantize_arguments(name: str, device="cpu", dtype=torch.bfloat16) -> list:
    x = values((5, 64), dtype, device)
    scale = torch.full((), 3.0, device=device)
    if name.startswith("rmsnorm"):
        weight, residual = values((64,), dtype, device), values((5, 64), dtype, device)
        return [x, weight, scale, 1e-5, residual, 0, False]
    return [x, scale, 0, False] if name.endswith("nvfp4") else [x, 1, 0, False]


QUANTIZE = [
    "quantize_nvfp4",
    "quantize_mxfp4",
    "silu_mul_quantize_nvfp4",
    "silu_mul_quantize_mxfp4",
    "rmsnorm_quantize_nvfp4",
]


def clones(arguments) -> list:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in arguments]


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Bytes, metadata, and storages of the same size that torch may resize."""
    stores = [tensor.untyped_storage() for tensor in (left, right)]
    return (
        type(left) is type(right) is torch.Tensor
        and left.dtype == right.dtype
        and left.device == right.device
        and left.shape == right.shape
        and left.stride() == right.stride()
        and left.is_inference() == right.is_inference()
        and left.requires_grad == right.requires_grad
        and left.grad_fn is None
        and left._base is None
        and stores[0].nbytes() == stores[1].nbytes()
        and stores[0].resizable() == stores[1].resizable()
        and torch.equal(left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8))
    )


def torch_dtype(number: int) -> torch.dtype:
    return {15: torch.bfloat16, 5: torch.float16, 6: torch.float32}[number]


def outcome(function, arguments) -> tuple:
    """The type and text of what it raises, else None and what it returns."""
    try:
        return (None, function(*arguments))
    except Exception as error:
        return (type(error), str(error))


class Dispatches(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))
