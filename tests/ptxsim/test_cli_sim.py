"""`python -m tests.ptxsim`: results as JSON, and one clear sentence about whatever it cannot do."""

import json
import os
import re
import subprocess
import sys

import pytest

from . import build, estimate
from .gemm_problems import Gemm
from .quantize_problems import Quantize

pytestmark = pytest.mark.ptxsim


def cli(*words: str, **variables: str | None) -> subprocess.CompletedProcess:
    environment = dict(os.environ)
    for name, value in variables.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    done = subprocess.run(
        [sys.executable, "-m", "tests.ptxsim", *words], capture_output=True, text=True, env=environment, cwd=build.ROOT
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def image():
    """The first that was built, linked by whoever is first."""
    build.simulated_image(build.images()[0])
    return build.images()[0]


GEMM = ("--op", "gemm_nvfp4", "--m", "5", "--n", "16", "--k", "64", "--tactic", "0")
QUANTIZE = ("--op", "quantize_mxfp4", "--rows", "3", "--k", "64")


@pytest.mark.parametrize(
    "words", [GEMM, (*GEMM, "--only", "("), (*QUANTIZE, "--kind", "special", "--layout", "linear")]
)
def test_run(image, words):
    done = cli("run", "--image", image, *words)
    if "(" in words:
        assert done.returncode == 2
        assert "no regular expression" in done.stderr
        return
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert result["right"] is True
    assert result["error"] == ""
    assert result["image"] == image
    assert all(launch["counts"] for launch in result["launches"])


# What is wrong -> words of the message. argparse refuses these before anything runs.
REFUSED = {
    "dtype": ((*QUANTIZE, "--dtype", "fp8"), ["--dtype", "fp8", "bf16"]),
    "rounding": ((*QUANTIZE, "--rounding", "foo"), ["--rounding", "foo", "ceil", "floor"]),
    "kind": ((*QUANTIZE, "--kind", "foo"), ["--kind", "foo", "special"]),
    "layout": ((*QUANTIZE, "--layout", "foo"), ["--layout", "foo", "linear"]),
    "bias": ((*GEMM, "--bias", "fp8"), ["--bias", "fp8", "fp32"]),
    "k": ((*GEMM, "--k", "33"), ["--k", "33", "multiple of 32"]),
    "k of 0": ((*QUANTIZE, "--k", "0"), ["--k", "0", "multiple of 32"]),
    "m": ((*GEMM, "--m", "-1"), ["--m", "-1", ">= 1"]),
    "no number": ((*GEMM, "--m", "x"), ["--m", "invalid int", "x"]),
    "tactic": ((*GEMM, "--tactic", str((1 << 32) + 1)), ["--tactic", "4294967297 is beyond 32 bits"]),
    "huge m": ((*GEMM, "--m", str(1 << 63)), ["--m", "beyond 64 bits"]),
    "rows": ((*QUANTIZE, "--rows", "0"), ["--rows", ">= 1"]),
    "gap": ((*GEMM, "--a-gap", "-16"), ["--a-gap", "-16"]),
    "seed": ((*GEMM, "--seed", "-3"), ["--seed", "-3"]),
    "memory": ((*QUANTIZE, "--rows", str(2**50)), ["2.15e+09 GiB of memory", "smaller sizes"]),
    "memory of a product": ((*GEMM, "--n", str(2**40)), ["GiB of memory", "smaller sizes"]),
    "memory of gaps": ((*GEMM, "--d-gap", str(2**40)), ["GiB of memory", "smaller sizes"]),
    "a field that is missing": (GEMM[:-4], ["--k"]),
    "a field of another op": ((*GEMM, "--rows", "3"), ["unrecognized", "--rows"]),
    "op": (("--op", "nope"), ["--op", "nope", "gemm_nvfp4"]),
    "image": ((*GEMM, "--image", "sm42"), ["--image", "sm42", "sm"]),
    "completion": ((*GEMM, "--completion", "never"), ["--completion", "never", "lazy"]),
    "ptx of another name": ((*GEMM, "--ptx", "/nonexistent/x.ptx"), ["x.ptx", "units are", ".cu.o.ptx"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_options_that_are_refused(image, what):
    words, pieces = REFUSED[what]
    done = cli("run", "--image", image, *words)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    for piece in pieces:
        assert piece in done.stderr


# What the library refuses is in the result.
WRONG = {
    "tactic": ((*GEMM, "--tactic", "999"), ["tactic = 999", "does not exist"]),
    "n": ((*GEMM, "--n", "7"), ["n = 7", "multiple of 8"]),
    "gap": ((*GEMM, "--a-gap", "3"), ["a_stride", "multiple of 16"]),
    "no tactic is chosen": ((*GEMM[:-2], "--only", "nothing"), ["no kernel was launched"]),
}


@pytest.mark.parametrize("what", WRONG)
def test_problems_that_the_library_refuses(image, what):
    words, pieces = WRONG[what]
    done = cli("run", "--image", image, *words)
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert result["right"] is False
    for piece in pieces:
        assert piece in result["error"]


def test_estimates():
    """Nothing to say of small problems; minutes of large ones."""
    small, large = Gemm("gemm_nvfp4", 33, 272, 352), Gemm("gemm_nvfp4", 4096, 4096, 4096)
    assert estimate.objection(small) == estimate.objection(large) == ""
    assert estimate.warning(small) == ""
    assert re.search(r"about [\d.]+ minutes .*for each tactic", estimate.warning(large))
    assert estimate.warning(Quantize("quantize_nvfp4", 100_000, 4096)).endswith("minutes of a core")


def test_ptx_that_cannot_be_read(image, tmp_path):
    unit = build.ptx_files(image)[0]
    done = cli("run", "--image", image, *QUANTIZE, "--ptx", f"/nonexistent/{unit.name}")
    assert done.returncode == 2
    assert f"/nonexistent/{unit.name}" in done.stderr
    unit = next(path for path in build.ptx_files(image) if path.name.startswith("quantize"))
    (tmp_path / unit.name).write_text("no PTX")
    done = cli("run", "--image", image, *QUANTIZE, "--ptx", str(tmp_path / unit.name))
    assert done.returncode == 1
    assert "it is in no file" in json.loads(done.stdout)["error"]


@pytest.mark.parametrize("command", [("list",), ("run", *GEMM)])
@pytest.mark.parametrize(
    ("variables", "pieces"),
    [
        ({"FP4AOT_BUILD_DIR": "/nonexistent"}, ["FP4AOT_BUILD_DIR=/nonexistent", "build.ninja"]),
        ({"PTXSIM_LIBRARY": "/nonexistent"}, ["PTXSIM_LIBRARY=/nonexistent"]),
        ({"PTXSIM_BUILD_DIR": "/proc/nonexistent"}, ["/proc/nonexistent"]),
        ({"PTXSIM_LIBRARY": None, "PTXSIM_BUILD_DIR": "{folder}", "PATH": "/nonexistent", "CXX": None}, ["compiler"]),
    ],
)
def test_what_cannot_be_built(image, command, variables, pieces, tmp_path):
    image_option = ("--image", image) if command[0] == "run" else ()
    values = {name: value and value.format(folder=tmp_path) for name, value in variables.items()}
    done = cli(*command, *image_option, **values)
    assert done.returncode == 2
    assert done.stdout == ""
    for piece in pieces:
        assert piece in done.stderr


def test_help(image):
    assert "--schedule-seed" in cli("run", "--help").stdout
    assert "--codes-gap" in cli("run", "--op", "quantize_nvfp4", "--help").stdout
    assert "list" in cli("--help").stdout
    assert cli("--help", FP4AOT_BUILD_DIR=None).returncode == 0


def test_list(image):
    done = cli("list", "--image", image)
    assert done.returncode == 0
    assert done.stdout.startswith(f"{image}: ")
    assert "gemm_mxfp4" in done.stdout
