"""gemm_nvfp4 and gemm_mxfp4: every element within the tolerance of fp64, nothing beside the output touched."""

import fp4aot
import numpy as np
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from operands import DTYPES, NAN_SCALE, Guarded, Operand, floats_of, with_row_stride

FORMATS = ["nvfp4", "mxfp4"]


def gemm(format, a, b, a_scales, b_scales, alpha=None, bias=None, **options):
    return getattr(fp4aot, f"gemm_{format}")(a, b, a_scales, b_scales, alpha, bias, **options)


def multiply(a: Operand, b: Operand, alpha=None, bias=None, **options) -> torch.Tensor:
    return gemm(a.format, a.packed, b.packed, a.swizzled(), b.swizzled(), alpha, bias, **options)


def name_of(dtype: torch.dtype) -> str:
    return next(name for name, value in DTYPES.items() if value == dtype)


def assert_correct(out, a: Operand, b: Operand, alpha: float = 1.0, bias=None, norm: bool = True) -> None:
    expected = reference.product(a.values, b.values, alpha, bias)
    reference.assert_product(floats_of(out), expected, a.k, name_of(out.dtype), norm)


@given(
    m=st.integers(0, 300),
    n=st.integers(1, 34).map(lambda eighths: 8 * eighths),
    k=st.integers(1, 40).map(lambda blocks: 32 * blocks),
    dtype=st.sampled_from(list(DTYPES)),
    alpha=st.sampled_from([None, 1.0, 0.0371, -2.5]),
    bias_type=st.sampled_from([None, *DTYPES]),
    a_gap=st.sampled_from([0, 16, 48]),
    b_gap=st.sampled_from([0, 16, 112]),
    d_gap=st.sampled_from([0, 1, 3, 8, 64]),
    seed=st.integers(0, 2**32 - 1),
)
@pytest.mark.parametrize("format", FORMATS)
def test_any_shape(device, format, m, n, k, dtype, alpha, bias_type, a_gap, b_gap, d_gap, seed):
    rng = np.random.default_rng(seed)
    a, b = Operand(rng, m, k, format, device), Operand(rng, n, k, format, device)
    bias = None
    if bias_type is not None:
        bias = torch.from_numpy(rng.standard_normal(n).astype(np.float32)).to(DTYPES[bias_type]).to(device)
    alpha_tensor = None if alpha is None else torch.tensor([alpha], device=device)
    out = Guarded(m, n, DTYPES[dtype], device, guard_columns=max(1, d_gap))
    a_scales = a.swizzled(row_padding=NAN_SCALE[format])  # rows beyond M may hold anything
    b_scales = b.swizzled(row_padding=NAN_SCALE[format])
    codes = with_row_stride(a.packed, a_gap), with_row_stride(b.packed, b_gap)
    result = gemm(format, *codes, a_scales, b_scales, alpha_tensor, bias, out=out.tensor)
    assert result is out.tensor
    out.check()
    assert_correct(result, a, b, 1.0 if alpha is None else alpha, None if bias is None else floats_of(bias))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1, 8, 32),
        (1, 4096, 7168),
        (8, 1024, 2048),
        (17, 264, 96),
        (64, 512, 4096),
        (65, 136, 18_432),
        (127, 128, 480),
        (128, 256, 512),
        (129, 392, 1056),
        (513, 1000, 544),
        (1024, 768, 768),
    ],
)
def test_shapes(device, format, m, n, k, dtype):
    rng = np.random.default_rng(m)
    a, b = Operand(rng, m, k, format, device), Operand(rng, n, k, format, device)
    out = multiply(a, b, out_dtype=DTYPES[dtype])
    assert out.shape == (m, n)
    assert out.dtype == DTYPES[dtype]
    assert out.device == a.packed.device
    assert_correct(out, a, b)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 64, 512), (16, 256, 256), (33, 128, 96), (64, 264, 1024), (200, 520, 320), (512, 512, 512)]
)
def test_every_tactic(device, format, m, n, k):
    rng = np.random.default_rng(n)
    a, b = Operand(rng, m, k, format, device), Operand(rng, n, k, format, device)
    for dtype in DTYPES.values():
        tactics = fp4aot.list_tactics(f"gemm_{format}", m, n, k, device, dtype)
        default = fp4aot.default_tactic(f"gemm_{format}", m, n, k, device, dtype)
        numbers = [number for number, _ in tactics]
        assert len(set(numbers)) == len(numbers)
        assert all(name for _, name in tactics)
        assert default in numbers if numbers else default == 0
        alpha = torch.tensor([0.25], device=device)
        bias = torch.from_numpy(rng.standard_normal(n).astype(np.float32)).to(dtype).to(device)
        for number, name in tactics:
            out = Guarded(m, n, dtype, device)
            gemm(format, a.packed, b.packed, a.swizzled(), b.swizzled(), alpha, bias, out=out.tensor, tactic=number)
            try:
                out.check()
                assert_correct(out.tensor, a, b, 0.25, floats_of(bias))
            except AssertionError as error:
                raise AssertionError(f"tactic {number} ({name}): {error}") from error


