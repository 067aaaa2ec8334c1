"""nvfp4_global_scale: exact, over finite values only, clamped, without touching what lies between the rows."""

import fp4aot
import numpy as np
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from operands import DTYPES, floats_of, random_rows, tensor_of, with_row_stride


@given(
    rows=st.integers(0, 200),
    k=st.integers(1, 300),
    dtype=st.sampled_from(list(DTYPES)),
    kind=st.sampled_from(["normal", "wide", "special"]),
    gap=st.sampled_from([0, 1, 8, 13]),
    seed=st.integers(0, 2**32 - 1),
)
def test_value(device, rows, k, dtype, kind, gap, seed):
    x = with_row_stride(tensor_of(random_rows(np.random.default_rng(seed), rows, k, kind), dtype, device), gap)
    scale = fp4aot.nvfp4_global_scale(x)
    assert scale.dtype == torch.float32
    assert scale.numel() == 1
    assert scale.device == x.device
    assert np.float32(scale.item()) == reference.nvfp4_global_scale(floats_of(x))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, -0.0], 1.0),
        ([float("nan"), float("inf"), float("-inf")], 1.0),
        ([float("nan"), 0.0], 1.0),
        ([float("nan"), -3.0, float("inf"), 1.0], 896.0),
        ([2688.0], 1.0),
        ([-2688.0, 5.0], 1.0),
        ([2.0**-149], 2.0**100),
        ([2.0**-80], 2.0**91 * 1.3125),  # 2688 = 1.3125 * 2^11
        ([2.0**-90], 2.0**100),
        ([3.0e38], None),
        ([2.0**127], 2.0**-100),
        ([2.0**110], 2.0**-99 * 1.3125),
    ],
)
def test_by_hand(device, values, expected):
    scale = fp4aot.nvfp4_global_scale(torch.tensor([values], dtype=torch.float32, device=device))
    if expected is None:
        expected = max(float(np.float32(2688) / np.float32(values[0])), 2.0**-100)
    assert scale.item() == expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "k"), [(1, 1_000_003), (1_000_003, 1), (4096, 512), (3, 65536)])
def test_the_maximum_is_found_wherever_it_is(device, dtype, rows, k):
    x = torch.zeros(rows, k, dtype=DTYPES[dtype], device=device)
    flat = x.view(-1)
    for position in (0, 1, flat.numel() // 2, flat.numel() - 2, flat.numel() - 1):
        flat[position] = -7.0
        assert fp4aot.nvfp4_global_scale(x).item() == 384.0, position
        flat[position] = 0.0


def test_no_rows(device):
    assert fp4aot.nvfp4_global_scale(torch.zeros(0, 64, device=device)).item() == 1.0


def test_round_trip_uses_the_whole_range(device):
    """The largest value gets scale 448 and code 6; the dequantised error is small."""
    x = tensor_of(random_rows(np.random.default_rng(5), 256, 512, "normal"), "bf16", device)
    scale = fp4aot.nvfp4_global_scale(x)
    codes, scales = fp4aot.quantize_nvfp4(x, scale)
    assert scales.view(torch.uint8).max().item() == 0x7E
    back = fp4aot.dequantize_nvfp4(codes, scales, scale, dtype=torch.float32).cpu().numpy()
    error = np.linalg.norm(back - floats_of(x)) / np.linalg.norm(floats_of(x))
    assert 0.05 < error < 0.11, error  # NVFP4's own error on normal data is about 0.094
