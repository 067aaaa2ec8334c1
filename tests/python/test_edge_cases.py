"""Every row of the edge-case table, in every input type that can hold it, between ordinary blocks, in both layouts."""

import fp4aot
import numpy as np
import pytest
import reference
import torch
from operands import DTYPES, bytes_of, tensor_of
from reference.edge_cases import MXFP4_CASES, NVFP4_CASES


def held_by(values, dtype: str) -> bool:
    with np.errstate(over="ignore"):
        return np.array_equal(reference.round_to(values, dtype), np.float32(values), equal_nan=True)


def check(case, format: str, dtype: str, device: str, rounding: str = "ceil") -> None:
    vector = reference.VECTOR[format]
    ordinary = np.resize(np.float32([6, -3, 1.5, 0.25]), vector)
    values = np.tile(ordinary, (3, 3))
    special = np.zeros(vector, np.float32)
    special[: len(case.values)] = case.values
    values[1, vector : 2 * vector] = special
    values[2, :vector] = np.roll(special, vector // 2)  # elsewhere in a block too
    x = tensor_of(values, dtype, device)
    for layout in ("linear", "swizzled"):
        if format == "nvfp4":
            scale = torch.tensor(case.global_scale, dtype=torch.float32, device=device)
            codes, scales = fp4aot.quantize_nvfp4(x, scale, scale_layout=layout)
        else:
            codes, scales = fp4aot.quantize_mxfp4(x, rounding=rounding, scale_layout=layout)
        codes, scales = reference.unpack_codes(bytes_of(codes)), bytes_of(scales)
        if layout == "swizzled":
            scales = reference.unswizzle(scales, 3, 3)
        expected = np.zeros(vector, np.uint8)
        expected[: len(case.codes)] = case.codes
        for row, column, shift in ((1, 1, 0), (2, 0, vector // 2)):
            block = codes[row, column * vector : (column + 1) * vector]
            where = f"{case.name}: {dtype}, {layout}, block [{row}, {column}]"
            assert scales[row, column] == case.scale, (
                f"{where}: scale {scales[row, column]:#04x}, not {case.scale:#04x}"
            )
            assert np.array_equal(block, np.roll(expected, shift)), f"{where}: codes {block}"
        others, other_scales = reference.quantize(values[:1, :vector], format, case.global_scale, rounding)
        for row, column in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 1), (2, 2)):
            assert scales[row, column] == other_scales[0, 0], "a neighbouring block changed"
            assert np.array_equal(codes[row, column * vector : (column + 1) * vector], others[0])


@pytest.mark.parametrize("case", NVFP4_CASES, ids=lambda case: case.name)
def test_nvfp4(device, case):
    for dtype in DTYPES:
        if held_by(case.values, dtype):
            check(case, "nvfp4", dtype, device)


@pytest.mark.parametrize("case", MXFP4_CASES, ids=lambda case: case.name)
def test_mxfp4(device, case):
    for dtype in DTYPES:
        for rounding in ("ceil", "floor") if case.rounding == "both" else (case.rounding,):
            if held_by(case.values, dtype):
                check(case, "mxfp4", dtype, device, rounding)


def test_every_case_runs_in_some_type():
    """The filter above lets each case run in fp32 at least, and a good part of them in the 16-bit types."""
    for cases in (NVFP4_CASES, MXFP4_CASES):
        assert all(held_by(case.values, "fp32") for case in cases)
        assert sum(held_by(case.values, "bf16") for case in cases) > 25
        assert sum(held_by(case.values, "fp16") for case in cases) > 15


def test_flush_to_zero_of_the_caller_does_not_matter():
    """On the CPU a caller may have asked for flushing of subnormals; the bytes stay the specified ones."""
    small = next(case for case in MXFP4_CASES if case.name == "e = -127")
    scaled = next(case for case in NVFP4_CASES if case.name == "global_scale subnormal, amax huge")
    values = np.zeros((64, 4096), np.float32)  # large enough for several threads
    values[:, : len(small.values)] = small.values
    many, block = torch.from_numpy(values), torch.tensor([[*scaled.values, *[0.0] * 13]])
    global_scale = torch.tensor(scaled.global_scale)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no flush-to-zero mode")
    try:
        codes, scales = fp4aot.quantize_mxfp4(many, scale_layout="linear")
        _, block_scales = fp4aot.quantize_nvfp4(block, global_scale, scale_layout="linear")
        still_flushing = float(torch.tensor(1e-30) * 1e-12) == 0.0
    finally:
        torch.set_flush_denormal(False)
    expected = reference.quantize(values, "mxfp4")
    assert np.array_equal(bytes_of(codes), reference.pack_codes(expected[0]))
    assert np.array_equal(bytes_of(scales), expected[1])
    assert bytes_of(block_scales)[0, 0] == scaled.scale
    assert still_flushing, "the caller's floating-point mode was changed"
