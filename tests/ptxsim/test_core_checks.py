"""Every check of the simulator's core: a planted fault that it must report, and the right twin that must pass.

The kernels are in ptx/*.ptx; a case names the check that the wrong one gives. Each runs under several schedules.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from .check_cases import CASES
from .core_device import PTX, Device

pytestmark = pytest.mark.ptxsim

SCHEDULES = [(0, "lazy"), (1, "random"), (2, "random"), (3, "lazy")]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize(("file", "kernel", "check", "options"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_check(file, kernel, check, options, schedule):
    options = dict(options)
    if options.pop("lazy_only", False) and schedule[1] != "lazy":
        return  # the copy may have ended before the write
    if options.pop("in_order", False) and schedule[0] != 0:
        return  # whether a waiter looks between two phases depends on the order; a livelock takes seconds to tell
    device = Device()
    device.load(PTX / f"{file}.ptx")
    device.schedule(*schedule)
    words = 64 if file in ("barriers", "copies") or options.get("block") == 64 else 32
    fresh = options.pop("fresh", False)
    data = device.allocate(4 * words) if fresh else device.upload(np.arange(words, dtype=np.uint32))
    out = device.upload(np.zeros(words, np.uint32))
    arguments = (out,) if file == "clusters" else (data, out)
    found = device.run(kernel, *arguments, **options)
    if check:
        assert found, "nothing was reported"
        assert {f.check for f in found} <= set(check.split("|")) | {"deadlock"}, found
        first = found[0]
        assert first.kernel == kernel
        assert any(f.check in check.split("|") for f in found), found
        assert first.line > 0 or first.check in ("deadlock", "mbarrier-exit-pending")
    else:
        assert found == []


def test_every_check_has_a_planted_fault():
    """The names that findings give are those that tests of planted faults name."""
    here = Path(__file__).parent
    sources = "".join(path.read_text() for path in sorted((here / "src").rglob("*.cpp")))
    reported = set(re.findall(r'(?:finding|make_finding)\([^;]*?"([a-z]+(?:-[a-z]+)*)",', sources))
    tests = [*here.glob("test_*.py"), here / "check_cases.py", *here.glob("ptx/*faults.txt")]
    named = set(re.findall(r"[a-z]+(?:-[a-z]+)*", " ".join(path.read_text() for path in tests)))
    assert len(reported) > 50
    assert reported <= named, sorted(reported - named)


def results(file, kernel, schedule, words, **options) -> np.ndarray:
    device = Device()
    device.load(PTX / f"{file}.ptx")
    device.schedule(*schedule)
    data, out = device.upload(np.arange(words, dtype=np.uint32)), device.upload(np.zeros(words, np.uint32))
    arguments = (out,) if file == "clusters" else (data, out)
    assert device.run(kernel, *arguments, **options) == []
    return device.download(out, np.uint32, words)


@pytest.mark.parametrize("schedule", [*SCHEDULES, (0, "eager"), (9, "random")], ids=str)
def test_results_do_not_depend_on_the_schedule(schedule):
    lane = np.arange(32, dtype=np.uint32)
    assert (results("memory", "global_bounds_right", schedule, 32) == lane).all()
    assert results("memory", "global_misaligned_right", schedule, 32)[0] == 0
    assert results("memory", "const_right", schedule, 32)[0] == 37
    assert (results("memory", "local_right", schedule, 32) == lane).all()
    both = results("memory", "exchange_right", schedule, 64, block=64)
    assert (both == np.concatenate([lane + 32, lane])).all()
    for kernel, value in (("arrive_right", 77), ("mbarrier_right", 78)):
        assert (results("barriers", kernel, schedule, 64, block=64) == np.repeat([0, value], 32)).all()
    assert (results("copies", "cp_async_right", schedule, 64)[:32] == np.where(lane & 4, lane, 0)).all()
    pairs = np.arange(64, dtype=np.uint32)
    assert (results("copies", "bulk_right", schedule, 64) == np.where(pairs % 2 == 0, pairs + 1, pairs)).all()
    swapped = results("clusters", "exchange_right", schedule, 4, grid=4, cluster=2)
    assert (swapped == [101, 100, 101, 100]).all()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_clusters_take_over_work(schedule):
    taken = results("clusters", "take_over_right", schedule, 32, grid=32, cluster=2)
    assert (taken == np.tile([1, 0], 16)).all()


@pytest.mark.parametrize("completion", ["lazy", "random", "eager"])
def test_arrivals_at_the_barrier_of_a_cluster_wait_as_under_compute_sanitizer(completion):
    """With completion "eager": who holds another warp up after its own arrival would hang there."""
    device = Device()
    device.load(PTX / "clusters.ptx")
    device.schedule(0, completion)
    out = device.upload(np.zeros(4, np.uint32))
    found = device.run("early_arrival_right", out, grid=4, cluster=2, block=64)
    if completion == "eager":
        assert found
        assert {finding.check for finding in found} == {"deadlock"}
        assert "barrier.cluster.arrive" in found[0].message
    else:
        assert found == []


@pytest.mark.parametrize("seed", [0, 7])
def test_host_threads_share_a_grid(seed):
    device = Device(multiprocessors=2)
    device.load(PTX / "clusters.ptx")
    device.schedule(seed, "random", threads=4)
    out = device.upload(np.zeros(512, np.uint32))
    assert device.run("exchange_right", out, grid=512, cluster=2) == []
    assert (device.download(out, np.uint32, 512) == np.tile([101, 100], 256)).all()
    assert device.run("take_over_right", device.upload(np.zeros(512, np.uint32)), grid=512, cluster=2) == []


def test_deadlock_names_what_every_warp_waits_for():
    device = Device()
    device.load(PTX / "barriers.ptx")
    data, out = (device.upload(np.zeros(64, np.uint32)) for _ in range(2))
    (found,) = device.run("mbarrier_deadlock_wrong", data, out, block=64)
    assert "warp 1 lanes ffffffff" in found.message
    assert "mbarrier.try_wait" in found.message
    assert "phase 0, 1 of 33 arrivals" in found.message


def test_findings_name_place_and_lane():
    device = Device()
    device.load(PTX / "memory.ptx")
    data, out = (device.upload(np.zeros(32, np.uint32)) for _ in range(2))
    (found,) = device.run("global_bounds_wrong", data, out, grid=1)
    assert (found.lane, found.warp, found.cta) == (31, 0, [0, 0, 0])
    line = (PTX / "memory.ptx").read_text().splitlines()[found.line - 1]
    assert "[%rd4+4]" in line
    assert "0 bytes behind an allocation of 128 bytes" in found.message


def test_launches_that_cannot_be(tmp_path):
    device = Device(shared_bytes=1024)
    device.load(PTX / "memory.ptx")
    assert not device.launch("no_such_kernel")
    assert not device.launch("local_right", 0, 0, block=1025)
    assert not device.launch("local_right", 0, 0, shared=2048)
    assert "shared memory" in device.error()
    assert not device.launch("local_right", 0)
    assert not device.launch("local_right", 0, 0, grid=3, cluster=2)
    unknown = tmp_path / "unknown.ptx"
    unknown.write_text(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n  .reg .b32 %r<2>;\n"
        "  vadd.u32.u32.u32 %r1, 1, 2;\n  frobnicate.b32 %r1;\n  ret;\n}\n"
    )
    device.load(unknown)
    assert not device.launch("k")
    found = device.findings()
    assert [(f.check, f.line) for f in found] == [("unknown-instruction", 7), ("unknown-instruction", 8)]
    assert "vadd.u32.u32.u32" in found[0].message
    assert "frobnicate.b32" in found[1].message


def dependent(first: str, second: str, chain: bool = True, third: str | None = None, block=32) -> list:
    """primary-like kernels one behind the other, the later ones programmatic."""
    device = Device()
    device.load(PTX / "dependent_launch.ptx")
    buffers = [device.upload(np.zeros(64, np.uint32)) for _ in range(4)]
    assert device.launch(first, buffers[0], buffers[1])
    assert device.launch(second, buffers[1] if chain else buffers[2], buffers[2 if chain else 3], pdl=True, block=block)
    if third:
        assert device.launch(third, buffers[1], buffers[3], pdl=True)
    device.synchronize()
    return device.findings()


def test_dependent_launch():
    assert dependent("primary", "primary") == []
    assert dependent("primary", "careless", chain=False) == []
    (found,) = dependent("primary", "careless")
    assert found.check == "pdl-before-wait"
    assert found.kernel == "careless"
    assert "which primary writes" in found.message
    assert dependent("primary", "waits_by_barrier", block=64) == []


def test_dependent_launch_writes_what_the_primary_reads():
    device = Device()
    device.load(PTX / "dependent_launch.ptx")
    read, written = (device.upload(np.zeros(32, np.uint32)) for _ in range(2))
    assert device.launch("primary", read, written)
    assert device.launch("writes_early", written, read, pdl=True)
    device.synchronize()
    assert [f.check for f in device.findings()] == ["pdl-before-wait"]


def test_waiting_is_not_transitive():
    assert dependent("primary", "primary", third="primary") == []
    found = dependent("primary", "never_waits", third="primary")
    assert {f.check for f in found} == {"pdl-not-transitive"}


def test_a_dependent_grid_starts_while_its_predecessor_runs(tmp_path):
    """The primary's last CTA waits for a word that the dependent writes: only an overlap ends it."""
    path = tmp_path / "overlap.ptx"
    path.write_text("""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry waits(.param .u64 word)
{
  .reg .b32 %r<2>; .reg .b64 %rd<2>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [word];
  griddepcontrol.launch_dependents;
AGAIN:
  ld.acquire.gpu.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  ret;
}
.visible .entry sets(.param .u64 word)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [word];
  st.release.gpu.global.u32 [%rd1], 1;
  griddepcontrol.wait;
  ret;
}
""")
    for pdl, expected in ((True, {"pdl-before-wait"}), (False, {"deadlock"})):
        device = Device(multiprocessors=8)
        device.load(path)
        word = device.upload(np.zeros(1, np.uint32))
        assert device.launch("waits", word, grid=3)
        assert device.launch("sets", word, pdl=pdl)
        device.synchronize()
        assert {f.check for f in device.findings()} == expected


def test_counts():
    device = Device()
    device.load(PTX / "memory.ptx")
    data, out = (device.upload(np.zeros(32, np.uint32)) for _ in range(2))
    device.run("global_bounds_right", data, out)
    (counts,) = device.counts()
    assert counts["warp_instructions"] == 9
    assert counts["thread_instructions"]["global_memory"] == 64
    assert counts["bytes"] == {"global_load": 128, "global_store": 128}
    assert counts["grid"] == [1, 1, 1]
