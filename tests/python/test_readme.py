"""The README's example runs as printed and gives the error that it claims."""

import re
from pathlib import Path

import installed
import pytest

README = Path(__file__).parents[2] / "README.md"


def test_example():
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    printed = installed.python(code).stdout
    assert float(printed.rpartition(":")[2]) == pytest.approx(0.13, abs=0.01)
    assert "0.13" in code
