"""gemm_w4a16_nvfp4 and gemm_w4a16_mxfp4 against fp64, in norm and for every element."""

import fp4aot
import numpy as np
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from operands import DTYPES, NAN_SCALE, Guarded, Operand, floats_of
from w4a16_operands import FORMATS, HALVES, activations, assert_correct, gemm, prepare, strided


@given(
    m=st.integers(0, 200),
    n=st.integers(1, 34).map(lambda eighths: 8 * eighths),
    blocks=st.integers(1, 40),
    a_type=st.sampled_from(HALVES),
    dtype=st.sampled_from(list(DTYPES)),
    alpha=st.sampled_from([None, 1.0, 0.0371, -2.5]),
    bias_type=st.sampled_from([None, *DTYPES]),
    a_gap=st.sampled_from([0, 8, 40]),
    d_gap=st.sampled_from([0, 1, 3, 8, 64]),
    seed=st.integers(0, 2**32 - 1),
)
@pytest.mark.parametrize("format", FORMATS)
def test_any_shape(device, format, m, n, blocks, a_type, dtype, alpha, bias_type, a_gap, d_gap, seed):
    rng = np.random.default_rng(seed)
    k = blocks * reference.VECTOR[format]
    a, b = activations(rng, m, k, a_type, device), Operand(rng, n, k, format, device)
    bias = None
    if bias_type is not None:
        bias = torch.from_numpy(rng.standard_normal(n).astype(np.float32)).to(DTYPES[bias_type]).to(device)
    alpha_tensor = None if alpha is None else torch.tensor([alpha], device=device)
    out = Guarded(m, n, DTYPES[dtype], device, guard_columns=max(1, d_gap))
    result = gemm(format, strided(a, a_gap), prepare(b), alpha_tensor, bias, out=out.tensor)
    assert result is out.tensor
    out.check()
    assert_correct(result, a, b, 1.0 if alpha is None else alpha, None if bias is None else floats_of(bias))


# K that is no multiple of a tile of 64 or of a step of 16 or 32; N that is none of a tile of 16.
SHAPES = [
    (1, 8, 32),
    (1, 2048, 7168),
    (3, 24, 96),
    (7, 1000, 992),
    (16, 1024, 2048),
    (17, 264, 96),
    (33, 136, 4128),
    (64, 512, 4096),
    (65, 136, 18_432),
    (129, 392, 1056),
    (257, 1000, 544),
    (1024, 768, 768),
]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_shapes(device, format, m, n, k, dtype):
    rng = np.random.default_rng(m)
    a, b = activations(rng, m, k, dtype, device), Operand(rng, n, k, format, device)
    out = gemm(format, a, prepare(b))
    assert out.shape == (m, n)
    assert out.dtype == a.dtype
    assert out.device == a.device
    assert_correct(out, a, b)
    assert_correct(gemm(format, a, prepare(b), out_dtype=torch.float32), a, b)


@pytest.mark.parametrize("k", [16, 48, 80, 112, 208, 1008])
@pytest.mark.parametrize("m", [1, 20, 100])
def test_odd_numbers_of_blocks(device, m, k):
    """K a multiple of 16 only (NVFP4), with NaN beside the rows of A."""
    rng = np.random.default_rng(k)
    b = Operand(rng, 40, k, "nvfp4", device)
    for dtype in HALVES:
        a = activations(rng, m, k, dtype, device)
        assert_correct(gemm("nvfp4", strided(a, 64), prepare(b), out_dtype=torch.float32), a, b)


