"""The checks of sizes are the one place where numbers may be anything: no arithmetic of theirs may overflow."""

from pathlib import Path

import installed
import pytest

pytestmark = pytest.mark.build

SOURCE = Path(__file__).parents[2] / "src" / "cpp"


def test_no_arithmetic_is_undefined(tmp_path):
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}", f"-I{SOURCE / 'include'}"]
    traps = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    source, output = Path(__file__).with_name("check_sizes.cpp"), tmp_path / "check_sizes.o"
    unit = installed.compile_object(source, output, *flags, *traps)
    installed.run(installed.compiler(), unit, "-o", tmp_path / "check_sizes")
    passed = [int(count) for count in installed.run(tmp_path / "check_sizes").stdout.split()]
    assert len(passed) == 10
    assert all(passed), "some sizes must pass, or nothing behind the first check was tried"
