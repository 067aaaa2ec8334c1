"""`fp4aot bench` on a GPU, as far as it goes without one: what is measured together, left out, named."""

import json
import sys
from pathlib import Path

import fp4aot
import pytest
import torch
from bench_fakes import TIMES, FakeGpu
from fp4aot import bench, runtime
from fp4aot.bench import chain, machines, operands, options


@pytest.fixture
def tactics(monkeypatch):
    """Two tactics, of which the first is chosen; the cpu image runs both."""
    monkeypatch.setattr(runtime, "list_tactics", lambda *_: [(1, "fast"), (2, "slow")])
    monkeypatch.setattr(runtime, "default_tactic", lambda *_: 1)
    for suite in operands.SUITES.values():
        product = suite.product
        monkeypatch.setattr(suite, "product", lambda self, tactic, product=product: product(self, 0))


def measured(tmp_path, machine, **options_) -> dict:
    path = Path(tmp_path) / "out.json"
    given = {"suite": "w4a16", "formats": ("nvfp4",), "shapes": ((64, 128),), "rows": (1, 128, 129)} | options_
    assert bench.run(options.Plan(json=path, quick=True, **given), machine) == 0
    return json.loads(path.read_text())


@pytest.mark.usefixtures("tactics")
def test_rows_of_a_gpu(tmp_path, capsys):
    machine = FakeGpu(TIMES)
    data = measured(tmp_path, machine)
    first, last, many = data["results"]
    for row in (first, last):  # medians of turns 1 to 7: four more than the first's
        assert (row["us"], row["us_quartiles"], row["empty_us"]) == (13.0, [11.5, 14.5], 7.0)
        assert row["floor"] == {"us": 10.0, "ratio": 1.3, "reader": "read block 2"}
        assert row["peers"]["cuBLAS bf16"] == {"us": 29.0, "ratio": pytest.approx(29 / 13)}
        assert row["peers"]["Humming"] == {"us": 17.0, "ratio": pytest.approx(17 / 13)}
        assert row["tb_per_s_net"] == pytest.approx(4 * 2 * 576 / 6.0 * 1e-6)
        assert (row["tactic"], row["tactic_number"]) == ("fast", 1)
    # reading the operands is no yardstick for many rows
    assert (many["floor"], many["empty_us"], many["tb_per_s_net"]) == (None, None, None)
    assert machine.sizes == [4 * 2 * 576]  # readers of one size are set up once
    assert data["notes"] == ["Humming is old."]
    out = capsys.readouterr().out
    assert "M    1  fast                        13.0 us  read 10.0 (1.30x)  net 0.00 TB/s" in out
    assert "cuBLAS bf16 29.0 (2.23x)  Humming 17.0 (1.31x)" in out


@pytest.mark.usefixtures("tactics")
def test_a_turn_holds_every_candidate_and_other_tactics_are_ranked(tmp_path):
    machine = FakeGpu(TIMES)
    (row,) = measured(tmp_path, machine, rows=(8,), tactics=True, check=True)["results"]
    assert all(sorted(turn) == sorted(TIMES) for turn in machine.timer.turns)
    assert len(machine.timer.turns) == 1 + options.QUICK_TURNS
    assert row["tactics"] == {"fast": 13.0, "slow": 22.0}
    assert [name for name, verdict in row["check"].items() if verdict["right"]] == ["fast", "slow"]
    assert row["check"]["fast"]["norm_bound"] == 2e-3
    # each candidate is captured once: two tactics, two peers, two readers, the empty kernel
    assert len(machine.timer.prepared) == 7


@pytest.mark.usefixtures("tactics")
def test_a_peer_that_refuses_is_left_out_and_the_run_goes_on(tmp_path):
    data = measured(tmp_path, FakeGpu(TIMES, refuse=128))
    both = ["cuBLAS bf16", "Humming"]
    assert [list(row["peers"]) for row in data["results"]] == [both, both[:1], both[:1]]
    assert data["notes"][1] == "Humming, nvfp4 N 64 K 128 M 128: RuntimeError: no kernel"


