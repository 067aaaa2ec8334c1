"""quantize_nvfp4 and quantize_mxfp4: shapes, strides, layouts, outputs; every byte against the reference."""

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
    bytes_of,
    floats_of,
    guarded_bytes,
    random_rows,
    tensor_of,
    with_row_stride,
)

FORMATS = ["nvfp4", "mxfp4"]


def quantize(format, x, global_scale=None, rounding="ceil", **options):
    if format == "nvfp4":
        return fp4aot.quantize_nvfp4(x, global_scale, **options)
    return fp4aot.quantize_mxfp4(x, rounding=rounding, **options)


def expected_bytes(format, x, global_scale=None, rounding="ceil", layout="swizzled"):
    scale = 1.0 if global_scale is None else float(global_scale)
    codes, scales = reference.quantize(floats_of(x).reshape(-1, x.shape[-1]), format, scale, rounding)
    return reference.pack_codes(codes), reference.swizzle(scales) if layout == "swizzled" else scales


@given(
    rows=st.integers(0, 300),
    blocks=st.integers(1, 12),
    dtype=st.sampled_from(list(DTYPES)),
    kind=st.sampled_from(["normal", "wide", "special"]),
    layout=st.sampled_from(["swizzled", "linear"]),
    rounding=st.sampled_from(["ceil", "floor"]),
    global_scale=st.sampled_from([None, 1.0, 896.0, 0.0123, 2.0**100, 2.0**-100]),
    gap=st.sampled_from([0, 1, 2, 8, 13, 64]),
    seed=st.integers(0, 2**32 - 1),
)
@pytest.mark.parametrize("format", FORMATS)
def test_bytes(device, format, rows, blocks, dtype, kind, layout, rounding, global_scale, gap, seed):
    k = blocks * reference.VECTOR[format]
    x = tensor_of(random_rows(np.random.default_rng(seed), rows, k, kind), dtype, device)
    x = with_row_stride(x, gap)
    scale = None if global_scale is None else torch.tensor([global_scale], device=device)
    codes, scales = quantize(format, x, scale, rounding, scale_layout=layout)
    assert codes.dtype == torch.uint8
    assert scales.dtype == SCALE_DTYPES[format]
    assert codes.device == x.device
    assert scales.device == x.device
    wanted_codes, wanted_scales = expected_bytes(format, x, global_scale, rounding, layout)
    assert codes.shape == wanted_codes.shape
    assert scales.shape == wanted_scales.shape
    assert np.array_equal(bytes_of(codes), wanted_codes)
    assert np.array_equal(bytes_of(scales), wanted_scales)  # the padding too: zero


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("rows", "k"), [(1, 7168), (64, 4096), (1000, 416), (4096, 64), (131_073, 32), (3, 32_768)])
def test_larger_shapes(device, format, rows, k, dtype):
    x = tensor_of(random_rows(np.random.default_rng(rows), rows, k, "normal"), dtype, device)
    scale = torch.tensor([37.5], device=device) if format == "nvfp4" else None
    codes, scales = quantize(format, x, scale)
    wanted_codes, wanted_scales = expected_bytes(format, x, scale)
    assert np.array_equal(bytes_of(codes), wanted_codes)
    assert np.array_equal(bytes_of(scales), wanted_scales)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("layout", ["swizzled", "linear"])
@pytest.mark.parametrize(("rows", "k"), [(1, 32), (127, 96), (129, 160), (40, 544)])
def test_out_writes_only_its_tensors(device, format, layout, rows, k):
    """codes as a view with guards all around, scales in a buffer that is longer than needed."""
    x = tensor_of(random_rows(np.random.default_rng(0), rows, k, "special"), "bf16", device)
    wanted_codes, wanted_scales = expected_bytes(format, x, layout=layout)
    codes = Guarded(rows, k // 2, torch.uint8, device)
    whole, scales = guarded_bytes(wanted_scales.size, SCALE_DTYPES[format], device)
    scales = scales.view(wanted_scales.shape)
    result = quantize(format, x, scale_layout=layout, out=(codes.tensor, scales))
    assert result[0] is codes.tensor
    assert result[1] is scales
    codes.check()
    assert np.array_equal(bytes_of(codes.tensor), wanted_codes)
    assert np.array_equal(bytes_of(scales), wanted_scales)
    assert (bytes_of(whole)[wanted_scales.size :] == POISON).all()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("layout", ["swizzled", "linear"])
def test_leading_dimensions(device, format, layout):
    x = tensor_of(random_rows(np.random.default_rng(0), 30, 64, "normal"), "bf16", device)
    flat_codes, flat_scales = quantize(format, x, scale_layout=layout)
    codes, scales = quantize(format, x.view(2, 3, 5, 64), scale_layout=layout)
    assert codes.shape == (2, 3, 5, 32)
    assert np.array_equal(bytes_of(codes).reshape(30, 32), bytes_of(flat_codes))
    columns = 64 // reference.VECTOR[format]
    assert scales.shape == ((2, 3, 5, columns) if layout == "linear" else (128, 4))
    assert np.array_equal(bytes_of(scales).reshape(-1), bytes_of(flat_scales).reshape(-1))
    one_codes, _ = quantize(format, x[0], scale_layout=layout)
    assert one_codes.shape == (32,)
    assert np.array_equal(bytes_of(one_codes), bytes_of(flat_codes)[0])


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("shape", [(0, 64), (4, 0, 64)])
def test_no_rows(device, format, shape):
    for layout in ("swizzled", "linear"):
        codes, scales = quantize(format, torch.zeros(shape, dtype=torch.bfloat16, device=device), scale_layout=layout)
        assert codes.shape == (*shape[:-1], 32)
        assert scales.numel() == 0


@pytest.mark.parametrize("format", FORMATS)
def test_offset_views(device, format):
    """Rows that start at any element, so at any alignment that the type allows."""
    storage = torch.randn(33 * 80, dtype=torch.float32, device=device).to(torch.bfloat16)
    for offset in range(9):
        x = storage[offset : offset + 32 * 80].view(32, 80)[:, 8 : 8 + 64]
        codes, scales = quantize(format, x)
        wanted_codes, wanted_scales = expected_bytes(format, x)
        assert np.array_equal(bytes_of(codes), wanted_codes), offset
        assert np.array_equal(bytes_of(scales), wanted_scales), offset


def test_input_is_not_changed(device):
    x = tensor_of(random_rows(np.random.default_rng(0), 64, 128, "special"), "fp32", device)
    before = bytes_of(x).copy()
    fp4aot.quantize_nvfp4(x)
    fp4aot.quantize_mxfp4(x)
    assert np.array_equal(bytes_of(x), before)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_global_scale_shapes(device, shape):
    x = torch.randn(4, 32, device=device)
    scale = torch.full(shape, 20.0, device=device)
    codes, scales = fp4aot.quantize_nvfp4(x, scale)
    wanted_codes, wanted_scales = expected_bytes("nvfp4", x, 20.0)
    assert np.array_equal(bytes_of(codes), wanted_codes)
    assert np.array_equal(bytes_of(scales), wanted_scales)