def test_tactics_exist_on_gpu_images(device):
    """A CUDA image offers a choice for an ordinary shape; the cpu image need not."""
    if device == "cuda":
        assert len(fp4aot.list_tactics("gemm_nvfp4", 4096, 4096, 4096, device)) > 1


@pytest.mark.parametrize("format", FORMATS)
def test_quantised_by_us(device, format):
    """The whole path on normal data: global scales, quantisation, product, alpha."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 512, generator=generator).to(device)
    w = torch.randn(256, 512, generator=generator).to(device) / 20
    if format == "nvfp4":
        x_global, w_global = fp4aot.nvfp4_global_scale(x), fp4aot.nvfp4_global_scale(w)
        a, a_scales = fp4aot.quantize_nvfp4(x, x_global)
        b, b_scales = fp4aot.quantize_nvfp4(w, w_global)
        alpha = 1 / (x_global * w_global)
        back = [fp4aot.dequantize_nvfp4(a, a_scales, x_global, dtype=torch.float32)]
        back += [fp4aot.dequantize_nvfp4(b, b_scales, w_global, dtype=torch.float32)]
    else:
        (a, a_scales), (b, b_scales), alpha = fp4aot.quantize_mxfp4(x), fp4aot.quantize_mxfp4(w), None
        back = [fp4aot.dequantize_mxfp4(*pair, dtype=torch.float32) for pair in ((a, a_scales), (b, b_scales))]
    out = gemm(format, a, b, a_scales, b_scales, alpha, out_dtype=torch.float32)
    wanted = back[0].cpu().double() @ back[1].cpu().double().T
    assert torch.linalg.norm(out.cpu() - wanted) / torch.linalg.norm(wanted) < 2e-6
    true = x.cpu().double() @ w.cpu().double().T
    assert torch.linalg.norm(out.cpu() - true) / torch.linalg.norm(true) < 0.2


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("m", [3, 40, 130, 300])
def test_nan_scales_show_in_their_row_and_column(device, format, m):
    """A NaN scale makes its whole row (A) or column (B) NaN, also where the codes are zero, and nothing else."""
    rng = np.random.default_rng(m)
    k, n = 320, 136
    a, b = Operand(rng, m, k, format, device), Operand(rng, n, k, format, device)
    vector = reference.VECTOR[format]
    row, column = m // 2, 77
    a.scales[row, 1] = b.scales[column, -1] = NAN_SCALE[format]
    a.codes[row, vector : 2 * vector] = 0  # as quantisation writes a poisoned block
    for dtype in DTYPES.values():
        out = floats_of(multiply(a, b, out_dtype=dtype))
        nan = np.zeros((m, n), bool)
        nan[row], nan[:, column] = True, True
        assert np.array_equal(np.isnan(out), nan)
        assert_correct(torch.from_numpy(out).to(dtype), a, b, norm=False)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("m", [1, 64, 200])
def test_poisoned_padding_of_scales(device, format, m):
    """Rows beyond M and N never matter. Columns beyond K/vec matter to no image but those of Blackwell."""
    rng = np.random.default_rng(0)
    vector = reference.VECTOR[format]
    k = 5 * 32 if format == "nvfp4" else 9 * 32  # K / vec is no multiple of 4
    assert k // vector % 4 != 0
    a, b = Operand(rng, m, k, format, device), Operand(rng, 72, k, format, device)
    clean = multiply(a, b, out_dtype=torch.float32)
    k_padding = NAN_SCALE[format] if fp4aot.image_name(device) in ("cpu", "sm90a") else 0
    for poison in (0x7F, 0xFF):
        scales = a.swizzled(poison, k_padding), b.swizzled(poison, k_padding)
        out = gemm(format, a.packed, b.packed, *scales, out_dtype=torch.float32)
        assert torch.equal(out, clean)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("m", [1, 40, 129, 257])
def test_codes_beside_the_operands_do_not_matter(device, format, m):
    """Poison between and behind the rows of A and B (K is no multiple of a tile) does not change the result."""
    rng = np.random.default_rng(m)
    a, b = Operand(rng, m, 224, format, device), Operand(rng, 40, 224, format, device)
    clean = multiply(a, b, out_dtype=torch.float32)
    scales = a.swizzled(), b.swizzled()
    wide = with_row_stride(a.packed, 64), with_row_stride(b.packed, 80)
    assert torch.equal(gemm(format, *wide, *scales, out_dtype=torch.float32), clean)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("m", [2, 70, 300])
def test_scale_bytes_of_the_whole_range(device, format, m):
    """Every scale byte a sane tensor can hold, small ones (subnormal e4m3, e near -127) and large ones together."""
    rng = np.random.default_rng(1)
    if format == "nvfp4":
        ranges = [((0, 0x7E), (0, 0x7E)), ((0, 7), (0, 7)), ((0x78, 0x7E), (0x78, 0x7E))]
    else:  # 6 * 2^125 is the largest e2m1 x ue8m0 that fp32 and bf16 hold
        ranges = [((240, 252), (0, 8)), ((0, 8), (240, 252)), ((100, 150), (100, 150)), ((180, 186), (180, 186))]
    for (a_low, a_high), (b_low, b_high) in ranges:
        a = Operand(rng, m, 192, format, device, low=a_low, high=a_high)
        b = Operand(rng, 64, 192, format, device, low=b_low, high=b_high)
        for dtype in ("fp32", "bf16"):
            assert_correct(multiply(a, b, out_dtype=DTYPES[dtype]), a, b)


@pytest.mark.parametrize("format", FORMATS)
def test_alpha_is_applied_in_fp32_before_the_only_rounding(device, format):
    """Products beyond fp16's range that alpha brings back must not overflow; tiny ones must not vanish."""
    rng = np.random.default_rng(2)
    high = {"low": 0x70, "high": 0x7E} if format == "nvfp4" else {"low": 137, "high": 141}
    a, b = Operand(rng, 33, 256, format, device, **high), Operand(rng, 24, 256, format, device, **high)
    alpha = 2.0**-22
    out = multiply(a, b, torch.tensor([alpha], device=device), out_dtype=torch.float16)
    assert np.abs(a.values @ b.values.T).max() > 65504
    assert torch.isfinite(out).all()
    assert_correct(out, a, b, alpha)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias_type", DTYPES)
