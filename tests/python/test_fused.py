"""silu_mul_quantize_* and rmsnorm_quantize_nvfp4 against fp64 computed, rounded to the input type, and quantised.

exp and sqrt may differ between images: at most 1e-4 of the codes may differ, each by one step.
"""

import fp4aot
import numpy as np
import pytest
import reference
import torch
from operands import (
    DTYPES,
    SCALE_DTYPES,
    Guarded,
    bytes_of,
    floats_of,
    guarded_bytes,
    random_rows,
    tensor_of,
    with_row_stride,
)


def silu_mul(format, x, global_scale, **options):
    if format == "nvfp4":
        return fp4aot.silu_mul_quantize_nvfp4(x, global_scale, **options)
    return fp4aot.silu_mul_quantize_mxfp4(x, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
@pytest.mark.parametrize(("rows", "k", "gap"), [(1, 32, 0), (33, 96, 5), (200, 1024, 0), (129, 512, 16)])
def test_silu_mul(device, format, dtype, rows, k, gap):
    values = 3 * random_rows(np.random.default_rng(k), rows, 2 * k, "normal")
    x = with_row_stride(tensor_of(values, dtype, device), gap)
    scale = torch.tensor([50.0], device=device) if format == "nvfp4" else None
    intermediate = reference.silu_mul(floats_of(x), dtype)
    wanted = reference.quantize(intermediate, format, 50.0)
    for layout in ("linear", "swizzled"):
        codes, scales = silu_mul(format, x, scale, scale_layout=layout)
        assert codes.shape == (rows, k // 2)
        assert scales.dtype == SCALE_DTYPES[format]
        linear = bytes_of(scales)
        if layout == "swizzled":
            linear = reference.unswizzle(linear, *wanted[1].shape)
            assert np.array_equal(reference.swizzle(linear), bytes_of(scales)), "padding is not zero"
        reference.assert_codes_close(reference.unpack_codes(bytes_of(codes)), linear, *wanted)


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
def test_silu_mul_order_and_extremes(device, format):
    """The gate comes first; large gates neither overflow nor vanish; NaN and infinity poison their block only."""
    k = 64
    x = np.ones((6, 2 * k), np.float32)
    x[0, :k], x[0, k:] = 2.0, -3.0  # silu(2) * -3 = -5.28
    x[1, :k] = -200.0  # exp(200) overflows fp32: silu is -0
    x[2, :k] = 200.0
    x[3, 0] = np.nan
    x[4, k] = np.inf
    x[5, :k] = -np.inf  # -inf * 0 = NaN, as the formula says
    tensor = tensor_of(x, "fp32", device)
    codes, scales = silu_mul(format, tensor, None, scale_layout="linear")
    codes, scales = reference.unpack_codes(bytes_of(codes)), bytes_of(scales)
    wanted = reference.quantize(reference.silu_mul(x, "fp32"), format)
    nan = 0x7F if format == "nvfp4" else 0xFF
    assert np.array_equal(scales, wanted[1])
    assert (codes[0] == codes[0, 0]).all()
    assert codes[0, 0] & 8, "negative: the gate is the first half"
    assert np.array_equal(codes[:3] & 7, wanted[0][:3] & 7)
    assert scales[3].tolist() == [nan, *wanted[1][3, 1:].tolist()]
    assert scales[4].tolist() == [nan, *wanted[1][4, 1:].tolist()]
    assert (scales[5] == nan).all()
    assert (codes[5] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "k", "gap"), [(1, 16, 0), (33, 112, 3), (200, 1024, 0), (17, 8192, 0), (130, 384, 8)])
@pytest.mark.parametrize("with_residual", [False, True])
def test_rmsnorm(device, dtype, rows, k, gap, with_residual):
    rng = np.random.default_rng(k)
    x = with_row_stride(tensor_of(random_rows(rng, rows, k, "normal"), dtype, device), gap)
    weight = tensor_of(1 + 0.2 * rng.standard_normal(k), dtype, device)
    residual = None
    if with_residual:
        guarded = Guarded(rows, k, DTYPES[dtype], device)
        guarded.tensor.copy_(tensor_of(2 * random_rows(rng, rows, k, "normal"), dtype, device))
        residual = guarded.tensor
    before = bytes_of(x).copy()
    start = None if residual is None else floats_of(residual)
    intermediate, summed = reference.rmsnorm(floats_of(x), floats_of(weight), 1e-5, dtype, start)
    wanted = reference.quantize(intermediate, "nvfp4", 12.0)
    scale = torch.tensor([12.0], device=device)
    codes, scales = fp4aot.rmsnorm_quantize_nvfp4(
        x, weight, scale, epsilon=1e-5, residual=residual, scale_layout="linear"
    )
    reference.assert_codes_close(reference.unpack_codes(bytes_of(codes)), bytes_of(scales), *wanted)
    assert np.array_equal(bytes_of(x), before), "the input was changed"
    if residual is not None:
        guarded.check()
        assert np.array_equal(floats_of(residual), summed), "residual must hold x + residual"


def test_rmsnorm_swizzled_padding_and_rows_with_nan(device):
    rng = np.random.default_rng(0)
    values = random_rows(rng, 40, 144, "normal")
    values[7, 3] = np.nan
    values[9] = 0.0
    weight = tensor_of(np.ones(144), "bf16", device)
    codes, scales = fp4aot.rmsnorm_quantize_nvfp4(tensor_of(values, "bf16", device), weight)
    linear = reference.unswizzle(bytes_of(scales), 40, 9)
    assert np.array_equal(reference.swizzle(linear), bytes_of(scales))
    assert (linear[7] == 0x7F).all(), "the mean of a row with a NaN is NaN, so is the row"
    assert (bytes_of(codes)[7] == 0).all()
    assert (linear[9] == 0).all(), "a zero row stays zero: epsilon keeps it finite"
    assert (bytes_of(codes)[9] == 0).all()
    assert (linear[np.arange(40) != 7] != 0x7F).all()


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.5])
def test_rmsnorm_epsilon(device, epsilon):
    x = tensor_of(0.3 * random_rows(np.random.default_rng(1), 64, 256, "normal"), "fp32", device)
    weight = torch.ones(256, device=device)
    codes, scales = fp4aot.rmsnorm_quantize_nvfp4(x, weight, epsilon=epsilon, scale_layout="linear")
    intermediate, _ = reference.rmsnorm(floats_of(x), np.ones(256), epsilon, "fp32")
    wanted = reference.quantize(intermediate, "nvfp4")
    reference.assert_codes_close(reference.unpack_codes(bytes_of(codes)), bytes_of(scales), *wanted)


