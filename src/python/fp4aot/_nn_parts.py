"""What the linear layers of fp4aot.nn share."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ._loader import integer
from .errors import no_backward

Format = Literal["nvfp4", "mxfp4"]
BLOCK = {"nvfp4": 16, "mxfp4": 32}
SCALE_DTYPE = {"nvfp4": torch.float8_e4m3fn, "mxfp4": torch.float8_e8m0fnu}
CODES = (torch.uint8, torch.float4_e2m1fn_x2)
FLOATS = (torch.bfloat16, torch.float16, torch.float32)


class WithoutBackward(torch.autograd.Function):
    """A layer where autograd records: a backward pass must not find a silently missing gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: Any) -> Tensor:
        ctx.layer = type(layer).__name__
        return layer._product(x)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise no_backward(ctx.layer)


def run(layer: Any, x: Tensor) -> Tensor:
    """``layer._product(x)`` after the checks and the casts that every layer makes."""
    if not isinstance(x, Tensor):
        kind = f"{type(x).__module__}.{type(x).__name__}"
        raise TypeError(f"{type(layer).__name__}: x is a {kind}; it must be a torch.Tensor.")
    if x.shape[-1:] != (layer.in_features,):
        name = type(layer).__name__
        raise ValueError(f"{name}: x has shape {tuple(x.shape)}; its last dimension must be {layer.in_features}.")
    x = in_rows(autocast(x))
    if x.requires_grad and torch.is_grad_enabled():
        return WithoutBackward.apply(x, layer)  # type: ignore[no-any-return]
    return layer._product(x)  # type: ignore[no-any-return]


def autocast(x: Tensor) -> Tensor:
    """``x`` in autocast's dtype where autocast is on and casts (it leaves float64 alone)."""
    device = x.device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return x
    return x.to(torch.get_autocast_dtype(device)) if x.dtype in FLOATS else x


def in_rows(x: Tensor) -> Tensor:
    """``x``, or a copy where the ops, which copy nothing, would refuse its strides or address: a layer takes views of
    every kind, as torch.nn.Linear does."""
    if x.layout != torch.strided or x.device.type == "meta":
        return x  # the ops say what is wrong with the first
    if torch.compiler.is_dynamo_compiling() or x.storage_offset() % 8 == 0:  # which dynamo cannot trace
        if x.is_contiguous():
            return x
        if x.ndim == 2 and x.stride(1) == 1 and x.stride(0) >= x.shape[1] and x.stride(0) % 8 == 0:
            return x
    return x.clone(memory_format=torch.contiguous_format)


def check_format(format: object) -> None:
    """Raises ValueError for what is no format."""
    if not isinstance(format, str) or format not in BLOCK:
        raise ValueError(f"format is {format!r}; it must be 'nvfp4' or 'mxfp4'.")


def check_sizes(layer: str, in_features: int, out_features: int, multiple: int) -> None:
    """Raises ValueError for what no layer of the kind can have."""
    for name, value in (("in_features", in_features), ("out_features", out_features)):
        integer(layer, name, value)
    if in_features % multiple or out_features % 8 or in_features <= 0 or out_features <= 0:
        raise ValueError(
            f"{layer}: in_features is {in_features} and out_features {out_features}; they must be multiples of "
            f"{multiple} and 8. Keep such a layer in its own dtype, or pad its weight with zeros."
        )


def like(kind: Any, linear: Any, format: Format) -> tuple[Any, Tensor]:
    """A layer of the kind with a torch.nn.Linear's bias, mode and the sizes of its weight, and that weight, which it is
    still to take.

    Raises TypeError for what is no torch.nn.Linear, ValueError for a weight or bias that no layer of the kind can have.
    """
    if not isinstance(linear, torch.nn.Linear):
        name = kind.__name__
        raise TypeError(f"{name}.from_linear: linear is a {type(linear).__name__}; it must be a torch.nn.Linear.")
    weight, bias = linear.weight.detach(), linear.bias
    for name, tensor, shape in (("weight", weight, weight.shape), ("bias", bias, weight.shape[:1])):
        if tensor is not None and (tensor.dtype not in FLOATS or tensor.shape != shape):
            raise ValueError(
                f"{kind.__name__}.from_linear: {name} is {tensor.dtype} of shape {tuple(tensor.shape)}; it must be "
                f"bfloat16, float16 or float32 of shape {tuple(shape)}."
            )
    out_features, in_features = weight.shape  # not linear.in_features: a weight that was replaced has its own
    layer = kind(in_features, out_features, bias is not None, format=format, device=weight.device, dtype=weight.dtype)
    if bias is not None:
        layer.bias = bias.detach().clone(memory_format=torch.contiguous_format)
    return layer.train(linear.training), in_rows(weight)


def check_tensors(
    layer: str, codes: Tensor, scales: Tensor, global_scale: Tensor | None, bias: Tensor | None, format: str
) -> tuple[int, int]:
    """(in_features, out_features) of a checkpoint's tensors; TypeError or ValueError if they do not fit each other."""
    check_format(format)
    for name, tensor in (("codes", codes), ("scales", scales), ("bias", bias)):
        if not isinstance(tensor, Tensor) and (name != "bias" or tensor is not None):
            kind = f"{type(tensor).__module__}.{type(tensor).__name__}"
            raise TypeError(f"{layer}.from_tensors: {name} is a {kind}; it must be a torch.Tensor.")
    if codes.ndim != 2 or codes.dtype not in CODES:
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
    if bias is not None and (bias.shape != (out_features,) or bias.dtype not in FLOATS or bias.device != codes.device):
        raise ValueError(
            f"{layer}.from_tensors: bias is {bias.dtype} of shape {tuple(bias.shape)} on {bias.device}; it must be "
            f"bfloat16, float16 or float32 of shape {(out_features,)} on {codes.device}."
        )
    if global_scale is not None:
        _check_global_scale(layer, global_scale, format)
    return in_features, out_features


def _check_global_scale(layer: str, scale: Any, format: str) -> None:
    if format != "nvfp4":
        raise ValueError(f"{layer}.from_tensors: {format} has no global_scale. Leave it out.")
    if not isinstance(scale, Tensor) or scale.numel() != 1 or scale.is_complex():
        given = tuple(scale.shape) if isinstance(scale, Tensor) and not scale.is_complex() else scale
        raise ValueError(f"{layer}.from_tensors: global_scale is {given}; it must be a tensor of one number.")
    if scale.device.type == "cpu":
        value = scale.detach().to(torch.float32)
        if not (value > 0 and value.isfinite() and value.reciprocal().isfinite()):
            raise ValueError(
                f"{layer}.from_tensors: global_scale is {scale.item()}; it must be finite and > 0 in float32, and its "
                "reciprocal too."
            )


def own(bias: Tensor | None) -> Tensor | None:
    """A bias as a layer's buffer: no parameter, no view with strides."""
    return None if bias is None else bias.detach().contiguous()


def keep_dtypes(layer: torch.nn.Module, before: dict[str, Tensor | None]) -> None:
    """Gives buffers that ``.to(dtype)`` converted their old contents back, where they are now."""
    for name, old in before.items():
        new = layer._buffers[name]
        if old is not None and new is not None and new.dtype != old.dtype:
            layer._buffers[name] = old.to(new.device)
