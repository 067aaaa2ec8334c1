"""Every 16-bit value through quantisation and every code and scale through dequantisation, on every device."""

import fp4aot
import numpy as np
import pytest
import reference
import torch
from operands import DTYPES, SCALE_DTYPES, bytes_of, tensor_of

ALL = {
    "bf16": (np.arange(65536, dtype=np.uint32) << 16).view(np.float32),
    "fp16": np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32),
}


def arrangements(dtype: str) -> dict[str, np.ndarray]:
    """All 65,536 values as [rows, 256], so that each meets blocks of several kinds."""
    values = ALL[dtype]
    finite = values[np.isfinite(values)]
    result = {
        "neighbours share a block": values.reshape(-1, 256),  # the amax is the value itself or close
        "exponents mixed": values.reshape(256, 256).T.copy(),
        "finite, shuffled": np.random.default_rng(0).permutation(np.resize(finite, 65536)).reshape(-1, 256),
    }
    for anchor in (6.0, 0.0117, 448.0):  # a fixed amax: rounding over the whole range below it
        small = np.resize(finite[np.abs(finite) <= anchor], (4608, 15))
        with_anchor = np.concatenate([np.full((4608, 1), anchor, np.float32), small], axis=1)
        result[f"below {anchor}"] = np.resize(with_anchor, (288, 256))
    return result


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("global_scale", [1.0, 896.0, 0.37, 2.0**60, 2.0**-60])
def test_all_16_bit_values_to_nvfp4(device, dtype, global_scale):
    scale = torch.tensor([global_scale], device=device)
    for name, values in arrangements(dtype).items():
        codes, scales = fp4aot.quantize_nvfp4(tensor_of(values, dtype, device), scale, scale_layout="linear")
        expected_codes, expected_scales = reference.quantize(reference.round_to(values, dtype), "nvfp4", global_scale)
        assert np.array_equal(bytes_of(scales), expected_scales), name
        assert np.array_equal(bytes_of(codes), reference.pack_codes(expected_codes)), name


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("rounding", ["ceil", "floor"])
def test_all_16_bit_values_to_mxfp4(device, dtype, rounding):
    for name, values in arrangements(dtype).items():
        codes, scales = fp4aot.quantize_mxfp4(
            tensor_of(values, dtype, device), rounding=rounding, scale_layout="linear"
        )
        expected_codes, expected_scales = reference.quantize(
            reference.round_to(values, dtype), "mxfp4", rounding=rounding
        )
        assert np.array_equal(bytes_of(scales), expected_scales), name
        assert np.array_equal(bytes_of(codes), reference.pack_codes(expected_codes)), name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("format", "global_scale"), [("nvfp4", None), ("nvfp4", 0.37), ("nvfp4", 2.0**-100), ("mxfp4", None)]
)
def test_dequantize_every_code_and_scale(device, dtype, format, global_scale):
    count = 128 if format == "nvfp4" else 256
    vector = reference.VECTOR[format]
    codes = np.tile(np.arange(16, dtype=np.uint8), (count, vector // 16))
    scales = np.arange(count, dtype=np.uint8)[:, None]
    packed = torch.from_numpy(reference.pack_codes(codes)).to(device)
    scale_tensor = torch.from_numpy(scales).view(SCALE_DTYPES[format]).to(device)
    arguments = [] if global_scale is None else [torch.tensor([global_scale], device=device)]
    function = getattr(fp4aot, f"dequantize_{format}")
    out = function(packed, scale_tensor, *arguments, dtype=DTYPES[dtype], scale_layout="linear")
    with np.errstate(over="ignore", invalid="ignore"):
        exact = reference.dequantize(codes, scales, format).astype(np.float32)  # exact, but for overflow at 6 * 2^126
        expected = reference.round_to(exact / np.float32(1 if global_scale is None else global_scale), dtype)
    got = out.float().cpu().numpy()
    assert np.array_equal(np.isnan(got), np.isnan(expected))
    usable = ~np.isnan(expected)
    assert np.array_equal(got[usable].view(np.uint32), expected[usable].view(np.uint32))
    assert np.isnan(expected).any(axis=1).tolist() == [False] * (count - 1) + [True]
