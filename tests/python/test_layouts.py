"""swizzle_scales, unswizzle_scales, and dequantisation in both layouts."""

import fp4aot
import numpy as np
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from operands import (
    DTYPES,
    POISON,
    SCALE_DTYPES,
    Guarded,
    Operand,
    bytes_of,
    guarded_bytes,
    with_row_stride,
)

BYTE_TYPES = [torch.uint8, torch.float8_e4m3fn, torch.float8_e8m0fnu]


@given(
    rows=st.integers(0, 400),
    columns=st.integers(1, 70),
    dtype=st.sampled_from(BYTE_TYPES),
    gap=st.sampled_from([0, 1, 3, 16]),
    seed=st.integers(0, 2**32 - 1),
)
def test_swizzle_and_back(device, rows, columns, dtype, gap, seed):
    linear = np.random.default_rng(seed).integers(0, 256, (rows, columns)).astype(np.uint8)
    tensor = with_row_stride(torch.from_numpy(linear).to(device), gap).view(dtype)
    swizzled = fp4aot.swizzle_scales(tensor)
    assert swizzled.dtype == dtype
    assert tuple(swizzled.shape) == reference.swizzled_shape(rows, columns)
    assert np.array_equal(bytes_of(swizzled), reference.swizzle(linear))
    back = fp4aot.unswizzle_scales(swizzled, rows, columns)
    assert back.dtype == dtype
    assert np.array_equal(bytes_of(back), linear)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (127, 3), (129, 9), (131_073, 2), (5, 4096)])
def test_swizzle_writes_all_of_its_buffer_and_nothing_else(device, rows, columns):
    """Padding is written as zero into a poisoned buffer; bytes behind a longer buffer stay."""
    linear = np.random.default_rng(0).integers(1, 256, (rows, columns)).astype(np.uint8)
    wanted = reference.swizzle(linear)
    whole, buffer = guarded_bytes(wanted.size, torch.uint8, device)
    torch.ops.fp4aot.swizzle_scales_out(buffer.view(wanted.shape), torch.from_numpy(linear).to(device))
    assert np.array_equal(bytes_of(buffer).reshape(wanted.shape), wanted)
    assert (bytes_of(whole)[wanted.size :] == POISON).all()


def test_unswizzle_ignores_padding_and_writes_only_its_rows(device):
    linear = np.random.default_rng(0).integers(1, 256, (130, 6)).astype(np.uint8)
    padded = np.full(reference.swizzled_shape(130, 6), POISON, np.uint8)
    padded[:130, :6] = linear
    swizzled = torch.from_numpy(reference.swizzle(padded)).to(device)
    out = Guarded(130, 6, torch.uint8, device)
    torch.ops.fp4aot.unswizzle_scales_out(out.tensor, swizzled)
    assert np.array_equal(bytes_of(out.tensor), linear)
    out.check()


def test_swizzle_repairs_padding(device):
    """A round trip makes a foreign tensor's padding zero."""
    padded = np.full(reference.swizzled_shape(100, 5), POISON, np.uint8)
    foreign = torch.from_numpy(reference.swizzle(padded)).to(device)
    repaired = bytes_of(fp4aot.swizzle_scales(fp4aot.unswizzle_scales(foreign, 100, 5)))
    assert np.array_equal(repaired, reference.swizzle(padded[:100, :5]))


@given(
    rows=st.integers(0, 300),
    blocks=st.integers(1, 20),
    format=st.sampled_from(["nvfp4", "mxfp4"]),
    dtype=st.sampled_from(list(DTYPES)),
    layout=st.sampled_from(["swizzled", "linear"]),
    gap=st.sampled_from([0, 8, 24]),
    global_scale=st.sampled_from([None, 0.7]),
    seed=st.integers(0, 2**32 - 1),
)
def test_dequantize(device, rows, blocks, format, dtype, layout, gap, global_scale, seed):
    operand = Operand(np.random.default_rng(seed), rows, blocks * reference.VECTOR[format], format, device)
    if layout == "swizzled":
        scales = operand.swizzled(row_padding=0xFF if format == "mxfp4" else 0x7F, k_padding=0x7F)
    else:
        scales = torch.from_numpy(operand.scales).to(device).view(SCALE_DTYPES[format])
    arguments = []
    if format == "nvfp4":
        arguments = [None if global_scale is None else torch.tensor([global_scale], device=device)]
    divisor = np.float32(global_scale if global_scale is not None and format == "nvfp4" else 1)
    codes = with_row_stride(operand.packed, gap)
    function = getattr(fp4aot, f"dequantize_{format}")
    out = function(codes, scales, *arguments, dtype=DTYPES[dtype], scale_layout=layout)
    assert out.dtype == DTYPES[dtype]
    assert out.shape == (rows, operand.k)
    wanted = reference.round_to(operand.values.astype(np.float32) / divisor, dtype)
    assert np.array_equal(out.float().cpu().numpy(), wanted)


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dequantize_out(device, format, dtype):
    operand = Operand(np.random.default_rng(0), 37, 96, format, device)
    out = Guarded(37, 96, DTYPES[dtype], device)
    result = getattr(fp4aot, f"dequantize_{format}")(operand.packed, operand.swizzled(), out=out.tensor)
    assert result is out.tensor
    out.check()
    assert np.array_equal(result.float().cpu().numpy(), reference.round_to(operand.values, dtype))
