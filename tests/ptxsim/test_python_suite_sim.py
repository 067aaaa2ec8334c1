"""tests/python on every image's simulated GPU, as `FP4AOT_SIM=<image> python -m pytest tests/python` runs them."""

import os
import re
import subprocess
import sys

import pytest

from . import build, python_suite

pytestmark = [pytest.mark.ptxsim, pytest.mark.build]

SWAPPED = re.compile(r"(cvt\.rn\.satfinite\.e2m1x2\.f32\s+\S+,\s*)([^\s,]+),\s*([^\s;]+);")


def pytest_in_a_process(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pytest", "-q", "-c", "tests/pytest.ini", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=build.ROOT)


@pytest.mark.parametrize("image", build.images())
def test_python_tests_pass(image):
    done = pytest_in_a_process(dict(os.environ, FP4AOT_SIM=image), "tests/python")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    calls = re.search(r"(\d+) calls ran on the simulated device of image (\w+)", done.stdout)
    passed = re.search(r"(\d+) passed", done.stdout)
    assert calls is not None
    assert passed is not None
    assert calls[2] == image
    assert int(calls[1]) > 500
    assert int(passed[1]) > 300
    assert "failed" not in done.stdout


def test_no_such_image():
    done = pytest_in_a_process(dict(os.environ, FP4AOT_SIM="sm42"), "tests/python")
    assert done.returncode != 0
    assert "FP4AOT_SIM=sm42: the images that were built are" in done.stdout + done.stderr


@pytest.mark.parametrize("image", [name for name in build.images() if name.startswith("sm1")][:1])
def test_a_wrong_kernel_is_noticed(image, tmp_path):
    """The values of each pair of codes change places."""
    unit = next(path for path in build.ptx_files(image) if path.name.startswith("quantize"))
    wrong, count = SWAPPED.subn(r"\1\3, \2;", unit.read_text())
    assert count > 0
    folder = build.mutated_image(image, {unit: wrong}, tmp_path)
    environment = python_suite.environment(image, folder)
    done = pytest_in_a_process(environment, "tests/python/test_quantize.py", "-k", "test_offset_views or test_no_rows")
    assert done.returncode == 1, done.stdout
    assert re.search(r"2 failed, 4 passed", done.stdout), done.stdout[-3000:]
