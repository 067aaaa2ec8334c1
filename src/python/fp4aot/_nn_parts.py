"""What the linear layers of fp4aot.nn share."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

Format = Literal["nvfp4", "mxfp4"]
BLOCK = {"nvfp4": 16, "mxfp4": 32}
SCALE_DTYPE = {"nvfp4": torch.float8_e4m3fn, "mxfp4": torch.float8_e8m0fnu}
FLOATS = (torch.bfloat16, torch.float16, torch.float32)


class WithoutBackward(torch.autograd.Function):
    """A layer where autograd records: a backward pass must not find a silently missing gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: Any) -> Tensor:
        ctx.layer = type(layer).__name__
        return layer._product(x)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise RuntimeError(
            f"{ctx.layer} has no backward: it is for inference. Run the model under torch.no_grad(), or train the "
            "torch.nn.Linear and quantise it afterwards."
        )


def run(layer: Any, x: Tensor) -> Tensor:
    """``layer._product(x)`` after the checks and the casts that every layer makes."""
    if x.shape[-1:] != (layer.in_features,):
        name = type(layer).__name__
        raise ValueError(f"{name}: x has shape {tuple(x.shape)}; its last dimension must be {layer.in_features}.")
    x = autocast(x)
    if x.requires_grad and torch.is_grad_enabled():
        return WithoutBackward.apply(x, layer)  # type: ignore[no-any-return]
    return layer._product(x)  # type: ignore[no-any-return]


def autocast(x: Tensor) -> Tensor:
    """``x`` in autocast's dtype where autocast is on and casts (it leaves float64 alone)."""
    device = x.device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return x
    return x.to(torch.get_autocast_dtype(device)) if x.dtype in FLOATS else x


def check_sizes(layer: str, in_features: int, out_features: int, multiple: int, format: str) -> None:
    """Raises ValueError for what no layer of the kind can have."""
    if format not in BLOCK:
        raise ValueError(f"format is {format!r}; it must be 'nvfp4' or 'mxfp4'.")
    if in_features % multiple or out_features % 8 or in_features <= 0 or out_features <= 0:
        raise ValueError(
            f"{layer}: in_features is {in_features} and out_features {out_features}; they must be multiples of "
            f"{multiple} and 8. Keep such a layer in its own dtype, or pad its weight with zeros."
        )


def like(kind: Any, linear: Any, format: Format) -> tuple[Any, Tensor]:
    """A layer of the kind with a torch.nn.Linear's sizes, bias and mode, and the weight it is still to take.

    Raises TypeError for what is no torch.nn.Linear.
    """
    if not isinstance(linear, torch.nn.Linear):
        name = kind.__name__
        raise TypeError(f"{name}.from_linear: linear is a {type(linear).__name__}; it must be a torch.nn.Linear.")
    weight, has_bias = linear.weight.detach(), linear.bias is not None
    place = {"device": weight.device, "dtype": weight.dtype}
    layer = kind(linear.in_features, linear.out_features, has_bias, format=format, **place)
    if has_bias:
        layer.bias = linear.bias.detach().clone()
    return layer.train(linear.training), weight


def check_tensors(
    layer: str, codes: Tensor, scales: Tensor, global_scale: Tensor | None, bias: Tensor | None, format: str
) -> tuple[int, int]:
    """(in_features, out_features) of a checkpoint's tensors; ValueError if they do not fit each other."""
    if format not in BLOCK:
        raise ValueError(f"format is {format!r}; it must be 'nvfp4' or 'mxfp4'.")
    if codes.ndim != 2 or codes.dtype not in (torch.uint8, getattr(torch, "float4_e2m1fn_x2", torch.uint8)):
        raise ValueError(
            f"{layer}.from_tensors: codes are {codes.dtype} of shape {tuple(codes.shape)}; they must be uint8 "
            "(two in a byte) or float4_e2m1fn_x2 of shape [N, K/2]."
        )
    if scales.dtype not in (torch.uint8, SCALE_DTYPE[format]):
        raise ValueError(
            f"{layer}.from_tensors: scales are {scales.dtype}; those of {format} are {SCALE_DTYPE[format]}, or "
            "uint8 with the same bytes."
        )
    out_features, in_features = codes.shape[0], codes.shape[1] * 2
    columns = in_features // BLOCK[format]
    if scales.shape != (out_features, columns):
        raise ValueError(
            f"{layer}.from_tensors: scales have shape {tuple(scales.shape)}; linear {format} scales of codes "
            f"{tuple(codes.shape)} are {(out_features, columns)}."
        )
    if bias is not None and (bias.shape != (out_features,) or bias.dtype not in FLOATS):
        raise ValueError(
            f"{layer}.from_tensors: bias is {bias.dtype} of shape {tuple(bias.shape)}; it must be bfloat16, "
            f"float16 or float32 of shape {(out_features,)}."
        )
    if global_scale is not None and format != "nvfp4":
        raise ValueError(f"{layer}.from_tensors: {format} has no global_scale. Leave it out.")
    if global_scale is not None:
        if not isinstance(global_scale, Tensor) or global_scale.numel() != 1:
            given = tuple(global_scale.shape) if isinstance(global_scale, Tensor) else global_scale
            raise ValueError(f"{layer}.from_tensors: global_scale is {given}; it must be a tensor of one number.")
        if global_scale.device.type == "cpu" and not 0 < global_scale.item() < math.inf:
            raise ValueError(f"{layer}.from_tensors: global_scale is {global_scale.item()}; it must be finite and > 0.")
    return in_features, out_features


def keep_dtypes(layer: torch.nn.Module, before: dict[str, Tensor | None]) -> None:
    """Gives buffers that ``.to(dtype)`` converted their old contents back, where they are now."""
    for name, old in before.items():
        new = layer._buffers[name]
        if old is not None and new is not None and new.dtype != old.dtype:
            layer._buffers[name] = old.to(new.device)
