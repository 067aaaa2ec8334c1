"""The rule that chooses among the Blackwell images' kernels: what it chooses can always run. Needs no GPU."""

import ctypes
import itertools
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import installed
import pytest

pytestmark = pytest.mark.build

SOURCE = Path(__file__).parents[2] / "src" / "cpp"
ALIGNMENTS = (2**20, 2**20 + 16, 2**20 + 4)  # addresses of D
BF16, FP32 = 1, 3


@pytest.fixture(scope="module", params=["sm100a", "sm103a", "sm120a"])
def rule(request, tmp_path_factory):
    output = tmp_path_factory.mktemp("rule") / "rule.so"
    policy = f'-DPOLICY="{SOURCE}/images/{request.param}/policy.h"'
    # Without unique symbols: the three libraries have tables of the same name.
    library = installed.load(
        installed.build_library(
            Path(__file__).with_name("cutlass_rule.cpp"),
            output,
            policy,
            "-fno-gnu-unique",
            f"-I{SOURCE}",
            include=SOURCE / "include",
        )
    )
    library.excess.restype = ctypes.c_char_p
    library.tile_name.restype = ctypes.c_char_p
    library.max_rows.restype = ctypes.c_int64
    library.image = request.param
    return library


def sizes(m: int, n: int, k: int, d: int = 0, d_stride: int | None = None, dtype: int = BF16, **strides: int):
    strides = {"a_stride": k // 2, "b_stride": k // 2, **strides}
    d_stride = n if d_stride is None else d_stride
    return (ctypes.c_int64 * 8)(m, n, k, d_stride, d, dtype, strides["a_stride"], strides["b_stride"])


@hypothesis.given(data=st.data())
def test_default_is_valid_for_every_problem(rule, data):
    n = 8 * data.draw(st.integers(1, 2**16))
    problem = sizes(
        data.draw(st.integers(1, 2**34)),
        n,
        32 * data.draw(st.integers(1, 2**16)),
        data.draw(st.sampled_from((0, *ALIGNMENTS))),
        n + data.draw(st.sampled_from((0, 1, 8, 16, 4096))),
        data.draw(st.integers(BF16, FP32)),
    )
    for mxfp4 in (0, 1):
        assert rule.valid(mxfp4, problem, rule.default_number(mxfp4, problem))


@hypothesis.given(data=st.data())
def test_an_address_never_needs_more_workspace(rule, data):
    """The size of the workspace may be asked for before D exists."""
    shape = (
        data.draw(st.integers(1, 512)),
        8 * data.draw(st.integers(1, 2048)),
        128 * data.draw(st.integers(1, 256)),
    )
    for mxfp4, address in itertools.product((0, 1), ALIGNMENTS):
        before = rule.slices(rule.default_number(mxfp4, sizes(*shape)))
        after = rule.slices(rule.default_number(mxfp4, sizes(*shape, d=address)))
        assert after in (1, before)


def test_unaligned_outputs_have_a_kernel(rule):
    problem = sizes(512, 4096, 4096, d=2**20 + 2)
    listed = [number for number in range(rule.tactic_count()) if rule.valid(0, problem, number)]
    assert any(rule.slices(number) == 1 for number in listed)
    assert all(b"swapped" in rule.tile_name(number) for number in listed if rule.slices(number) == 1)


def test_slices_begin_with_whole_scale_atoms(rule):
    """64 values of NVFP4 and 128 of MXFP4 share the 512 bytes that a slice begins with."""
    for mxfp4, atom in ((0, 64), (1, 128)):
        for k in range(512, 16384, 32):
            problem = sizes(16, 512, k)
            for number in (n for n in range(8) if rule.valid(mxfp4, problem, n)):
                assert k % (rule.slices(number) * atom) == 0 or rule.slices(number) == 1


@pytest.mark.parametrize(
    ("problem", "name", "most"),
    [
        (sizes(4, 64, 2**27), None, 0),
        (sizes(4, 64, 2**27 + 32), b"k", 2**27),
        (sizes(2, 64, 64, a_stride=2**40 - 16), None, 0),
        (sizes(2, 64, 64, a_stride=2**40), b"a_stride", 2**40 - 16),
        (sizes(1, 64, 64, a_stride=2**60), None, 0),  # a single row's is not used
        (sizes(1, 8, 64, b_stride=2**40 - 16), None, 0),
        (sizes(1, 8, 64, b_stride=2**40), b"b_stride", 2**40 - 16),
        (sizes(2, 64, 64, d=2**20, d_stride=2**39), None, 0),  # stored by elements
        (sizes(1, 64, 64, d=2**20, d_stride=2**60), None, 0),
    ],
)
def test_what_is_too_large_has_no_tactic(rule, problem, name, most):
    limit = ctypes.c_int64()
    assert rule.excess(problem, ctypes.byref(limit)) == name
    assert limit.value == most
    for mxfp4 in (0, 1):
        listed = [number for number in range(rule.tactic_count()) if rule.valid(mxfp4, problem, number)]
        assert bool(listed) == (name is None)
        assert rule.valid(mxfp4, problem, rule.default_number(mxfp4, problem)) == (name is None)


def test_launches_stay_within_int32(rule):
    for number, k, of_b in itertools.product(range(0, rule.tactic_count(), 64), (32, 7168, 2**20, 2**27), (0, 1)):
        rows = rule.max_rows(number, k, of_b)
        assert rows % 128 == 0
        assert rows == 128 or rows * (k // 16) <= 2**31


def test_small_and_large_problems_get_different_kernels(rule):
    few = rule.tile_name(rule.default_number(0, sizes(1, 4096, 7168)))
    many = rule.tile_name(rule.default_number(0, sizes(4096, 4096, 7168)))
    assert b"swapped" in few
    assert many.startswith(
        {"sm100a": b"tcgen05_2sm", "sm103a": b"tcgen05_ultra", "sm120a": b"mma_sync_128x128"}[rule.image]
    )


def test_ultra_complements_the_other_kernels(rule):
    if rule.image != "sm103a":
        pytest.skip("only sm103a has them")
    for m, ultra in ((16, False), (128, False), (256, False), (1024, True), (8192, True)):
        assert (b"ultra" in rule.tile_name(rule.default_number(0, sizes(m, 4096, 7168)))) == ultra, m
