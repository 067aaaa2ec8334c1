"""Rows so far apart that offsets pass 2^31 elements and 2^32 bytes, in memory that is hardly touched."""

import fp4aot
import numpy as np
import pytest
import reference
import torch
from operands import Operand, bytes_of, floats_of, random_rows

ROWS = 5
# Elements from row to row: the last row is beyond 2^31 elements, for bytes beyond 2^32.
APART = {torch.float32: 2**29 + 8, torch.bfloat16: 2**29 + 8, torch.uint8: 2**30 + 32}


def far(columns: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """An uninitialised [ROWS, columns] tensor; on the CPU only the pages of its rows are ever committed."""
    size = (ROWS - 1) * APART[dtype] + columns
    try:
        storage = torch.empty(size, dtype=dtype, device=device)
    except RuntimeError as error:  # OutOfMemoryError is one
        pytest.skip(f"no address space or memory for {size} elements: {error}")
    return storage.as_strided((ROWS, columns), (APART[dtype], 1))


@pytest.fixture
def values() -> np.ndarray:
    return random_rows(np.random.default_rng(0), ROWS, 96, "normal")


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
def test_quantize_and_dequantize(device, format, values):
    x, codes = far(96, torch.float32, device), far(48, torch.uint8, device)
    x.copy_(torch.from_numpy(values))
    scales = torch.zeros(128, 8 if format == "nvfp4" else 4, dtype=torch.uint8, device=device)
    getattr(fp4aot, f"quantize_{format}")(x, out=(codes, scales))
    wanted_codes, wanted_scales = reference.quantize(values, format)
    assert np.array_equal(bytes_of(codes), reference.pack_codes(wanted_codes))
    assert np.array_equal(bytes_of(scales), reference.swizzle(wanted_scales))
    del x
    back = far(96, torch.float32, device)
    getattr(fp4aot, f"dequantize_{format}")(codes, scales, out=back)
    assert np.array_equal(floats_of(back), reference.dequantize(wanted_codes, wanted_scales, format).astype(np.float32))


def test_fused_and_global_scale(device, values):
    x, residual = far(96, torch.bfloat16, device), far(96, torch.bfloat16, device)
    x.copy_(torch.from_numpy(values))
    residual.copy_(torch.from_numpy(values[::-1].copy()))
    near, near_residual = x.contiguous(), residual.contiguous()
    assert fp4aot.nvfp4_global_scale(x).item() == reference.nvfp4_global_scale(floats_of(near))
    weight = torch.ones(96, dtype=torch.bfloat16, device=device)
    got = fp4aot.rmsnorm_quantize_nvfp4(x, weight, residual=residual)
    wanted = fp4aot.rmsnorm_quantize_nvfp4(near, weight, residual=near_residual)
    assert torch.equal(residual.contiguous(), near_residual)
    for one, two in zip(got, wanted, strict=True):
        assert np.array_equal(bytes_of(one), bytes_of(two))
    got, wanted = fp4aot.silu_mul_quantize_mxfp4(x[:, :64]), fp4aot.silu_mul_quantize_mxfp4(near[:, :64])
    for one, two in zip(got, wanted, strict=True):
        assert np.array_equal(bytes_of(one), bytes_of(two))


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
def test_product(device, format):
    rng = np.random.default_rng(1)
    a, b = Operand(rng, ROWS, 96, format, device), Operand(rng, 16, 96, format, device)
    a_codes, out = far(48, torch.uint8, device), far(16, torch.float32, device)
    a_codes.copy_(a.packed)
    scales = a.swizzled(), b.swizzled()
    tactics = fp4aot.list_tactics(f"gemm_{format}", ROWS, 16, 96, device, torch.float32)
    for tactic in [0, *(number for number, _ in tactics)]:
        out.fill_(float("nan"))
        getattr(fp4aot, f"gemm_{format}")(a_codes, b.packed, *scales, out=out, tactic=tactic)
        reference.assert_product(floats_of(out), reference.product(a.values, b.values), 96, "fp32")
    del out
    weights, near = Operand(rng, 8, 96, format, device), torch.empty(ROWS, 8, device=device)
    b_codes = a_codes.as_strided((8, 48), (APART[torch.uint8] // 2, 1))  # 8 rows in the same storage: 7 * 2^29 bytes
    b_codes.copy_(weights.packed)
    getattr(fp4aot, f"gemm_{format}")(a.packed, b_codes, scales[0], weights.swizzled(), out=near)
    reference.assert_product(floats_of(near), reference.product(a.values, weights.values), 96, "fp32")


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
def test_w4a16(device, format):
    """Activations and outputs far apart, then the codes that are prepared and restored."""
    rng = np.random.default_rng(3)
    values = torch.from_numpy(rng.standard_normal((ROWS, 96)).astype(np.float32)).to(torch.bfloat16)
    b = Operand(rng, 16, 96, format, device)
    weight, gemm = fp4aot.prepare_w4a16_weights(b.packed, b.swizzled(), format=format), f"gemm_w4a16_{format}"
    a, out = far(96, torch.bfloat16, device), far(16, torch.float32, device)
    a.copy_(values)
    expected = reference.product(floats_of(values).astype(np.float64), b.values)
    tactics = fp4aot.list_tactics(gemm, ROWS, 16, 96, device, torch.float32, torch.bfloat16)
    for tactic in [0, *(number for number, _ in tactics)]:
        out.fill_(float("nan"))
        getattr(fp4aot, gemm)(a, weight, out=out, tactic=tactic)
        reference.assert_product(floats_of(out), expected, 96, "fp32")
    del a, out
    storage = far(48, torch.uint8, device)
    codes = storage.as_strided((8, 48), (APART[torch.uint8] // 2, 1))  # 7 * 2^29 bytes from first to last
    codes.copy_(b.packed[:8])
    linear = torch.from_numpy(b.scales[:8]).to(device)
    some = fp4aot.prepare_w4a16_weights(codes, linear, format=format, scale_layout="linear")
    assert np.array_equal(bytes_of(some.data), reference.prepare_w4a16(b.codes[:8], b.scales[:8], format))
    codes.zero_()
    getattr(torch.ops.fp4aot, f"restore_w4a16_{format}_out")(codes, linear.zero_(), some.data, 8, 96, 1)
    assert torch.equal(codes, b.packed[:8])
    assert np.array_equal(bytes_of(linear), b.scales[:8])


def test_scale_layouts(device):
    linear = far(6, torch.uint8, device)
    values = np.random.default_rng(2).integers(1, 255, (ROWS, 6)).astype(np.uint8)
    linear.copy_(torch.from_numpy(values))
    swizzled = fp4aot.swizzle_scales(linear)
    assert np.array_equal(bytes_of(swizzled), reference.swizzle(values))
    linear.zero_()
    fp4aot.unswizzle_scales(swizzled, ROWS, 6, out=linear)
    assert np.array_equal(bytes_of(linear), values)
