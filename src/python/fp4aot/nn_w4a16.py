"""A linear layer with an FP4 weight and 16-bit activations (W4A16): exported by :mod:`fp4aot.nn`."""

from __future__ import annotations

from typing import Any

from . import torch_ops  # noqa: F401  # isort: skip  (first: it says what is wrong with this torch, if anything)

import torch
from torch import Tensor

from . import ops
from ._backend import torch_backend
from ._nn_loading import packed, take_bytes, take_shape
from ._nn_parts import BLOCK, FLOATS, Format, check_format, check_sizes, check_tensors, keep_dtypes, like, own, run


class W4A16Linear(torch.nn.Module):
    """``x @ weight.T + bias`` with an FP4 weight; activations stay in 16 bits.

    For inference: a backward pass raises. ``in_features`` must be a multiple of 16 (NVFP4) or 32 (MXFP4),
    ``out_features`` of 8. Inputs are bfloat16 or float16 ``[*, in_features]``; float32 ones are rounded to bfloat16 on
    the way in. The output has the input's dtype. Under ``torch.autocast`` the input is converted to autocast's dtype
    first, as ``torch.nn.Linear`` does. Sums are float32 and come before ``1 / global_scale``: with NVFP4, inputs beyond
    about 1e35 / ``in_features`` may overflow.

    The state dict is the same on every device: ``weight`` uint8 ``[bytes]`` in the order of
    :class:`fp4aot.PreparedWeight`, ``weight_shape`` int64 ``[2]`` = (N, K) (load_state_dict compares it; it may be
    missing there), ``bias``, and for NVFP4 ``weight_alpha`` (float32 ``[]``, ``1 / global_scale``).
    :meth:`from_tensors` takes the codes and linear scales that checkpoints hold.
    """

    weight: Tensor
    weight_shape: Tensor
    weight_alpha: Tensor | None
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
        check_sizes("W4A16Linear", in_features, out_features, BLOCK[format])
        self.in_features, self.out_features, self.format = in_features, out_features, format
        size = -(-out_features // 16) * -(-in_features // 64) * (512 + 1024 // BLOCK[format])
        buffers: dict[str, Tensor | None] = {
            "weight": torch.zeros(size, dtype=torch.uint8, device=device),
            "weight_shape": torch.tensor([out_features, in_features], device=device),
            "weight_alpha": torch.ones((), dtype=torch.float32, device=device) if format == "nvfp4" else None,
            "bias": torch.zeros(out_features, dtype=dtype, device=device) if bias else None,
        }
        for name in sorted(buffers, key=lambda name: buffers[name] is None):  # torch.export wants absent ones last
            self.register_buffer(name, buffers[name])
        self.register_load_state_dict_pre_hook(take_bytes)
        self.register_load_state_dict_pre_hook(take_shape)

    @classmethod
    @torch.no_grad()
    def from_linear(cls, linear: torch.nn.Linear, format: Format = "nvfp4") -> W4A16Linear:
        """Quantises the weight of a ``torch.nn.Linear`` (bfloat16, float16 or float32) on its device."""
        layer, weight = like(cls, linear, format)
        if format == "nvfp4":
            global_scale = ops.nvfp4_global_scale(weight)
            layer._set_weight(*ops.quantize_nvfp4(weight, global_scale), "swizzled", global_scale)
        else:
            layer._set_weight(*ops.quantize_mxfp4(weight), "swizzled", None)
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
    ) -> W4A16Linear:
        """A layer from a checkpoint's tensors; arguments as :meth:`fp4aot.nn.Fp4Linear.from_tensors`."""
        in_features, out_features = check_tensors("W4A16Linear", codes, scales, global_scale, bias, format)
        layer = cls(in_features, out_features, bias is not None, format=format, device=codes.device)
        layer._set_weight(packed(codes), scales.contiguous(), "linear", global_scale)
        layer.bias = own(bias)
        return layer

    def _set_weight(self, codes: Tensor, scales: Tensor, layout: Any, global_scale: Tensor | None) -> None:
        self.weight = ops.prepare_w4a16_weights(codes, scales, format=self.format, scale_layout=layout).data
        if global_scale is not None:
            self.weight_alpha = torch.reciprocal(global_scale.detach().to(torch.float32).reshape(()))

    def forward(self, x: Tensor) -> Tensor:
        """``[*, in_features]`` to ``[*, out_features]`` in the dtype of ``x``."""
        return run(self, x)

    def _product(self, x: Tensor) -> Tensor:
        half = x.to(torch.bfloat16) if x.dtype == torch.float32 else x
        product = getattr(torch_backend(), f"gemm_w4a16_{self.format}")
        dtype = torch_backend().dtype(x.dtype if x.dtype in FLOATS else None)  # the op refuses others
        arguments = half, self.weight, self.out_features, self.in_features, dtype, self.weight_alpha, self.bias
        return product(*arguments, 0, False)  # type: ignore[no-any-return]

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """``.to(dtype)`` and the like move alpha but never convert it; ``to_empty`` leaves the sizes."""
        before = {"weight_alpha": self._buffers["weight_alpha"]}
        super()._apply(fn, recurse)
        keep_dtypes(self, before)
        self.weight_shape = torch.tensor([self.out_features, self.in_features], device=self.weight_shape.device)
        return self

    def prepared_weight(self) -> ops.PreparedWeight[Tensor]:
        """The weight for :func:`fp4aot.gemm_w4a16_nvfp4` and :func:`fp4aot.gemm_w4a16_mxfp4`; shares memory."""
        return ops.PreparedWeight(self.weight, self.out_features, self.in_features, self.format)

    def weight_bytes(self) -> int:
        """Bytes of the weight: codes, block scales (without padding) and alpha."""
        scales = self.out_features * (self.in_features // BLOCK[self.format])
        return self.out_features * self.in_features // 2 + scales + (4 if self.format == "nvfp4" else 0)

    def dequantized_weight(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The weight ``[N, K]`` that the codes stand for."""
        codes, scales = self.prepared_weight().restore()
        if self.format == "mxfp4":
            return ops.dequantize_mxfp4(codes, scales, dtype=dtype)
        assert self.weight_alpha is not None
        values = ops.dequantize_nvfp4(codes, scales, dtype=torch.float32)
        return (values * self.weight_alpha).to(dtype)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, format={self.format!r}"
