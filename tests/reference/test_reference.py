"""The reference checked against itself, against hand-written bytes, and against ml_dtypes."""

import numpy as np
import pytest

import reference
from reference.edge_cases import MXFP4_CASES, NVFP4_CASES

ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: pip install -r tests/requirements.txt")

ALL_BF16 = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
ALL_FP16 = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)


def test_tables_equal_ml_dtypes():
    e2m1 = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    assert np.array_equal(reference.decode_e2m1(np.arange(16)), e2m1)
    assert np.array_equal(np.signbit(reference.decode_e2m1(np.arange(16))), np.signbit(e2m1))
    e4m3 = np.arange(128, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    assert np.array_equal(reference.decode_e4m3(np.arange(128)), e4m3, equal_nan=True)
    ue8m0 = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    assert np.array_equal(reference.decode_ue8m0(np.arange(256)), ue8m0, equal_nan=True)


@pytest.mark.parametrize("values", [ALL_BF16, ALL_FP16], ids=["bf16", "fp16"])
def test_encode_e2m1_equals_ml_dtypes(values):
    values = values[~np.isnan(values)]
    expected = np.clip(values, -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15
    assert np.array_equal(reference.encode_e2m1(values), expected)


def test_encode_e4m3_equals_ml_dtypes():
    ties = ((reference.E4M3[1:] + reference.E4M3[:-1]) / 2).astype(np.float32)
    positive = np.concatenate(
        [np.abs(ALL_BF16), np.abs(ALL_FP16), ties, np.nextafter(ties, 0), np.nextafter(ties, 999)]
    )
    positive = positive[~np.isnan(positive)].astype(np.float32)
    expected = np.minimum(positive, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    assert np.array_equal(reference.encode_e4m3(positive), expected)


def test_round_to_equals_ml_dtypes():
    rng = np.random.default_rng(0)
    values = (
        np.ldexp(rng.uniform(-2, 2, 200_000), rng.integers(-150, 127, 200_000)).astype(np.float32).astype(np.float64)
    )
    values = np.concatenate([values, [0.0, -0.0, np.inf, -np.inf, 3.4e38, 65504, 65519, 65520, 2.0**-133, 2.0**-134]])
    for name, dtype in (("bf16", ml_dtypes.bfloat16), ("fp16", np.float16)):
        with np.errstate(over="ignore"):
            expected = values.astype(np.float32).astype(dtype).astype(np.float32)
            got = reference.round_to(values, name)
        assert np.array_equal(got.view(np.uint32), expected.view(np.uint32)), name
    assert np.isnan(reference.round_to(np.array([np.nan]), "bf16")).all()


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (127, 3), (128, 4), (129, 5), (300, 17)])
def test_layout_formula_equals_permutation(rows, columns):
    linear = np.random.default_rng(rows).integers(1, 255, (rows, columns)).astype(np.uint8)
    swizzled = reference.swizzle(linear)
    expected = np.zeros(swizzled.size, np.uint8)
    for row in range(rows):
        for column in range(columns):
            expected[reference.offset(row, column, columns)] = linear[row, column]
    assert np.array_equal(swizzled.reshape(-1), expected)
    assert np.array_equal(reference.unswizzle(swizzled, rows, columns), linear)


def test_layout_formula_by_hand():
    assert reference.offset(0, 0, 8) == 0
    assert reference.offset(1, 0, 8) == 16
    assert reference.offset(32, 0, 8) == 4
    assert reference.offset(97, 3, 8) == 16 + 12 + 3
    assert reference.offset(0, 4, 8) == 512
    assert reference.offset(128, 0, 8) == 1024
    assert reference.offset(128, 0, 5) == 1024


@pytest.mark.parametrize("case", NVFP4_CASES, ids=lambda case: case.name)
def test_nvfp4_edge_case(case):
    block = np.zeros((1, 16), np.float32)
    block[0, : len(case.values)] = case.values
    codes, scales = reference.quantize(block, "nvfp4", case.global_scale)
    assert scales[0, 0] == case.scale
    assert tuple(codes[0, : len(case.values)]) == case.codes
    assert not codes[0, len(case.values) :].any()


@pytest.mark.parametrize(
    ("case", "rounding"),
    [(case, rounding) for rounding in ("ceil", "floor") for case in MXFP4_CASES if case.rounding in ("both", rounding)],
    ids=lambda value: getattr(value, "name", value),
)
def test_mxfp4_edge_case(case, rounding):
    block = np.zeros((1, 32), np.float32)
    block[0, : len(case.values)] = case.values
    codes, scales = reference.quantize(block, "mxfp4", rounding=rounding)
    assert scales[0, 0] == case.scale
    assert tuple(codes[0, : len(case.values)]) == case.codes


def test_product_tolerance_can_fail():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((64, 256)), rng.standard_normal((32, 256))
    expected = reference.product(a, b)
    reference.assert_product(reference.round_to(expected[0], "bf16"), expected, 256, "bf16")
    twice_rounded = reference.round_to(reference.round_to(expected[0], "bf16") * 0.37, "bf16")
    with pytest.raises(AssertionError, match=r"norm|tolerance"):
        reference.assert_product(twice_rounded, reference.product(a, b, 0.37), 256, "bf16")
    off = expected[0].copy()
    off[3, 5] += 0.05 * np.abs(off).max()
    with pytest.raises(AssertionError, match=r"\[3, 5\]"):
        reference.assert_product(off, expected, 256, "bf16")