@pytest.mark.parametrize("op", ["silu_mul_quantize_nvfp4", "silu_mul_quantize_mxfp4", "rmsnorm_quantize_nvfp4"])
def test_fused_out(device, op):
    rows, k = 37, 96
    columns = 2 * k if op.startswith("silu") else k
    x = tensor_of(random_rows(np.random.default_rng(2), rows, columns, "normal"), "bf16", device)
    arguments = (x,) if op.startswith("silu") else (x, torch.ones(k, dtype=torch.bfloat16, device=device))
    function = getattr(fp4aot, op)
    wanted_codes, wanted_scales = function(*arguments)
    codes = Guarded(rows, k // 2, torch.uint8, device)
    whole, scales = guarded_bytes(wanted_scales.numel(), wanted_scales.dtype, device)
    function(*arguments, out=(codes.tensor, scales.view(wanted_scales.shape)))
    codes.check()
    assert np.array_equal(bytes_of(codes.tensor), bytes_of(wanted_codes))
    assert np.array_equal(bytes_of(scales).reshape(-1), bytes_of(wanted_scales).reshape(-1))
    assert (bytes_of(whole)[wanted_scales.numel() :] == 0xA5).all()
    empty, _ = function(x[:0], *arguments[1:])
    assert empty.shape == (0, k // 2)