@pytest.mark.usefixtures("tactics")
def test_readers_read_what_w4a4_reads(tmp_path):
    machine = FakeGpu(TIMES)
    data = measured(tmp_path, machine, suite="w4a4", rows=(1, 64), peers=False)
    assert machine.sizes == [(1 + 64) * 72, (64 + 64) * 72]
    assert [row["peers"] for row in data["results"]] == [{}, {}]


@pytest.mark.usefixtures("tactics")
def test_a_tactic_that_fails_is_named_and_the_status(tmp_path, monkeypatch):
    product = operands.W4a16.product

    def fail(self, tactic):
        if tactic == 2:
            raise fp4aot.LaunchError("out of registers")
        return product(self, tactic)

    monkeypatch.setattr(operands.W4a16, "product", fail)
    path = Path(tmp_path) / "out.json"
    plan = options.Plan("w4a16", formats=("mxfp4",), shapes=((8, 32),), rows=(1,), tactics=True, quick=True, json=path)
    assert bench.run(plan, FakeGpu(TIMES)) == 1
    data = json.loads(path.read_text())
    assert "FAILED: slow, mxfp4 N 8 K 32 M 1: out of registers" in data["notes"]
    assert list(data["results"][0]["tactics"]) == ["fast"]


def test_chain(tmp_path, monkeypatch, capsys):
    """Each product takes the last one's result; a product's share of the chain's time is what is printed."""
    machine = FakeGpu({"plain": 90.0, "pdl": 74.0})
    given = {"suite": "chain", "shapes": ((64, 128),), "rows": (1, 9)}
    data = measured(tmp_path, machine, **given)
    assert [(row["call"], row["value"], row["unit"]) for row in data["results"]] == [
        (f"nvfp4 N 64 K 128 M {m}, {name}", (us + 4) / 16, "us")
        for m in (1, 9)
        for name, us in machine.timer.times.items()
    ]
    assert "nvfp4 N 64 K 128 M 9, pdl" in capsys.readouterr().out
    layers = chain.layers("nvfp4", 64, 128, "cpu")
    x = torch.randn(3, 128).bfloat16()
    result = chain.product_chain(layers, x, pdl=False)[0]()
    for layer in layers:
        weights = fp4aot.dequantize_nvfp4(layer.codes, layer.scales, dtype=torch.float32)
        x = (x.float() @ weights.T * layer.factor / layer.k**0.5).bfloat16()
    assert result.shape == (3, 128)
    assert (result.float() - x.float()).norm() < 0.05 * x.float().norm()  # rounded 16 times

    def other_bits(self, a, alpha, out, pdl):
        return multiply(self, a, alpha, out, pdl).add_(1) if pdl else multiply(self, a, alpha, out, pdl)

    multiply = operands.W4a16.multiply
    monkeypatch.setattr(operands.W4a16, "multiply", other_bits)
    assert bench.run(options.Plan(formats=("mxfp4",), quick=True, **given), FakeGpu(machine.timer.times)) == 1
    assert "WRONG: mxfp4 N 64 K 128 M 9: PDL changes the result" in capsys.readouterr().out


def test_choice_of_the_machine(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert machines.choose("auto").device == machines.choose("cpu").device == "cpu"
    with pytest.raises(ValueError, match="torch sees no CUDA device"):
        machines.choose("cuda")
    # a GPU without an image
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(runtime, "supports", lambda *_: False)

    def refuse(device):
        raise fp4aot.NoImageError("no image for compute capability 7.0")

    monkeypatch.setattr(runtime, "image_name", refuse)
    machine = machines.choose("auto")
    assert machine.device == "cpu"
    assert machine.notes == ["The GPU is not measured: no image for compute capability 7.0"]
    with pytest.raises(fp4aot.NoImageError, match=r"capability 7\.0"):
        machines.choose("cuda")


def test_missing_peers_are_named(monkeypatch):
    monkeypatch.setattr(machines, "GraphTimer", lambda: None)
    monkeypatch.setattr(machines.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "triton", None)
    notes = machines.Gpu().notes
    assert "Triton (pip install triton)" in notes[0]
    assert "(the floor) and an empty kernel are not measured" in notes[0]
    assert notes[1] == "Humming is not installed: not measured (pip install humming-kernels)."