@pytest.mark.parametrize("a_type", HALVES)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(1, 64, 512), (5, 136, 96), (16, 256, 256), (33, 128, 992), (64, 264, 1024), (200, 520, 320), (512, 512, 512)],
)
def test_every_tactic(device, format, m, n, k, a_type):
    rng = np.random.default_rng(n)
    op, a, b = f"gemm_w4a16_{format}", activations(rng, m, k, a_type, device), Operand(rng, n, k, format, device)
    weight = prepare(b)
    for dtype in DTYPES.values():
        arguments = (op, m, n, k, device, dtype, a.dtype)
        tactics, default = fp4aot.list_tactics(*arguments), fp4aot.default_tactic(*arguments)
        numbers = [number for number, _ in tactics]
        assert len(set(numbers)) == len(numbers)
        assert all(name for _, name in tactics)
        assert default in numbers if numbers else default == 0
        alpha = torch.tensor([0.25], device=device)
        bias = torch.from_numpy(rng.standard_normal(n).astype(np.float32)).to(dtype).to(device)
        for number, name in tactics:
            out = Guarded(m, n, dtype, device)
            gemm(format, strided(a, 24), weight, alpha, bias, out=out.tensor, tactic=number)
            try:
                out.check()
                assert_correct(out.tensor, a, b, 0.25, floats_of(bias))
            except AssertionError as error:
                raise AssertionError(f"tactic {number} ({name}): {error}") from error


def tactics_of(format: str, m: int, n: int, k: int, device: str, dtype: str) -> list[int]:
    """0, the default, and every tactic."""
    listed = fp4aot.list_tactics(f"gemm_w4a16_{format}", m, n, k, device, torch.float32, DTYPES[dtype])
    return [0, *(number for number, _ in listed)]


RANGES = {
    "nvfp4": [(0, 0x7E), (0, 7), (0, 0), (0x78, 0x7E)],  # all, subnormal and zero, zero, large
    "mxfp4": [(67, 187), (67, 70), (184, 187), (0, 8), (126, 128)],
}


@pytest.mark.parametrize(
    ("format", "low", "high"), [(format, low, high) for format in FORMATS for low, high in RANGES[format]]
)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("m", [2, 70])
def test_scale_bytes_of_the_whole_range(device, format, low, high, dtype, m):
    rng = np.random.default_rng(low)
    a, b = activations(rng, m, 192, dtype, device), Operand(rng, 72, 192, format, device, low=low, high=high)
    for tactic in tactics_of(format, m, 72, 192, device, dtype):
        assert_correct(gemm(format, a, prepare(b), out_dtype=torch.float32, tactic=tactic), a, b)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("global_scale", [1e-6, 1e-3, 1.0, 37.0, 1e3])
def test_global_scales_of_checkpoints(device, global_scale, dtype):
    """alpha = 1 / global_scale multiplies the fp32 sum: folded into 8-bit scales it would overflow or vanish."""
    rng = np.random.default_rng(3)
    weights = torch.from_numpy(rng.standard_normal((64, 256)).astype(np.float32)).to(device)
    weights *= 448 * 6 / weights.abs().amax() / global_scale
    codes, scales = fp4aot.quantize_nvfp4(weights, torch.tensor(global_scale, device=device))
    a = activations(rng, 9, 256, dtype, device)
    b = Operand(rng, 64, 256, "nvfp4", device)
    b.codes = reference.unpack_codes(codes.cpu().numpy())
    b.scales = reference.unswizzle(scales.view(torch.uint8).cpu().numpy(), 64, 16)
    alpha = torch.tensor([1.0 / global_scale], device=device)
    prepared = fp4aot.prepare_w4a16_weights(codes, scales)
    for out_dtype in (torch.float32, torch.bfloat16):
        out = gemm("nvfp4", a, prepared, alpha, out_dtype=out_dtype)
        assert_correct(out, a, b, float(alpha.cpu()))
    true = floats_of(a).astype(np.float64) @ floats_of(weights).astype(np.float64).T
    out = floats_of(gemm("nvfp4", a, prepared, alpha, out_dtype=torch.float32))
    assert np.linalg.norm(out - true) < 0.15 * np.linalg.norm(true)


