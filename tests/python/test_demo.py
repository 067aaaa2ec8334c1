"""`fp4aot demo` on the model's real weights: FP4 keeps the sentence embeddings, and the tables say so."""

import json
import subprocess
import sys

import installed
import pytest
from fp4aot import demo


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    missing = demo.missing_packages()
    installed.need(not missing, f"the demo's packages are not installed: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("demo")
    command = [
        sys.executable,
        "-m",
        "fp4aot",
        "demo",
        "--output",
        folder / "chart.png",
        "--json",
        folder / "report.json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "report.json").read_text()), (folder / "chart.png").read_bytes()


def test_numbers(report):
    results = {result["format"]: result for result in report[1]["results"]}
    # 4 bits and a scale byte for 16 or 32 values, of 32 bits: 1/7.11 and 1/7.53.
    assert results["nvfp4"]["weight_bytes"] / report[1]["fp32_bytes"] == pytest.approx(4.5 / 32, rel=0.001)
    assert results["mxfp4"]["weight_bytes"] / report[1]["fp32_bytes"] == pytest.approx(4.25 / 32, rel=0.001)
    assert results["nvfp4"]["cosine_mean"] > 0.95
    assert results["mxfp4"]["cosine_mean"] > 0.91
    for result in results.values():
        assert len(result["layer_error"]) == 36
        # Quantising Gaussian-like data to e2m1 costs 5 to 25 %; less would mean that it was not quantised.
        assert all(0.01 < error < 0.30 for error in result["layer_error"].values())
        assert result["kernel_error"] < 1e-6


def test_output(report):
    text, _, chart = report
    for word in ("NVFP4", "MXFP4", "weight bytes", "cosine", "same nearest sentence", "Image "):
        assert word in text
    assert chart.startswith(b"\x89PNG")
