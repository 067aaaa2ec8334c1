"""Fake (shape-only) versions of the ops, for torch.compile, torch.export, FakeTensor and the meta device.

They refuse what the ops refuse as far as shapes, dtypes and devices tell, so that tracing fails where running would.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from . import torch_fakes_w4a16
from ._fake_checks import (
    CODES,
    LINEAR,
    MXFP4,
    NVFP4,
    Fake,
    Format,
    check_bias,
    check_bytes,
    check_device,
    check_dtype,
    check_float,
    check_k,
    check_matrix,
    check_n,
    check_scalar,
    check_shape,
    check_swizzled,
    require,
    row_count,
    swizzled_shape,
)


def _quantized(
    op: str, fmt: Format, halves: int, input: Tensor, layout: int, global_scale: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    vector, dtype = fmt
    check_matrix(op, "input", input)
    check_float(op, "input", input.dtype, " Convert it: .to(torch.bfloat16).")
    width = input.shape[-1]
    text = " columns; it must have 2 * K, the gate and then the up half."
    require(width % halves == 0, op, "input has ", width, text)
    k = width // halves
    check_k(op, k, vector)
    check_scalar(op, "global_scale", global_scale, input)
    codes = input.new_empty((*input.shape[:-1], k // 2), dtype=torch.uint8)
    if layout == LINEAR:
        return codes, input.new_empty((*input.shape[:-1], k // vector), dtype=dtype)
    return codes, input.new_empty(swizzled_shape(row_count(input.shape), k // vector), dtype=dtype)


def _quantize_nvfp4(op: str, halves: int) -> Fake:
    def fake(
        input: Tensor, global_scale: Tensor | None = None, scale_layout: int = 0, pdl: bool = False
    ) -> tuple[Tensor, Tensor]:
        return _quantized(op, NVFP4, halves, input, scale_layout, global_scale)

    return fake


def _quantize_mxfp4(op: str, halves: int) -> Fake:
    def fake(input: Tensor, rounding: int = 0, scale_layout: int = 0, pdl: bool = False) -> tuple[Tensor, Tensor]:
        return _quantized(op, MXFP4, halves, input, scale_layout)

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
    results = _quantized(op, NVFP4, 1, input, scale_layout, global_scale)
    shapes: dict[str, tuple[Tensor | None, tuple[int, ...]]] = {
        "weight": (weight, (input.shape[-1],)),
        "residual": (residual, tuple(input.shape)),
    }
    for name, (tensor, shape) in shapes.items():
        if tensor is not None:
            check_device(op, name, tensor, input)
            check_shape(op, name, tensor, shape)
            check_dtype(op, name, tensor, (input.dtype,))
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
    check_matrix(op, "codes", codes)
    check_dtype(op, "codes", codes, CODES)
    check_device(op, "scales", scales, codes)
    check_dtype(op, "scales", scales, (scale_dtype, torch.uint8))
    check_float(op, "dtype", dtype)
    k = codes.shape[-1] * 2
    check_k(op, k, vector)
    check_scalar(op, "global_scale", global_scale, codes)
    if layout == LINEAR and scales.dim() != 1:
        check_matrix(op, "scales", scales)
        text = " has the wrong shape; linear scales are [*, K/block] with the rows of the codes, or a flat buffer."
        require(scales.shape[-1] == k // vector, op, "scales", text)
        require(row_count(scales.shape) == row_count(codes.shape), op, "scales", text)
    elif layout == LINEAR:
        check_bytes(op, "scales", scales, row_count(codes.shape) * (k // vector))
    else:
        check_swizzled(op, "scales", scales, row_count(codes.shape), k // vector)
    return codes.new_empty((*codes.shape[:-1], k), dtype=dtype)


def _dequantize_nvfp4(
    codes: Tensor,
    scales: Tensor,
    global_scale: Tensor | None,
    dtype: torch.dtype,
    scale_layout: int = 0,
    pdl: bool = False,
) -> Tensor:
    return _dequantized("dequantize_nvfp4", NVFP4, codes, scales, dtype, scale_layout, global_scale)


def _dequantize_mxfp4(
    codes: Tensor, scales: Tensor, dtype: torch.dtype, scale_layout: int = 0, pdl: bool = False
) -> Tensor:
    return _dequantized("dequantize_mxfp4", MXFP4, codes, scales, dtype, scale_layout)


def _nvfp4_global_scale(input: Tensor, pdl: bool = False) -> Tensor:
    check_matrix("nvfp4_global_scale", "input", input)
    check_float("nvfp4_global_scale", "input", input.dtype, " Convert it: .to(torch.bfloat16).")
    return input.new_empty((), dtype=torch.float32)


_SCALES = (torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.uint8)


def _swizzle_scales(scales: Tensor, pdl: bool = False) -> Tensor:
    check_matrix("swizzle_scales", "scales", scales)
    check_dtype("swizzle_scales", "scales", scales, _SCALES)
    return scales.new_empty(swizzled_shape(row_count(scales.shape), scales.shape[-1]))


def _unswizzle_scales(swizzled: Tensor, rows: int, columns: int, pdl: bool = False) -> Tensor:
    op = "unswizzle_scales"
    check_dtype(op, "swizzled", swizzled, _SCALES)
    require(rows >= 0, op, "rows = ", rows, " is not allowed; it must be at least 0.")
    require(columns >= 1, op, "columns = ", columns, " is not allowed; it must be at least 1.")
    check_swizzled(op, "swizzled", swizzled, rows, columns)
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
        check_matrix(op, "a", a)
        check_dtype(op, "a", a, CODES)
        require(b.dim() == 2, op, f"b (weights) must have two dimensions, [N, K/2]; it has {b.dim()}.")
        check_dtype(op, "b", b, CODES)
        check_device(op, "b", b, a)
        text = "; both must be K/2: a [M, K/2], b [N, K/2]."
        columns, n = a.shape[-1], b.shape[0]
        require(columns == b.shape[1], op, "a has ", columns, " bytes a row and b has ", b.shape[1], text)
        check_k(op, columns * 2, 32)
        check_n(op, n)
        for name, scales, rows in (("a_scales", a_scales, row_count(a.shape)), ("b_scales", b_scales, n)):
            check_device(op, name, scales, a)
            check_dtype(op, name, scales, (fmt[1], torch.uint8))
            check_swizzled(op, name, scales, rows, columns * 2 // fmt[0])
        check_float(op, "out_dtype", out_dtype)
        check_scalar(op, "alpha", alpha, a)
        check_bias(op, bias, n, a)
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
    "gemm_nvfp4": _gemm("gemm_nvfp4", NVFP4),
    "gemm_mxfp4": _gemm("gemm_mxfp4", MXFP4),
    **torch_fakes_w4a16.FAKES,
}


def outputs(name: str) -> int:
    """How many tensors ``name``_out writes to; they are its first arguments."""
    return 2 if ("quantize" in name and not name.startswith("dequantize")) or name.startswith("restore") else 1


def _out(name: str, fake: Fake) -> Fake:
    """The fake of ``name``_out: what the op itself refuses, and outputs of another shape or device."""
    implied = ("dtype", "out_dtype", "rows", "columns")
    parameters = inspect.signature(fake).parameters
    names = [parameter for parameter in parameters if parameter not in implied]
    count = outputs(name)
    exact = not name.endswith("_scale") and not name.endswith("_scales") and not name.startswith("prepare")

    def out_fake(*arguments: Any) -> None:
        first = arguments[0]
        values = dict(zip(names, arguments[count:], strict=False))
        if "global_scale" in names:
            values.setdefault("global_scale", None)
        values.update({key: first.dtype for key in ("dtype", "out_dtype") if key in parameters})
        if "rows" in parameters:
            values.update(rows=row_count(first.shape), columns=first.shape[-1])
        results = fake(**values)
        results = results if isinstance(results, tuple) else (results,)
        for output, result in zip(arguments, results, strict=False):
            check_device(name, "out", output, result)
        if exact:  # scales and prepared weights may have a larger buffer, and a global scale any shape of one element
            check_shape(name, "out", first, tuple(results[0].shape))

    return out_fake


def register() -> None:
    """Registers every fake, and that W4A16 has no backward, once a process; the ops must be loaded."""
    namespace: Any = torch.ops.fp4aot
    if getattr(namespace, "fakes_are_registered", False):  # imported again; some versions of torch refuse a second one
        return
    for name, fake in FAKES.items():
        torch.library.register_fake(f"fp4aot::{name}", fake)
        torch.library.register_fake(f"fp4aot::{name}_out", _out(name, fake))
    torch_fakes_w4a16.register_backward()
    namespace.fakes_are_registered = True
