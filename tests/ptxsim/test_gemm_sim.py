"""The W4A4 products of every image in the simulator, with every tactic that is valid for the shape."""

import pytest

from . import suite

pytestmark = pytest.mark.ptxsim


@pytest.mark.parametrize("case", suite.cases(suite.gemm_problems()), ids=str)
def test_gemm(results, case):
    results.check(case)


@pytest.mark.parametrize("case", suite.other_schedules(), ids=str)
def test_when_asynchronous_operations_end_does_not_matter(results, case):
    results.check(case)
