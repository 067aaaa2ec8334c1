"""tile_schedule.h: divisions by multiplication are exact for all that fits, cut tiles shared as the kernel wants it."""

import ctypes
import itertools
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import installed
import pytest

pytestmark = pytest.mark.build

SOURCE = Path(__file__).parents[2] / "src" / "cpp"
MOST = 2**31 - 1


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    output = tmp_path_factory.mktemp("divisors") / "tile_divisors.so"
    source = Path(__file__).with_name("tile_divisors.cpp")
    return installed.load(installed.build_library(source, output, f"-I{SOURCE}", include=SOURCE / "include"))


@pytest.fixture(scope="module")
def divide(library):
    return library.quotient


@pytest.mark.parametrize("tokens", [64, 128, 192, 256])
def test_cut_tiles_belong_to_one_cluster_each_step(library, tokens):
    """As the kernel counts on it: at most one part of a tile of another cluster, and one of an own tile."""
    library.cut_schedule_fault.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_int] * 2
    cut = 0
    for sms, k in itertools.product((1, 3, 8, 132), (128, 544, 2048, 19968)):
        for m, n in itertools.product((1, 200, 300, 1000, 2048, 5000), (8, 136, 520, 2048, 7168, 19968)):
            fault = library.cut_schedule_fault(m, n, k, tokens, sms)
            assert fault <= 0, f"fault {fault}: M {m} N {n} K {k}, {sms} multiprocessors"
            cut += fault == 0
    assert cut > 50


def test_next_to_multiples_of_small_numbers_and_powers_of_two(divide):
    powers = [2**i + d for i in range(31) for d in (-1, 0, 1) if 0 < 2**i + d <= MOST]
    for divisor in [*range(1, 600), *powers]:
        last = MOST // divisor * divisor
        for x in {0, 1, divisor - 1, divisor, min(divisor + 1, MOST), last - 1, last, MOST}:
            assert divide(x, divisor) == x // divisor, f"{x} / {divisor}"


@hypothesis.settings(max_examples=2000)
@hypothesis.given(x=st.integers(0, MOST), divisor=st.integers(1, MOST) | st.integers(1, 5000))
def test_any(divide, x, divisor):
    multiple = x // divisor * divisor
    for near in (x, multiple, max(multiple - 1, 0)):
        assert divide(near, divisor) == near // divisor
