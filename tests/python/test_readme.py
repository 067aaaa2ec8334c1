"""The README's examples run as printed and give the errors that they claim."""

import re
from pathlib import Path

import installed
import pytest

README = Path(__file__).parents[2] / "README.md"


def test_example():
    w4a4, w4a16 = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    printed = installed.python(w4a4 + w4a16).stdout.splitlines()  # the second continues the first
    assert len(printed) == 2
    for line, error, code in zip(printed, ("0.13", "0.09"), (w4a4, w4a16), strict=True):
        assert float(line.rpartition(":")[2]) == pytest.approx(float(error), abs=0.01)
        assert error in code