def test_bias_types(device, dtype, bias_type):
    rng = np.random.default_rng(3)
    a, b = Operand(rng, 20, 64, "nvfp4", device), Operand(rng, 48, 64, "nvfp4", device)
    bias = (100 * torch.arange(48, dtype=torch.float32) / 7).to(DTYPES[bias_type]).to(device)
    out = multiply(a, b, bias=bias, out_dtype=DTYPES[dtype])
    assert_correct(out, a, b, bias=floats_of(bias), norm=False)


@pytest.mark.parametrize("format", FORMATS)
def test_leading_dimensions_and_no_rows(device, format):
    rng = np.random.default_rng(4)
    a, b = Operand(rng, 12, 64, format, device), Operand(rng, 16, 64, format, device)
    flat = multiply(a, b)
    out = gemm(format, a.packed.view(2, 3, 2, 32), b.packed, a.swizzled(), b.swizzled())
    assert out.shape == (2, 3, 2, 16)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out.view(12, 16), flat)
    empty = gemm(format, a.packed[:0], b.packed, a.swizzled()[:0], b.swizzled())
    assert empty.shape == (0, 16)
    assert fp4aot.list_tactics(f"gemm_{format}", 0, 16, 64, device) is not None


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 512, 2048), (48, 96, 4096), (256, 256, 1024)])
def test_deterministic(device, format, m, n, k):
    rng = np.random.default_rng(5)
    a, b = Operand(rng, m, k, format, device), Operand(rng, n, k, format, device)
    first = multiply(a, b, out_dtype=torch.float32)
    for _ in range(3):
        assert torch.equal(multiply(a, b, out_dtype=torch.float32), first)


@pytest.mark.parametrize("format", FORMATS)
def test_longer_scale_buffers(device, format):
    """Buffers may be larger than the shape needs (a slice of a preallocated one)."""
    rng = np.random.default_rng(6)
    a, b = Operand(rng, 30, 96, format, device), Operand(rng, 24, 96, format, device)
    longer = []
    for operand in (a, b):
        scales = operand.swizzled().view(torch.uint8).reshape(-1)
        poison = torch.full((256,), 0xFF, dtype=torch.uint8, device=device)
        longer.append(torch.cat([scales, poison]).view(operand.swizzled().dtype))
    assert torch.equal(gemm(format, a.packed, b.packed, *longer), multiply(a, b))


def test_float4_and_uint8_views(device):
    """Codes as float4_e2m1fn_x2 and scales as uint8 are the same bytes."""
    rng = np.random.default_rng(7)
    a, b = Operand(rng, 16, 64, "nvfp4", device), Operand(rng, 16, 64, "nvfp4", device)
    packed = a.packed.view(torch.float4_e2m1fn_x2), b.packed.view(torch.float4_e2m1fn_x2)
    scales = a.swizzled().view(torch.uint8), b.swizzled().view(torch.uint8)
    assert torch.equal(fp4aot.gemm_nvfp4(*packed, *scales), multiply(a, b))


@pytest.mark.parametrize("format", FORMATS)
def test_many_rows(device, format):
    """M = 131,073: checked on rows from the whole range (the reference is slow)."""
    rng = np.random.default_rng(8)
    a, b = Operand(rng, 131_073, 32, format, device), Operand(rng, 16, 32, format, device)
    out = multiply(a, b)
    rows = np.unique(np.concatenate([np.arange(200), rng.integers(0, 131_073, 2000), np.arange(130_900, 131_073)]))
    expected = reference.product(a.values[rows], b.values)
    reference.assert_product(floats_of(out)[rows], expected, 32, "bf16")
