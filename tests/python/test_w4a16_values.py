"""W4A16 products with written-out results: single values, extremes, infinities, NaN, zero scales."""

import fp4aot
import numpy as np
import pytest
import reference
import torch
from operands import DTYPES, Operand, floats_of
from w4a16_operands import FORMATS, HALVES, activations, gemm, prepare

ROWS = [1, 5, 70, 200]


def results(device: str, b: Operand, a: torch.Tensor) -> list[np.ndarray]:
    """float32 products, by the default and by every tactic."""
    arguments = (f"gemm_w4a16_{b.format}", *(a.shape[0], b.rows, b.k), device, torch.float32, a.dtype)
    weight = prepare(b)
    numbers = [0, *(number for number, _ in fp4aot.list_tactics(*arguments))]
    return [floats_of(gemm(b.format, a, weight, out_dtype=torch.float32, tactic=number)) for number in numbers]


def single(format: str, device: str, values: list[tuple[int, int]]) -> Operand:
    """Weights [8 * len(values), 64] that are zero but for (code, scale byte) at k = 33 of each eighth row; the scale
    bytes elsewhere are those of 1."""
    b = Operand(np.random.default_rng(0), 8 * len(values), 64, format, device)
    vector = reference.VECTOR[format]
    b.codes[:] = 0
    b.scales[:] = 0x38 if format == "nvfp4" else 127
    for row, (code, scale) in enumerate(values):
        b.codes[8 * row, 33], b.scales[8 * row, 33 // vector] = code, scale
    return b


NVFP4 = {  # (code, scale byte, activation): product, exact in float32
    (1, 0x01, 1.0): 2.0**-10,  # 0.5 * 2^-9, the smallest
    (9, 0x07, 1.0): -0.5 * 7 * 2.0**-9,  # the largest subnormal scale
    (15, 0x08, 3.0): -6 * 2.0**-6 * 3,  # the smallest normal scale
    (7, 0x7E, 65504.0): 65504.0 * 6 * 448,
    (7, 0x7E, -(2.0**-14)): -6 * 448 * 2.0**-14,
    (3, 0x00, 1000.0): 0.0,
    (5, 0x35, 2.0**-20): 3 * 0.8125 * 2.0**-20,
}


@pytest.mark.parametrize("m", ROWS)
@pytest.mark.parametrize("dtype", HALVES)
def test_nvfp4_values(device, dtype, m):
    for (code, scale, activation), product in NVFP4.items():
        a = torch.zeros(m, 64, device=device, dtype=DTYPES[dtype])
        a[m // 2, 33] = activation
        if float(a[m // 2, 33]) != activation:
            continue  # not a number of this type
        wanted = np.zeros((m, 8))
        wanted[m // 2, 0] = product
        for out in results(device, single("nvfp4", device, [(code, scale)]), a):
            assert np.array_equal(out, wanted), (code, scale, activation)


MXFP4 = {
    (1, 127 - 60, 1.0): 2.0**-61,
    (15, 127 + 60, 1.0): -6 * 2.0**60,
    (7, 0, 256.0): 6 * 2.0**-119,  # 2^-127
    (2, 0, 1.0): 2.0**-127,  # subnormal in float32
    (7, 254, 2.0**-10): 6 * 2.0**117,  # 6 * 2^127 is beyond float32 and bfloat16, the product is not
    (1, 254, -1.0): -(2.0**126),
    (0, 254, 1000.0): 0.0,
}


@pytest.mark.parametrize("m", ROWS)
@pytest.mark.parametrize("dtype", HALVES)
def test_mxfp4_values(device, dtype, m):
    for (code, scale, activation), product in MXFP4.items():
        a = torch.zeros(m, 64, device=device, dtype=DTYPES[dtype])
        a[m // 2, 33] = activation
        wanted = np.zeros((m, 8))
        wanted[m // 2, 0] = product
        for out in results(device, single("mxfp4", device, [(code, scale)]), a):
            assert np.array_equal(out, wanted), (code, scale, activation)


@pytest.mark.parametrize("format", FORMATS)
def test_every_code_at_every_place(device, format):
    """Each weight of a tile of 16 rows x 64 k, alone: its code and its scale, and no other's."""
    rng = np.random.default_rng(0)
    b = Operand(rng, 16, 64, format, device, low=1, high=0x7E if format == "nvfp4" else 187)
    if format == "mxfp4":
        b.scales = np.maximum(b.scales, 67).astype(np.uint8)
    for dtype in HALVES:
        for out in results(device, b, torch.eye(64, device=device, dtype=DTYPES[dtype])):
            assert np.array_equal(out, b.values.T.astype(np.float32))


@pytest.mark.parametrize("m", ROWS)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("format", FORMATS)
def test_infinities_and_nan_of_activations(device, format, dtype, m):
    """As in IEEE arithmetic: infinity times a weight has its sign, times zero it is NaN; rows do not mix."""
    rng = np.random.default_rng(m)
    a, b = activations(rng, m, 160, dtype, device), Operand(rng, 40, 160, format, device)
    a[0, 17] = float("inf")
    if m > 1:
        a[1, 40] = float("nan")
    if m > 3:
        a[2, 5], a[3, 159] = float("-inf"), float("inf")
    with np.errstate(invalid="ignore"):
        wanted = floats_of(a).astype(np.float64) @ b.values.T
        wanted = np.where(np.isfinite(wanted), 0, wanted)
    assert np.isinf(wanted).any()
    assert np.isnan(wanted).any()
    for out in results(device, b, a):
        assert np.array_equal(np.where(np.isfinite(out), 0, out), wanted, equal_nan=True)


@pytest.mark.parametrize("m", ROWS)
@pytest.mark.parametrize("dtype", HALVES)
def test_blocks_of_scale_zero_give_zero(device, dtype, m):
    """Whatever their codes are and however large the finite activations."""
    b = Operand(np.random.default_rng(0), 40, 96, "nvfp4", device, low=0, high=0)
    a = torch.full((m, 96), torch.finfo(DTYPES[dtype]).max, dtype=DTYPES[dtype], device=device)
    for out in results(device, b, a):
        assert (out == 0).all()


@pytest.mark.parametrize("dtype", HALVES)
def test_subnormal_activations_count(device, dtype):
    """The smallest 16-bit numbers are not flushed to zero."""
    smallest = {"bf16": 2.0**-133, "fp16": 2.0**-24}[dtype]
    b = single("nvfp4", device, [(7, 0x7E)])
    a = torch.full((3, 64), smallest, dtype=DTYPES[dtype], device=device)
    for out in results(device, b, a):
        assert np.array_equal(out[:, 0], np.full(3, np.float32(smallest * 6 * 448)))


def test_activations_beyond_the_range_of_the_sum():
    """As documented: block scales reach 448 and codes 6, and alpha comes after the sum."""
    weights = torch.ones(16, 64, dtype=torch.bfloat16)
    scale = fp4aot.nvfp4_global_scale(weights)
    prepared = fp4aot.prepare_w4a16_weights(*fp4aot.quantize_nvfp4(weights, scale))
    for sum_, finite in ((1e34, True), (1e36, False)):
        a = torch.full((1, 64), sum_ / 64, dtype=torch.bfloat16)
        out = fp4aot.gemm_w4a16_nvfp4(a, prepared, 1 / scale)
        assert bool(out.isfinite().all()) is finite
