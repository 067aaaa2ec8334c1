"""Linear layers with FP4 weights: Fp4Linear with FP4 activations (W4A4), W4A16Linear with 16-bit ones. Needs torch."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

from . import torch_ops  # noqa: F401  # isort: skip  (first: it says what is wrong with this torch, if anything)

import torch
from torch import Tensor

from . import ops
from ._loader import is_boolean
from ._nn_loading import packed, take_bytes
from ._nn_parts import BLOCK, SCALE_DTYPE, Format, check_format, check_sizes, check_tensors, keep_dtypes, like, own, run
from .nn_w4a16 import W4A16Linear

__all__ = ["Format", "Fp4Linear", "W4A16Linear", "quantize_linears"]


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
        check_format(format)
        check_sizes("Fp4Linear", in_features, out_features, 32)
        self.in_features, self.out_features, self.format = in_features, out_features, format
        columns = in_features // BLOCK[format]
        shape = ((out_features + 127) // 128 * 128, (columns + 3) // 4 * 4)
        buffers: dict[str, Tensor | None] = {
            "weight_codes": torch.zeros(out_features, in_features // 2, dtype=torch.uint8, device=device),
            "weight_scales": torch.zeros(shape, dtype=torch.uint8, device=device).view(SCALE_DTYPE[format]),
            "weight_global_scale": torch.ones((), dtype=torch.float32, device=device) if format == "nvfp4" else None,
            "bias": torch.zeros(out_features, dtype=dtype, device=device) if bias else None,
            "input_global_scale": None,
        }
        # Absent buffers last, the one that may still come first among them: torch.export counts on it.
        for name in sorted(buffers, key=lambda name: (buffers[name] is None, name != "input_global_scale")):
            self.register_buffer(name, buffers[name])
        self.register_load_state_dict_pre_hook(_accept_calibrated)
        self.register_load_state_dict_pre_hook(take_bytes)

    @classmethod
    @torch.no_grad()
    def from_linear(cls, linear: torch.nn.Linear, format: Format = "nvfp4") -> Fp4Linear:
        """Quantises the weight of a ``torch.nn.Linear`` (bfloat16, float16 or float32) on its device."""
        layer, weight = like(cls, linear, format)
        if format == "nvfp4":
            layer.weight_global_scale = ops.nvfp4_global_scale(weight)
            layer.weight_codes, layer.weight_scales = ops.quantize_nvfp4(weight, layer.weight_global_scale)
        else:
            layer.weight_codes, layer.weight_scales = ops.quantize_mxfp4(weight)
        return layer

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
        in_features, out_features = check_tensors("Fp4Linear", codes, scales, global_scale, bias, format)
        layer = cls(in_features, out_features, bias is not None, format=format, device=codes.device)
        layer.weight_codes = packed(codes.view(torch.uint8))
        layer.weight_scales = ops.swizzle_scales(scales.contiguous()).view(layer.weight_scales.dtype)
        if global_scale is not None:
            layer.weight_global_scale = global_scale.detach().to(torch.float32).reshape(())
        layer.bias = own(bias)
        return layer

    @torch.no_grad()
    def calibrate(self, x: Tensor, margin: float = 1.0) -> None:
        """Fixes the NVFP4 activations' global scale from a typical input; larger values than ``margin * amax(|x|)``
        saturate later on. Called again, it keeps the larger range. ``calibrate`` is nothing for MXFP4."""
        if not isinstance(margin, (numbers.Real, Tensor)) or is_boolean(margin):
            raise TypeError(f"Fp4Linear.calibrate: margin is {margin!r}; it must be a number.")
        if not 0 < margin < math.inf:
            raise ValueError(f"Fp4Linear.calibrate: margin is {margin}; it must be finite and greater than zero.")
        if self.format != "nvfp4":
            return
        scale = ops.nvfp4_global_scale(x) / margin
        old = self.input_global_scale
        self.input_global_scale = scale if old is None else torch.minimum(scale, old)

    def forward(self, x: Tensor) -> Tensor:
        """``[*, in_features]`` to ``[*, out_features]`` in the dtype of ``x``."""
        return run(self, x)

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
        keep_dtypes(self, before)
        return self

    def weight_bytes(self) -> int:
        """Bytes of the weight as stored: codes, block scales (without padding) and global scale."""
        scales = self.out_features * (self.in_features // BLOCK[self.format])
        return self.weight_codes.numel() + scales + (4 if self.format == "nvfp4" else 0)

    def dequantized_weight(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The weight ``[N, K]`` that the codes stand for."""
        if self.format == "mxfp4":
            return ops.dequantize_mxfp4(self.weight_codes, self.weight_scales, dtype=dtype)
        return ops.dequantize_nvfp4(self.weight_codes, self.weight_scales, self.weight_global_scale, dtype=dtype)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, format={self.format!r}"


def _accept_calibrated(module: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Lets a fresh layer load the state dict of a calibrated one."""
    scale = state.get(prefix + "input_global_scale")
    if scale is not None and module.input_global_scale is None:
        module.input_global_scale = torch.ones_like(scale, device=module.weight_codes.device)


def quantize_linears(
    module: torch.nn.Module,
    format: Format = "nvfp4",
    *,
    weight_only: bool = False,
    skip: Callable[[str, torch.nn.Linear], bool] = lambda name, linear: False,
) -> torch.nn.Module:
    """Replaces, in place, the ``torch.nn.Linear`` layers inside ``module`` by :class:`Fp4Linear`, or by
    :class:`W4A16Linear` if ``weight_only``, and returns it.

    Left as they are: layers whose sizes do not fit (``out_features`` not a multiple of 8, ``in_features`` not of 32, or
    of 16 for NVFP4 with ``weight_only``), those whose owner reads ``.weight`` itself (in ``MultiheadAttention`` and
    ``TransformerEncoderLayer``; subclasses of ``torch.nn.Linear``), and those for which ``skip(qualified name, layer)``
    is true. A layer in several places stays one layer: it is replaced in all of them, or in none if one of them asks
    for that.
    """
    check_format(format)
    if not isinstance(module, torch.nn.Module):
        name = f"{type(module).__module__}.{type(module).__name__}"
        raise TypeError(f"quantize_linears: module is a {name}; it must be a torch.nn.Module.")
    if not callable(skip):
        raise TypeError(f"quantize_linears: skip is {skip!r}; it must be a function of a name and a layer.")
    kind = W4A16Linear if weight_only else Fp4Linear
    multiple = BLOCK[format] if weight_only else 32
    if type(module) is torch.nn.Linear:
        raise ValueError(
            "quantize_linears: module is itself a Linear and cannot be replaced in place. Use "
            f"{kind.__name__}.from_linear."
        )
    places: list[tuple[torch.nn.Module, str, torch.nn.Linear]] = []
    kept: set[torch.nn.Module] = set()
    for parent_name, parent in module.named_modules():
        for child_name, child in parent._modules.items():  # named_children() leaves out a layer's second place
            if type(child) is not torch.nn.Linear or child.weight.shape[1] % multiple or child.weight.shape[0] % 8:
                continue
            places.append((parent, child_name, child))
            if isinstance(parent, torch.nn.TransformerEncoderLayer) or skip(
                f"{parent_name}.{child_name}".lstrip("."), child
            ):
                kept.add(child)
    made: dict[torch.nn.Module, torch.nn.Module] = {}
    for parent, child_name, child in places:
        if child in kept:
            continue
        if child not in made:
            made[child] = kind.from_linear(child, format)
        setattr(parent, child_name, made[child])
    return module
