"""The quantise family of every image in the simulator: plain forms bit for bit, fused ones within their bounds."""

import pytest

from . import suite

pytestmark = pytest.mark.ptxsim


@pytest.mark.parametrize("case", suite.cases(suite.quantize_problems()), ids=str)
def test_quantize(results, case):
    results.check(case)


@pytest.mark.parametrize("case", suite.cases(suite.layout_problems()), ids=str)
def test_layouts_and_back(results, case):
    results.check(case)
