"""What `fp4aot bench` makes of times, and the order in which it takes them."""

import pytest
from bench_fakes import FakeCuda, ScriptedTimer
from fp4aot.bench import host, summary, tables, timing


def test_quartiles_and_median():
    assert summary.quartiles([5.0]) == (5.0, 5.0, 5.0)
    assert summary.quartiles([4.0, 1.0, 3.0, 2.0, 100.0]) == (2.0, 3.0, 4.0)  # an outlier moves none of them
    assert summary.quartiles([1.0, 2.0]) == (1.25, 1.5, 1.75)


def test_ratios():
    times = {
        "ours": [12.0, 10.0, 11.0],
        "cuBLAS bf16": [22.0, 23.0, 21.0],
        "Humming": [5.5, 5.5, 99.0],
        "read block 2048": [8.0, 9.0, 8.5],
        "read persistent 1": [5.0, 5.0, 6.0],
        "empty": [3.0, 2.9, 3.1],
    }
    readers = ["read block 2048", "read persistent 1"]
    row = summary.summarise(times, "ours", ["cuBLAS bf16", "Humming"], readers, "empty")
    assert row == {
        "us": 11.0,
        "us_quartiles": [10.5, 11.5],
        "peers": {"cuBLAS bf16": {"us": 22.0, "ratio": 2.0}, "Humming": {"us": 5.5, "ratio": 0.5}},
        "floor": {"us": 5.0, "ratio": 2.2, "reader": "read persistent 1"},
        "empty_us": 3.0,
    }
    row |= {"m": 8, "n": 4096, "k": 7168}
    rates = summary.rates(row, 16_515_072)
    assert rates["tflops"] == pytest.approx(42.705, rel=1e-4)  # 2 * 8 * 4096 * 7168 / 11 us
    assert rates["tb_per_s"] == pytest.approx(1.50137, rel=1e-5)  # 16,515,072 bytes in 11 us
    assert rates["tb_per_s_net"] == pytest.approx(2.064384, rel=1e-6)  # in 8 us
    assert summary.rates(row | {"empty_us": 11.0}, 1)["tb_per_s_net"] is None
    alone = summary.summarise(times, "ours", [], [], None)
    assert (alone["floor"], alone["empty_us"], alone["peers"]) == (None, None, {})
    assert summary.ranking({"a": [3.0], "b": [1.0, 2.0], "c": [9.0]}, ["a", "b"]) == {"b": 1.5, "a": 3.0}
    assert list(summary.ranking({"a": [3.0], "b": [1.0, 2.0]}, ["a", "b"])) == ["b", "a"]


def test_turns_are_interleaved_and_the_first_is_not_counted():
    timer = ScriptedTimer({"a": 10.0, "b": 20.0, "c": 30.0})
    times = timing.interleaved(timer, dict.fromkeys("abc"), 4)
    assert timer.turns == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"], ["b", "c", "a"]]
    assert times == {"a": [11.0, 12.0, 13.0, 14.0], "b": [21.0, 22.0, 23.0, 24.0], "c": [31.0, 32.0, 33.0, 34.0]}
    assert len(timing.interleaved(timer, {"a": None}, 50, seconds=0)["a"]) == 3  # at least, when time is up
    assert timing.interleaved(timer, {}, 2) == {}


def test_plain_timer_times_the_call():
    calls = []
    prepared = timing.PlainTimer().prepare(lambda: calls.append(1))
    assert calls == [1]
    times = timing.PlainTimer().turn({"a": prepared, "b": lambda: sum(range(200_000))})
    assert calls == [1, 1]
    assert times["b"] > 100
    assert times["a"] > 0


def test_graph_timer_reads_the_flush_buffer_right_before_each_replay(monkeypatch):
    monkeypatch.setattr(timing, "_SETTLE_SECONDS", 0.0)
    fake = FakeCuda()
    timer = timing.GraphTimer(fake)
    fake.log.clear()
    prepared = {"a": timer.prepare(fake.work(12.0))}
    # set-up on a side stream, waited for before the capture
    assert fake.log == ["wait", "call 12.0", "wait", "synchronize", "capture", "call 12.0", "captured"]
    prepared["b"] = timer.prepare(fake.work(7.5))
    fake.log.clear()
    times = timer.turn(prepared)
    assert fake.log == ["flush", "record", "replay", "record"] * 2 + ["synchronize"]
    assert times == {"a": pytest.approx(12.0), "b": pytest.approx(7.5)}


def test_extremes():
    def row(format, n, m, floor, cublas):
        floor = None if floor is None else {"ratio": floor}
        return {"format": format, "n": n, "k": 64, "m": m, "floor": floor, "peers": {"cuBLAS bf16": {"ratio": cublas}}}

    rows = [
        row("nvfp4", 8, 16, 1.4, 2.0),
        row("nvfp4", 16, 1, 1.5, 2.1),
        row("nvfp4", 16, 32, 2.0, 0.94),
        row("mxfp4", 8, 1024, None, 0.97),
        row("mxfp4", 16, 4096, None, 0.9),
    ]
    rows[0] |= {"us": 12.0, "tactics": {"a": 10.0, "b": 12.0}}
    rows[1] |= {"us": 12.0, "tactics": {"b": 12.0}}
    assert tables.extremes(rows) == [
        "nvfp4 M 1 to 16: read at most 1.50x (N 16 K 64 M 1), cuBLAS bf16 at least 2.00x (N 8 K 64 M 16), "
        "default at most 1.20x the best tactic (N 8 K 64 M 16)",
        "nvfp4 M 32 to 32: read at most 2.00x (N 16 K 64 M 32), cuBLAS bf16 at least 0.94x (N 16 K 64 M 32)",
        "mxfp4 M 1024 to 4096: cuBLAS bf16 at least 0.90x (N 16 K 64 M 4096)",
    ]
    assert tables.extremes([]) == []


def test_markdown():
    rows = [
        {"format": "nvfp4", "n": 4096, "k": 7168, "m": 8, "us": 12.04, "floor": {"ratio": 1.557}, "peers": {
            "cuBLAS bf16": {"ratio": 1.8}, "Humming": {"ratio": 1.41}}},
        {"format": "nvfp4", "n": 7168, "k": 2048, "m": 256, "us": 30.0, "floor": None, "peers": {
            "cuBLAS bf16": {"ratio": 0.976}}},
    ]  # fmt: skip
    times = "\N{MULTIPLICATION SIGN}"
    assert tables.markdown_tables("w4a16", rows, "HEAD").splitlines() == [
        "```", "HEAD", "```", "",
        f"**`gemm_w4a16_nvfp4`**, N {times} K: \N{MICRO SIGN}s, time / read, cuBLAS bf16 / time, Humming / time", "",
        f"| M | 4096 {times} 7168 | 7168 {times} 2048 |",
        "|---|---|---|",
        f"| 8 | 12.0, 1.56, 1.80 {times}, 1.41 {times} |  |",
        f"| 256 |  | 30.0, -, 0.98 {times}, - |",
    ]  # fmt: skip


def test_host_time_is_the_median_of_batches(monkeypatch):
    clock, log = [0.0], []
    monkeypatch.setattr(host.time, "perf_counter", lambda: clock[0])

    def call():
        log.append("call")
        clock[0] += 2e-6 if len(log) > 40 else 1e-3  # the first batches are slow

    us = host.microseconds(call, lambda: log.append("wait"), batches=5, batch=10)
    assert us == pytest.approx(2.0)
    assert log == (["wait"] + ["call"] * 10) * 8 + ["wait"]
