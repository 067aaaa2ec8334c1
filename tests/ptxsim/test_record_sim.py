"""The simulator against a real H200: the same problems, the same bits (products: but for their order of summation)."""

import pytest

from . import build, record, suite

pytestmark = pytest.mark.ptxsim

CASES = (
    [suite.Case(record.IMAGE, problem, True) for problem in record.problems()] if record.IMAGE in build.images() else []
)


@pytest.fixture(scope="session")
def recorded():
    assert record.FILE.exists(), f"{record.FILE} is missing; record_h200.py makes it on an H200"
    return record.load()[1]


def test_the_record_says_how_it_was_made():
    assert record.FILE.exists(), f"{record.FILE} is missing; record_h200.py makes it on an H200"
    about, outputs = record.load()
    assert "H200" in about["device"]
    assert about["driver"]
    assert len(outputs) == len(record.problems())
    assert all(outputs)
    assert record.FILE.stat().st_size < 1_000_000


@pytest.mark.parametrize("case", CASES, ids=str)
def test_simulator_and_h200_agree(results, recorded, case):
    report = results.check(case)
    # Tactics that are newer than the record are not in it; none of it may be missing.
    expected = recorded[CASES.index(case)]
    record.compare(case.problem, {name: report.outputs[name] for name in report.outputs if name in expected}, expected)


def test_the_comparison_notices(recorded):
    """One bit of a recorded output changed is a difference."""
    for problem, outputs in zip(record.problems(), recorded, strict=True):
        record.compare(problem, outputs, outputs)
        if problem.op in ("quantize_nvfp4", "swizzle_scales", "dequantize_mxfp4"):
            for name in outputs:
                other = dict(outputs)
                other[name] = outputs[name].copy()
                other[name].view("u1").reshape(-1)[-1] ^= 1
                with pytest.raises(AssertionError):
                    record.compare(problem, other, outputs)
