"""Fake (shape-only) versions of the ops, for torch.compile, torch.export, FakeTensor and the meta device.

They refuse what the ops refuse as far as shapes, dtypes and devices tell, so that tracing fails where running would.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_NVFP4 = (16, torch.float8_e4m3fn)
_MXFP4 = (32, torch.float8_e8m0fnu)
_LINEAR = 1
_FLOATS = (torch.bfloat16, torch.float16, torch.float32)
_CODES = (torch.uint8, torch.float4_e2m1fn_x2)

Format = tuple[int, torch.dtype]
Fake = Callable[..., Any]


def swizzled_shape(rows: int, columns: int) -> tuple[int, int]:
    """Shape of a swizzled scale buffer for ``rows`` x ``columns`` block scales."""
    return (rows + 127) // 128 * 128, (columns + 3) // 4 * 4


def _require(condition: Any, op: str, *text: object) -> None:
    torch._check_value(condition, lambda: f"{op}: " + "".join(map(str, text)))


def _rows(shape: torch.Size) -> int:
    rows = 1
    for size in shape[:-1]:
        rows = rows * size
    return rows


def _check_matrix(op: str, name: str, tensor: Tensor) -> None:
    _require(tensor.dim() >= 1, op, name, " is a scalar; it must have at least one dimension, [rows, columns].")
    _require(
        tensor.dim() <= 64, op, name, f" has {tensor.dim()} dimensions; at most 64. Reshape it to [rows, columns]."
    )


def _check_float(op: str, name: str, dtype: torch.dtype, fix: str = "") -> None:
    text = f" is {dtype}; allowed are torch.bfloat16, torch.float16 and torch.float32.{fix}"
    _require(dtype in _FLOATS, op, name, text)


def _check_dtype(op: str, name: str, tensor: Tensor, allowed: tuple[torch.dtype, ...]) -> None:
    _require(tensor.dtype in allowed, op, name, f" is {tensor.dtype}; it must be {' or '.join(map(str, allowed))}.")


def _check_shape(op: str, name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    same = tensor.dim() == len(shape)
    _require(same, op, name, f" has {tensor.dim()} dimensions; it must have {len(shape)}.")
    for size, expected in zip(tensor.shape, shape, strict=True):
        _require(size == expected, op, name, " has shape ", list(tensor.shape), "; it must be ", list(shape), ".")


def _check_device(op: str, name: str, tensor: Tensor, first: Tensor) -> None:
    text = f" is on {tensor.device}, but the first tensor is on {first.device}. All tensors must be on one device."
    _require(tensor.device == first.device, op, name, text)


def _check_scalar(op: str, name: str, tensor: Tensor | None, first: Tensor) -> None:
    if tensor is not None:
        _check_device(op, name, tensor, first)
        _check_dtype(op, name, tensor, (torch.float32,))
        _require(tensor.numel() == 1, op, name, " must be one float32 value, a tensor of one element.")


def _check_k(op: str, k: int, multiple: int) -> None:
    _require(k >= multiple, op, "k = ", k, f" is not allowed; it must be at least {multiple}. Pad k with zeros.")
    text = f" is not allowed; it must be a multiple of {multiple}. Pad k with zeros."
    _require(k % multiple == 0, op, "k = ", k, text)


def _quantized(
    op: str, fmt: Format, halves: int, input: Tensor, layout: int, global_scale: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    vector, dtype = fmt
    _check_matrix(op, "input", input)
    _check_float(op, "input", input.dtype, " Convert it: .to(torch.bfloat16).")
    width = input.shape[-1]
    text = " columns; it must have 2 * K, the gate and then the up half."
    _require(width % halves == 0, op, "input has ", width, text)
    k = width // halves
    _check_k(op, k, vector)
    _check_scalar(op, "global_scale", global_scale, input)
    codes = input.new_empty((*input.shape[:-1], k // 2), dtype=torch.uint8)
    if layout == _LINEAR:
        return codes, input.new_empty((*input.shape[:-1], k // vector), dtype=dtype)
    return codes, input.new_empty(swizzled_shape(_rows(input.shape), k // vector), dtype=dtype)


def _quantize_nvfp4(op: str, halves: int) -> Fake:
    def fake(
        input: Tensor, global_scale: Tensor | None = None, scale_layout: int = 0, pdl: bool = False
    ) -> tuple[Tensor, Tensor]:
        return _quantized(op, _NVFP4, halves, input, scale_layout, global_scale)

    return fake


def _quantize_mxfp4(op: str, halves: int) -> Fake:
    def fake(input: Tensor, rounding: int = 0, scale_layout: int = 0, pdl: bool = False) -> tuple[Tensor, Tensor]:
        return _quantized(op, _MXFP4, halves, input, scale_layout)

    return fake


def _rmsnorm_quantize_nvfp4(
    input: Tensor,
    weight: Tensor,
    global_scale: Tensor | None = None,
    epsilon: float = 1e-6,
    residual: Tensor | None = None,
    scale_layout: int = 0,
    pdl: bool = False,
) -> tuple[Tensor, Tensor]:
    op = "rmsnorm_quantize_nvfp4"
    results = _quantized(op, _NVFP4, 1, input, scale_layout, global_scale)
    shapes: dict[str, tuple[Tensor | None, tuple[int, ...]]] = {
        "weight": (weight, (input.shape[-1],)),
        "residual": (residual, tuple(input.shape)),
    }
    for name, (tensor, shape) in shapes.items():
        if tensor is not None:
            _check_device(op, name, tensor, input)
            _check_shape(op, name, tensor, shape)
            _check_dtype(op, name, tensor, (input.dtype,))
    return results


def _dequantized(
    op: str,
    fmt: Format,
    codes: Tensor,
    scales: Tensor,
    dtype: torch.dtype,
    layout: int,
    global_scale: Tensor | None = None,
) -> Tensor:
    vector, scale_dtype = fmt
    _check_matrix(op, "codes", codes)
    _check_dtype(op, "codes", codes, _CODES)
    _check_device(op, "scales", scales, codes)
    _check_dtype(op, "scales", scales, (scale_dtype, torch.uint8))
    _check_float(op, "dtype", dtype)
    k = codes.shape[-1] * 2
    _check_k(op, k, vector)
    _check_scalar(op, "global_scale", global_scale, codes)
    if layout == _LINEAR and scales.dim() != 1:
        _check_matrix(op, "scales", scales)
        text = " has the wrong shape; linear scales are [*, K/block] with the rows of the codes, or a flat buffer."
        _require(scales.shape[-1] == k // vector, op, "scales", text)
        _require(_rows(scales.shape) == _rows(codes.shape), op, "scales", text)
    return codes.new_empty((*codes.shape[:-1], k), dtype=dtype)


def _dequantize_nvfp4(
    codes: Tensor,
    scales: Tensor,
    global_scale: Tensor | None,
    dtype: torch.dtype,
    scale_layout: int = 0,
    pdl: bool = False,
) -> Tensor:
    return _dequantized("dequantize_nvfp4", _NVFP4, codes, scales, dtype, scale_layout, global_scale)


def _dequantize_mxfp4(
    codes: Tensor, scales: Tensor, dtype: torch.dtype, scale_layout: int = 0, pdl: bool = False
) -> Tensor:
    return _dequantized("dequantize_mxfp4", _MXFP4, codes, scales, dtype, scale_layout)


def _nvfp4_global_scale(input: Tensor, pdl: bool = False) -> Tensor:
    _check_matrix("nvfp4_global_scale", "input", input)
    _check_float("nvfp4_global_scale", "input", input.dtype, " Convert it: .to(torch.bfloat16).")
    return input.new_empty((), dtype=torch.float32)


_SCALES = (torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.uint8)


def _swizzle_scales(scales: Tensor, pdl: bool = False) -> Tensor:
    _check_matrix("swizzle_scales", "scales", scales)
    _check_dtype("swizzle_scales", "scales", scales, _SCALES)
    return scales.new_empty(swizzled_shape(_rows(scales.shape), scales.shape[-1]))


def _unswizzle_scales(swizzled: Tensor, rows: int, columns: int, pdl: bool = False) -> Tensor:
    _check_dtype("unswizzle_scales", "swizzled", swizzled, _SCALES)
    return swizzled.new_empty((rows, columns))


def _gemm(op: str, fmt: Format) -> Fake:
    def fake(
        a: Tensor,
        b: Tensor,
        a_scales: Tensor,
        b_scales: Tensor,
        out_dtype: torch.dtype,
        alpha: Tensor | None = None,
        bias: Tensor | None = None,
        tactic: int = 0,
        pdl: bool = False,
    ) -> Tensor:
        _check_matrix(op, "a", a)
        _check_dtype(op, "a", a, _CODES)
        _require(b.dim() == 2, op, f"b (weights) must have two dimensions, [N, K/2]; it has {b.dim()}.")
        _check_dtype(op, "b", b, _CODES)
        _check_device(op, "b", b, a)
        text = "; both must be K/2: a [M, K/2], b [N, K/2]."
        columns, n = a.shape[-1], b.shape[0]
        _require(columns == b.shape[1], op, "a has ", columns, " bytes a row and b has ", b.shape[1], text)
        _check_k(op, columns * 2, 32)
        text = " is not allowed; it must be a multiple of 8. Pad the weights with rows of zeros."
        _require(n % 8 == 0, op, "n = ", n, text)
        for name, scales in {"a_scales": a_scales, "b_scales": b_scales}.items():
            _check_device(op, name, scales, a)
            _check_dtype(op, name, scales, (fmt[1], torch.uint8))
        _check_float(op, "out_dtype", out_dtype)
        _check_scalar(op, "alpha", alpha, a)
        if bias is not None:
            _check_device(op, "bias", bias, a)
            _check_shape(op, "bias", bias, (n,))
            _check_float(op, "bias", bias.dtype, " Convert it: .to(torch.bfloat16).")
        return a.new_empty((*a.shape[:-1], n), dtype=out_dtype)

    return fake


FAKES: dict[str, Fake] = {
    "quantize_nvfp4": _quantize_nvfp4("quantize_nvfp4", 1),
    "quantize_mxfp4": _quantize_mxfp4("quantize_mxfp4", 1),
    "silu_mul_quantize_nvfp4": _quantize_nvfp4("silu_mul_quantize_nvfp4", 2),
    "silu_mul_quantize_mxfp4": _quantize_mxfp4("silu_mul_quantize_mxfp4", 2),
    "rmsnorm_quantize_nvfp4": _rmsnorm_quantize_nvfp4,
    "dequantize_nvfp4": _dequantize_nvfp4,
    "dequantize_mxfp4": _dequantize_mxfp4,
    "nvfp4_global_scale": _nvfp4_global_scale,
    "swizzle_scales": _swizzle_scales,
    "unswizzle_scales": _unswizzle_scales,
    "gemm_nvfp4": _gemm("gemm_nvfp4", _NVFP4),
    "gemm_mxfp4": _gemm("gemm_mxfp4", _MXFP4),
}


def outputs(name: str) -> int:
    """How many tensors ``name``_out writes to; they are its first arguments."""
    return 2 if "quantize" in name and not name.startswith("dequantize") else 1


def _out(name: str, fake: Fake) -> Fake:
    """The fake of ``name``_out: what the op itself refuses, and outputs of another shape or device."""
    implied = ("dtype", "out_dtype", "rows", "columns")
    parameters = inspect.signature(fake).parameters
    names = [parameter for parameter in parameters if parameter not in implied]
    count = outputs(name)
    exact = not name.endswith("_scale") and not name.endswith("_scales")

    def out_fake(*arguments: Any) -> None:
        first = arguments[0]
        values = dict(zip(names, arguments[count:], strict=False))
        if "global_scale" in names:
            values.setdefault("global_scale", None)
        values.update({key: first.dtype for key in ("dtype", "out_dtype") if key in parameters})
        if "rows" in parameters:
            values.update(rows=_rows(first.shape), columns=first.shape[-1])
        results = fake(**values)
        results = results if isinstance(results, tuple) else (results,)
        for output, result in zip(arguments, results, strict=False):
            _check_device(name, "out", output, result)
        if exact:  # block scales may be given a larger buffer, and a global scale any shape of one element
            _check_shape(name, "out", first, tuple(results[0].shape))

    return out_fake


def register() -> None:
    """Registers every fake, once a process; the ops must be loaded."""
    namespace: Any = torch.ops.fp4aot
    if getattr(namespace, "fakes_are_registered", False):  # imported again; some versions of torch refuse a second one
        return
    for name, fake in FAKES.items():
        torch.library.register_fake(f"fp4aot::{name}", fake)
        torch.library.register_fake(f"fp4aot::{name}_out", _out(name, fake))
    namespace.fakes_are_registered = True
