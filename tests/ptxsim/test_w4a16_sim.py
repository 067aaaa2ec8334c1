"""The W4A16 products of every image that has them in the simulator, with every tactic that is valid for the shape."""

import pytest

from . import suite

pytestmark = pytest.mark.ptxsim


@pytest.mark.parametrize("case", suite.w4a16_cases(), ids=str)
def test_w4a16(results, case):
    results.check(case)
