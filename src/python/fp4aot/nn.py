"""A linear layer with FP4 weights and activations (W4A4). Needs torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from . import torch_ops  # noqa: F401  # isort: skip  (first: it says what is wrong with this torch, if anything)

import torch
from torch import Tensor

from . import ops

Format = Literal["nvfp4", "mxfp4"]
_BLOCK = {"nvfp4": 16, "mxfp4": 32}
_SCALE_DTYPE = {"nvfp4": torch.float8_e4m3fn, "mxfp4": torch.float8_e8m0fnu}
_BIAS_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


class _WithoutBackward(torch.autograd.Function):
    """Fp4Linear where autograd records: a backward pass must not find a silently missing gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: Fp4Linear) -> Tensor:
        return layer._product(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise RuntimeError(
            "Fp4Linear has no backward: it is for inference. Run the model under torch.no_grad(), or train the "
            "torch.nn.Linear and quantise it afterwards."
        )


class Fp4Linear(torch.nn.Module):
    """``x @ weight.T + bias`` with an FP4 weight; activations are quantised to the same format on the way in.

    For inference: a backward pass raises. ``in_features`` must be a multiple of 32, ``out_features`` of 8. Inputs are
    bfloat16, float16 or float32 ``[*, in_features]``; the output has the input's dtype. Under ``torch.autocast`` the
    input is converted to autocast's dtype first, as ``torch.nn.Linear`` does.

    NVFP4 activations take their global scale from each input (:func:`fp4aot.nvfp4_global_scale`, on the device), or,
    with :meth:`calibrate`, a fixed one, which saves that pass.

    The state dict is the same on every device: ``weight_codes`` uint8 ``[N, K/2]``, ``weight_scales`` swizzled
    ``[roundup(N, 128), roundup(K/block, 4)]`` (float8_e4m3fn or float8_e8m0fnu), ``bias``, and for NVFP4
    ``weight_global_scale`` and, once calibrated, ``input_global_scale`` (float32 ``[]``; the codes were made from
    ``weight * weight_global_scale``). :meth:`from_tensors` takes the linear scales that checkpoints hold.
    """

    weight_codes: Tensor
    weight_scales: Tensor
    weight_global_scale: Tensor | None
    input_global_scale: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        format: Format = "nvfp4",
        device: Any = None,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        """An all-zero layer, to load a state dict into; see :meth:`from_linear`. ``dtype`` is that of the bias."""
        super().__init__()
        if format not in _BLOCK:
            raise ValueError(f"format is {format!r}; it must be 'nvfp4' or 'mxfp4'.")
        if in_features % 32 or out_features % 8 or in_features <= 0 or out_features <= 0:
            raise ValueError(
                f"Fp4Linear: in_features is {in_features} and out_features {out_features}; they must be multiples of "
                "32 and 8. Keep such a layer in its own dtype, or pad its weight with zeros."
            )
        self.in_features, self.out_features, self.format = in_features, out_features, format
        columns = in_features // _BLOCK[format]
        shape = ((out_features + 127) // 128 * 128, (columns + 3) // 4 * 4)
        buffers: dict[str, Tensor | None] = {
            "weight_codes": torch.zeros(out_features, in_features // 2, dtype=torch.uint8, device=device),
            "weight_scales": torch.zeros(shape, dtype=torch.uint8, device=device).view(_SCALE_DTYPE[format]),
            "weight_global_scale": torch.ones((), dtype=torch.float32, device=device) if format == "nvfp4" else None,
            "bias": torch.zeros(out_features, dtype=dtype, device=device) if bias else None,
            "input_global_scale": None,
        }
        # Absent buffers last, the one that may still come first among them: torch.export counts on it.
        for name in sorted(buffers, key=lambda name: (buffers[name] is None, name != "input_global_scale")):
            self.register_buffer(name, buffers[name])
        self.register_load_state_dict_pre_hook(_accept_calibrated)

    @classmethod
    @torch.no_grad()
    def from_linear(cls, linear: torch.nn.Linear, format: Format = "nvfp4") -> Fp4Linear:
        """Quantises the weight of a ``torch.nn.Linear`` (bfloat16, float16 or float32) on its device."""
        if not isinstance(linear, torch.nn.Linear):
            raise TypeError(
                f"Fp4Linear.from_linear: linear is a {type(linear).__name__}; it must be a torch.nn.Linear."
            )
        weight = linear.weight.detach()
        layer = cls(
            linear.in_features,
            linear.out_features,
            linear.bias is not None,
            format=format,
            device=weight.device,
            dtype=weight.dtype,
        )
        if format == "nvfp4":
            layer.weight_global_scale = ops.nvfp4_global_scale(weight)
            layer.weight_codes, layer.weight_scales = ops.quantize_nvfp4(weight, layer.weight_global_scale)
        else:
            layer.weight_codes, layer.weight_scales = ops.quantize_mxfp4(weight)
        if linear.bias is not None:
            layer.bias = linear.bias.detach().clone()
        return layer.train(linear.training)

    @classmethod
    @torch.no_grad()
    def from_tensors(
        cls,
        codes: Tensor,
        scales: Tensor,
        global_scale: Tensor | None = None,
        bias: Tensor | None = None,
        format: Format = "nvfp4",
    ) -> Fp4Linear:
        """A layer from a checkpoint's tensors: ``codes`` ``[N, K/2]`` and **linear** ``scales`` ``[N, K/block]``.

        ``codes`` are uint8 or ``torch.float4_e2m1fn_x2``, ``scales`` uint8 or the format's own float8.
        ``bias`` is ``[N]`` in bfloat16, float16 or float32.
        ``global_scale`` (NVFP4) is the one that multiplied the weight: one number, finite and greater than zero, which
        is checked on the CPU only (elsewhere it would wait for the device). Checkpoints of ModelOpt and
        compressed-tensors differ in it: if theirs multiplies on the way back (``weight_scale_2``), pass its reciprocal.
        """
        if format not in _BLOCK:
            raise ValueError(f"format is {format!r}; it must be 'nvfp4' or 'mxfp4'.")
        if codes.ndim != 2 or codes.dtype not in (torch.uint8, getattr(torch, "float4_e2m1fn_x2", torch.uint8)):
            raise ValueError(
                f"Fp4Linear.from_tensors: codes are {codes.dtype} of shape {tuple(codes.shape)}; they must be uint8 "
                "(two in a byte) or float4_e2m1fn_x2 of shape [N, K/2]."
            )
        if scales.dtype not in (torch.uint8, _SCALE_DTYPE[format]):
            raise ValueError(
                f"Fp4Linear.from_tensors: scales are {scales.dtype}; those of {format} are {_SCALE_DTYPE[format]}, or "
                "uint8 with the same bytes."
            )
        layer = cls(codes.shape[1] * 2, codes.shape[0], bias is not None, format=format, device=codes.device)
        columns = layer.in_features // _BLOCK[format]
        if scales.shape != (layer.out_features, columns):
            raise ValueError(
                f"Fp4Linear.from_tensors: scales have shape {tuple(scales.shape)}; linear {format} scales of codes "
                f"{tuple(codes.shape)} are {(layer.out_features, columns)}."
            )
        if bias is not None and (bias.shape != (layer.out_features,) or bias.dtype not in _BIAS_DTYPES):
            raise ValueError(
                f"Fp4Linear.from_tensors: bias is {bias.dtype} of shape {tuple(bias.shape)}; it must be bfloat16, "
                f"float16 or float32 of shape {(layer.out_features,)}."
            )
        if global_scale is not None and format != "nvfp4":
            raise ValueError(f"Fp4Linear.from_tensors: {format} has no global_scale. Leave it out.")
        if global_scale is not None:
            if not isinstance(global_scale, Tensor) or global_scale.numel() != 1:
                given = tuple(global_scale.shape) if isinstance(global_scale, Tensor) else global_scale
                raise ValueError(f"Fp4Linear.from_tensors: global_scale is {given}; it must be a tensor of one number.")
            if global_scale.device.type == "cpu" and not 0 < global_scale.item() < math.inf:
                raise ValueError(
                    f"Fp4Linear.from_tensors: global_scale is {global_scale.item()}; it must be finite and > 0."
                )
        layer.weight_codes = codes.view(torch.uint8)
        layer.weight_scales = ops.swizzle_scales(scales).view(layer.weight_scales.dtype)
        if global_scale is not None:
            layer.weight_global_scale = global_scale.detach().to(torch.float32).reshape(())
        layer.bias = bias
        return layer

    @torch.no_grad()
    def calibrate(self, x: Tensor, margin: float = 1.0) -> None:
        """Fixes the NVFP4 activations' global scale from a typical input; larger values than ``margin * amax(|x|)``
        saturate later on. Called again, it keeps the larger range. ``calibrate`` is nothing for MXFP4."""
        if not 0 < margin < math.inf:
            raise ValueError(f"Fp4Linear.calibrate: margin is {margin}; it must be finite and greater than zero.")
        if self.format != "nvfp4":
            return
        scale = ops.nvfp4_global_scale(x) / margin
        old = self.input_global_scale
        self.input_global_scale = scale if old is None else torch.minimum(scale, old)

    def forward(self, x: Tensor) -> Tensor:
        """``[*, in_features]`` to ``[*, out_features]`` in the dtype of ``x``."""
        if x.shape[-1:] != (self.in_features,):
            raise ValueError(f"Fp4Linear: x has shape {tuple(x.shape)}; its last dimension must be {self.in_features}.")
        x = _autocast(x)
        if x.requires_grad and torch.is_grad_enabled():
            return _WithoutBackward.apply(x, self)
        return self._product(x)

    def _product(self, x: Tensor) -> Tensor:
        if self.format == "mxfp4":
            codes, scales = ops.quantize_mxfp4(x)
            return ops.gemm_mxfp4(
                codes, self.weight_codes, scales, self.weight_scales, None, self.bias, out_dtype=x.dtype
            )
        global_scale = self.input_global_scale
        if global_scale is None:
            global_scale = ops.nvfp4_global_scale(x)
        codes, scales = ops.quantize_nvfp4(x, global_scale)
        assert self.weight_global_scale is not None
        # Not 1 / (a * b): global scales reach 2**100, so their product may overflow where alpha is a float32.
        alpha = torch.reciprocal(global_scale) / self.weight_global_scale
        return ops.gemm_nvfp4(codes, self.weight_codes, scales, self.weight_scales, alpha, self.bias, out_dtype=x.dtype)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """``.to(dtype)`` and the like move the scales but never convert them."""
        before = {name: self._buffers[name] for name in self._buffers if name.endswith(("scale", "scales"))}
        super()._apply(fn, recurse)
        for name, old in before.items():
            new = self._buffers[name]
            if old is not None and new is not None and new.dtype != old.dtype:
                self._buffers[name] = old.to(new.device)
        return self

    def weight_bytes(self) -> int:
        """Bytes of the weight as stored: codes, block scales (without padding) and global scale."""
        scales = self.out_features * (self.in_features // _BLOCK[self.format])
        return self.weight_codes.numel() + scales + (4 if self.format == "nvfp4" else 0)

    def dequantized_weight(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The weight ``[N, K]`` that the codes stand for."""
        if self.format == "mxfp4":
            return ops.dequantize_mxfp4(self.weight_codes, self.weight_scales, dtype=dtype)
        return ops.dequantize_nvfp4(self.weight_codes, self.weight_scales, self.weight_global_scale, dtype=dtype)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, format={self.format!r}"


def _autocast(x: Tensor) -> Tensor:
    """``x`` in autocast's dtype where autocast is on and casts (it leaves float64 alone)."""
    device = x.device.type
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return x
    return x.to(torch.get_autocast_dtype(device)) if x.dtype in _BIAS_DTYPES else x


def _accept_calibrated(module: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Lets a fresh layer load the state dict of a calibrated one."""
    scale = state.get(prefix + "input_global_scale")
    if scale is not None and module.input_global_scale is None:
        module.input_global_scale = torch.ones_like(scale, device=module.weight_codes.device)


def quantize_linears(
    module: torch.nn.Module,
    format: Format = "nvfp4",
    *,
    skip: Callable[[str, torch.nn.Linear], bool] = lambda name, linear: False,
) -> torch.nn.Module:
    """Replaces, in place, the ``torch.nn.Linear`` layers inside ``module`` by :class:`Fp4Linear`, and returns it.

    Left as they are: layers whose sizes do not fit (``in_features`` not a multiple of 32, ``out_features`` not of 8),
    those whose owner reads ``.weight`` itself (in ``MultiheadAttention`` and ``TransformerEncoderLayer``; subclasses of
    ``torch.nn.Linear``), and those for which ``skip(qualified name, layer)`` is true. A layer in several places stays
    one layer: it is replaced in all of them, or in none if one of them asks for that.
    """
    if type(module) is torch.nn.Linear:
        raise ValueError(
            "quantize_linears: module is itself a Linear and cannot be replaced in place. Use Fp4Linear.from_linear."
        )
    places: list[tuple[torch.nn.Module, str, torch.nn.Linear]] = []
    kept: set[torch.nn.Module] = set()
    for parent_name, parent in module.named_modules():
        for child_name, child in parent._modules.items():  # named_children() leaves out a layer's second place
            if type(child) is not torch.nn.Linear or child.in_features % 32 or child.out_features % 8:
                continue
            places.append((parent, child_name, child))
            if isinstance(parent, torch.nn.TransformerEncoderLayer) or skip(
                f"{parent_name}.{child_name}".lstrip("."), child
            ):
                kept.add(child)
    made: dict[torch.nn.Module, Fp4Linear] = {}
    for parent, child_name, child in places:
        if child in kept:
            continue
        if child not in made:
            made[child] = Fp4Linear.from_linear(child, format)
        setattr(parent, child_name, made[child])
    return module
