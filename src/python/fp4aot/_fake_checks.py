"""What the fakes (torch_fakes*.py) check of shapes, dtypes and devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

NVFP4 = (16, torch.float8_e4m3fn)
MXFP4 = (32, torch.float8_e8m0fnu)
LINEAR = 1
FLOATS = (torch.bfloat16, torch.float16, torch.float32)
CODES = (torch.uint8, torch.float4_e2m1fn_x2)

Format = tuple[int, torch.dtype]
Fake = Callable[..., Any]


def swizzled_shape(rows: int, columns: int) -> tuple[int, int]:
    """Shape of a swizzled scale buffer for ``rows`` x ``columns`` block scales."""
    return (rows + 127) // 128 * 128, (columns + 3) // 4 * 4


def require(condition: Any, op: str, *text: object) -> None:
    """Raises ValueError with the text if the condition is false; it may be a symbolic one."""
    torch._check_value(condition, lambda: f"{op}: " + "".join(map(str, text)))


def row_count(shape: torch.Size) -> int:
    """Product of the leading dimensions."""
    product = 1
    for size in shape[:-1]:
        product = product * size
    return product


def check_matrix(op: str, name: str, tensor: Tensor) -> None:
    """A rank that the ops take."""
    require(tensor.dim() >= 1, op, name, " is a scalar; it must have at least one dimension, [rows, columns].")
    require(tensor.dim() <= 64, op, name, f" has {tensor.dim()} dimensions; at most 64. Reshape it to [rows, columns].")


def check_float(op: str, name: str, dtype: torch.dtype, fix: str = "") -> None:
    """One of the three float types."""
    text = f" is {dtype}; allowed are torch.bfloat16, torch.float16 and torch.float32.{fix}"
    require(dtype in FLOATS, op, name, text)


def check_dtype(op: str, name: str, tensor: Tensor, allowed: tuple[torch.dtype, ...]) -> None:
    """One of the allowed dtypes."""
    require(tensor.dtype in allowed, op, name, f" is {tensor.dtype}; it must be {' or '.join(map(str, allowed))}.")


def check_shape(op: str, name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Exactly this shape."""
    same = tensor.dim() == len(shape)
    require(same, op, name, f" has {tensor.dim()} dimensions; it must have {len(shape)}.")
    for size, expected in zip(tensor.shape, shape, strict=True):
        require(size == expected, op, name, " has shape ", list(tensor.shape), "; it must be ", list(shape), ".")


def check_device(op: str, name: str, tensor: Tensor, first: Tensor) -> None:
    """The first tensor's device."""
    text = f" is on {tensor.device}, but the first tensor is on {first.device}. All tensors must be on one device."
    require(tensor.device == first.device, op, name, text)


def check_bytes(op: str, name: str, scales: Tensor, needed: int) -> None:
    """A scale buffer that is large enough. Sizes that are symbols pass: a guard would tie the shape of the scales to
    that of the codes in every exported graph."""
    given = scales.numel()
    if isinstance(given, int) and isinstance(needed, int):
        require(given >= needed, op, name, " has ", given, " bytes; ", needed, " are needed.")


def check_swizzled(op: str, name: str, scales: Tensor, rows: int, columns: int) -> None:
    """A buffer for swizzled scales of ``rows`` x ``columns`` blocks."""
    padded_rows, padded_columns = swizzled_shape(rows, columns)
    check_bytes(op, name, scales, padded_rows * padded_columns)


def check_scalar(op: str, name: str, tensor: Tensor | None, first: Tensor) -> None:
    """None, or one float32 on the first tensor's device."""
    if tensor is not None:
        check_device(op, name, tensor, first)
        check_dtype(op, name, tensor, (torch.float32,))
        require(tensor.numel() == 1, op, name, " must be one float32 value, a tensor of one element.")


def check_k(op: str, k: int, multiple: int) -> None:
    """A positive multiple."""
    require(k >= multiple, op, "k = ", k, f" is not allowed; it must be at least {multiple}. Pad k with zeros.")
    text = f" is not allowed; it must be a multiple of {multiple}. Pad k with zeros."
    require(k % multiple == 0, op, "k = ", k, text)


def check_n(op: str, n: int) -> None:
    """A multiple of 8."""
    text = " is not allowed; it must be a multiple of 8. Pad the weights with rows of zeros."
    require(n % 8 == 0, op, "n = ", n, text)


def check_bias(op: str, bias: Tensor | None, n: int, first: Tensor) -> None:
    """None, or floats of shape [n] on the first tensor's device."""
    if bias is not None:
        check_device(op, "bias", bias, first)
        check_shape(op, "bias", bias, (n,))
        check_float(op, "bias", bias.dtype, " Convert it: .to(torch.bfloat16).")
