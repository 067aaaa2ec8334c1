"""What the linear layers of fp4aot.nn take from checkpoints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._nn_parts import CODES


def packed(tensor: Tensor) -> Tensor:
    """``tensor``, or a copy that is contiguous and begins at a multiple of 16 bytes: a mapped file's may begin
    anywhere."""
    if tensor.is_contiguous():
        try:
            if tensor.data_ptr() % 16 == 0:
                return tensor
        except RuntimeError:  # a fake tensor has no address
            return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def take_bytes(module: Any, state: dict[str, Any], prefix: str, *arguments: Any) -> None:
    """A hook before load_state_dict: codes and scales are taken bit for bit, where torch would convert the numbers that
    they seem to be; what holds no such bytes is refused."""
    errors: list[str] = arguments[-1]
    for name, buffer in module._buffers.items():
        value = state.get(prefix + name)
        if buffer is None or not isinstance(value, Tensor) or value.shape != buffer.shape:
            continue
        if buffer.dtype == torch.float32 and name.endswith(("alpha", "global_scale")):
            state[prefix + name] = value.to(torch.float32)
        if buffer.dtype.itemsize != 1:
            continue
        allowed = CODES if name == "weight_codes" else (buffer.dtype, torch.uint8)
        if value.dtype in allowed:
            state[prefix + name] = packed(value).view(buffer.dtype)
            continue
        errors.append(f"{prefix}{name} is {value.dtype}; it must be " + " or ".join(map(str, dict.fromkeys(allowed))))
        state[prefix + name] = buffer  # nothing is converted


def take_shape(module: Any, state: dict[str, Any], prefix: str, *arguments: Any) -> None:
    """A hook before load_state_dict: prepared weights of other sizes may have as many bytes, so ``weight_shape`` says
    their sizes. A state dict from elsewhere may lack it."""
    errors: list[str] = arguments[-1]
    key, sizes = prefix + "weight_shape", [module.out_features, module.in_features]
    shape = state.get(key)
    if prefix + "weight" in state and (shape is None or shape.is_meta):
        state[key] = torch.tensor(sizes, device=module.weight_shape.device)
    elif shape is not None and shape.tolist() != sizes:
        errors.append(f"{prefix}weight is {shape.tolist()} (N, K), but this layer is {sizes}")
        state[key] = module.weight_shape