@pytest.mark.parametrize("format", FORMATS)
def test_alpha_is_applied_in_fp32_before_the_only_rounding(device, format):
    """Sums beyond fp16's range that alpha brings back must not overflow, with fp16 activations and outputs."""
    rng = np.random.default_rng(2)
    high = {"low": 0x70, "high": 0x7E} if format == "nvfp4" else {"low": 137, "high": 141}
    b = Operand(rng, 24, 256, format, device, **high)
    for m in (1, 33, 200):
        a = (activations(rng, m, 256, "fp16", device) * 4096).clamp(-60000, 60000)
        assert np.abs(floats_of(a).astype(np.float64) @ b.values.T).max() > 65504
        for tactic in tactics_of(format, m, 24, 256, device, "fp16"):
            alpha = torch.tensor([2.0**-26], device=device)
            out = gemm(format, a, prepare(b), alpha, out_dtype=torch.float16, tactic=tactic)
            assert torch.isfinite(out).all()
            assert_correct(out, a, b, 2.0**-26)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias_type", DTYPES)
def test_bias_types(device, dtype, bias_type):
    rng = np.random.default_rng(3)
    a, b = activations(rng, 20, 64, "bf16", device), Operand(rng, 48, 64, "nvfp4", device)
    bias = (100 * torch.arange(48, dtype=torch.float32) / 7).to(DTYPES[bias_type]).to(device)
    out = gemm("nvfp4", a, prepare(b), bias=bias, out_dtype=DTYPES[dtype])
    assert_correct(out, a, b, bias=floats_of(bias), norm=False)


@pytest.mark.parametrize("format", FORMATS)
def test_leading_dimensions_and_no_rows(device, format):
    rng = np.random.default_rng(4)
    a, b = activations(rng, 12, 64, "bf16", device), Operand(rng, 16, 64, format, device)
    weight = prepare(b)
    flat = gemm(format, a, weight)
    out = gemm(format, a.view(2, 3, 2, 64), weight)
    assert out.shape == (2, 3, 2, 16)
    assert torch.equal(out.view(12, 16), flat)
    assert gemm(format, a[0], weight).shape == (16,)
    empty = gemm(format, a[:0], weight, out_dtype=torch.float32)
    assert (empty.shape, empty.dtype) == ((0, 16), torch.float32)
    assert fp4aot.list_tactics(f"gemm_w4a16_{format}", 0, 16, 64, device) is not None


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 512, 2048), (48, 96, 4096), (256, 256, 1024)])
def test_deterministic(device, format, m, n, k):
    rng = np.random.default_rng(5)
    a, b = activations(rng, m, k, "bf16", device), Operand(rng, n, k, format, device)
    weight = prepare(b)
    first = gemm(format, a, weight, out_dtype=torch.float32)
    for _ in range(3):
        assert torch.equal(gemm(format, a, weight, out_dtype=torch.float32), first)


@pytest.mark.parametrize("format", FORMATS)
def test_many_rows(device, format):
    """M = 131,073: checked on rows from the whole range (the reference is slow)."""
    rng = np.random.default_rng(8)
    a, b = activations(rng, 131_073, 32, "bf16", device), Operand(rng, 16, 32, format, device)
    out = gemm(format, a, prepare(b))
    rows = np.unique(np.concatenate([np.arange(200), rng.integers(0, 131_073, 2000), np.arange(130_900, 131_073)]))
    expected = reference.product(floats_of(a)[rows].astype(np.float64), b.values)
    reference.assert_product(floats_of(out)[rows], expected, 32, "bf16")


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("m", [1, 3, 40, 130, 300])
def test_nan_scales_show_in_their_column(device, format, m, dtype):
    """A NaN scale makes its whole column NaN, also where the codes are zero, and nothing else."""
    rng = np.random.default_rng(m)
    k, n = 320, 136
    a, b = activations(rng, m, k, dtype, device), Operand(rng, n, k, format, device)
    vector = reference.VECTOR[format]
    for column, block in ((77, -1), (8, 1), (0, 0)):
        b.scales[column, block] = NAN_SCALE[format]
    b.codes[8, vector : 2 * vector] = 0  # as quantisation writes a poisoned block
    for tactic in tactics_of(format, m, n, k, device, dtype):
        out = gemm(format, a, prepare(b), out_dtype=torch.float32, tactic=tactic)
        assert torch.isnan(out).all(dim=0).nonzero().flatten().tolist() == [0, 8, 77]
        assert_correct(out, a, b, norm=False)
