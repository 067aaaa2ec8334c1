"""The rule of the W4A16 mma.sync kernel: every problem has a tactic, and schedules cover it. Needs no GPU."""

import ctypes
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import installed
import pytest

pytestmark = pytest.mark.build

SOURCE = Path(__file__).parents[2] / "src" / "cpp"
BF16, FP32 = 1, 3


@pytest.fixture(scope="module")
def rule(tmp_path_factory):
    output = tmp_path_factory.mktemp("rule") / "w4a16_rule.so"
    source = Path(__file__).with_name("w4a16_rule.cpp")
    library = installed.load(installed.build_library(source, output, f"-I{SOURCE}", include=SOURCE / "include"))
    library.fault.restype = ctypes.c_char_p
    library.valid.restype = ctypes.c_bool
    return library


def int64s(*values: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(value) for value in values]


ROWS = st.integers(1, 2**20) | st.integers(1, 70)
COLUMNS = st.integers(1, 2**14) | st.integers(1, 2**24)  # of 8
DEPTHS = st.integers(1, 2**10) | st.integers(1, 2**16)  # of 32


@hypothesis.given(m=ROWS, n=COLUMNS, k=DEPTHS, mxfp4=st.booleans())
@hypothesis.example(m=1, n=1, k=1, mxfp4=False)
@hypothesis.example(m=33, n=2496, k=208, mxfp4=True)
def test_every_problem_has_a_tactic_and_every_schedule_covers_it(rule, m, n, k, mxfp4):
    sizes = int64s(m, 8 * n, 32 * k)
    for device in range(rule.devices()):
        for dtype in (BF16, FP32):
            valid = [t for t in range(rule.tactics()) if rule.valid(mxfp4, *sizes, dtype, t, device)]
            assert valid, f"no tactic on device {device} for results of dtype {dtype}"
        for tactic in range(rule.tactics()):
            if rule.valid(mxfp4, *sizes, BF16, tactic, device):
                fault = rule.fault(mxfp4, *sizes, tactic, device)
                assert fault is None, f"tactic {tactic}, device {device}: {fault}"


def test_more_parts_of_k_than_k_tiles_are_refused(rule):
    for tactic in range(rule.tactics()):
        assert rule.valid(False, *int64s(1, 128, 64), BF16, tactic, 0) == (tactic % 4 == 0)
