"""Positions of the wgmma kernel's tiles are divided by multiplication (tile_schedule.h): exact for all that fits."""

from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import installed
import pytest

pytestmark = pytest.mark.build

SOURCE = Path(__file__).parents[2] / "src" / "cpp"
MOST = 2**31 - 1


@pytest.fixture(scope="module")
def divide(tmp_path_factory):
    output = tmp_path_factory.mktemp("divisors") / "tile_divisors.so"
    source = Path(__file__).with_name("tile_divisors.cpp")
    library = installed.load(installed.build_library(source, output, f"-I{SOURCE}", include=SOURCE / "include"))
    return library.quotient


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
