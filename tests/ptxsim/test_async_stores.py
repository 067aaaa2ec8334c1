"""st.async, red.async and cp.reduce.async.bulk: results by hand, and planted faults."""

import numpy as np
import pytest

from .core_device import PTX, Device

pytestmark = pytest.mark.ptxsim

SCHEDULES = [(0, "lazy"), (0, "eager"), (1, "random"), (2, "random")]
LANE = np.arange(32, dtype=np.uint32)


def run(tmp_path, kernel: str, schedule, text: str = "", wrong: str = ""):
    source = (PTX / "async_stores.ptx").read_text()
    begin = source.index(f".visible .entry {kernel}(")
    assert text in source[begin:]
    path = tmp_path / "async_stores.ptx"
    path.write_text(source[:begin] + (source[begin:].replace(text, wrong, 1) if text else source[begin:]))
    device = Device()
    device.load(path)
    device.schedule(*schedule)
    out = device.upload(np.tile(np.uint32(7), 64))
    data = device.upload(np.zeros(64, np.uint32))
    grid, cluster = (3, 1) if kernel == "bulk_add_right" else (2, 2)
    return device.run(kernel, data, out, grid=grid, cluster=cluster), device.download(out, np.uint32, 64)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_results(tmp_path, schedule):
    found, got = run(tmp_path, "store_right", schedule)
    assert found == []
    assert got.tolist() == [*(100 + 2 * LANE), *(2 * LANE)]
    found, got = run(tmp_path, "reduce_right", schedule)
    assert found == []
    assert got.tolist() == [0 + 496] * 32 + [1000 + 496] * 32
    found, got = run(tmp_path, "bulk_add_right", schedule)
    assert found == []
    assert got.tolist() == [*(7 + 3 * (10 + LANE)), *[7] * 32]


@pytest.mark.parametrize("cluster", [0, 1])
def test_a_launch_without_clusters(tmp_path, cluster):
    """Refused by an H200 (an illegal instruction), which takes clusters of one CTA."""
    device = Device()
    device.load(PTX / "async_stores.ptx")
    found = device.run("store_to_itself", cluster=cluster)
    assert [f.check for f in found] == ["async-store-without-cluster"] * (1 - cluster), found


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("add.u32", 7 + 3 * (10 + LANE)),
        ("min.u32", np.full(32, 7)),
        ("max.s32", 10 + LANE),
        ("or.b32", 7 | (10 + LANE)),
        ("and.b32", 7 & (10 + LANE)),
        ("inc.u32", np.full(32, 10)),  # 7, 8, 9, 10
    ],
)
def test_bulk_reductions(tmp_path, operation, expected):
    found, got = run(tmp_path, "bulk_add_right", (0, "lazy"), "bulk_group.add.u32", f"bulk_group.{operation}")
    assert found == []
    assert got[:32].tolist() == expected.tolist()


WAIT = "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;\n  @!%p2 bra WAIT;\n"
FAULTS = [
    ("store_right", "deadlock", "[%r4], 256", "[%r4], 264"),
    ("store_right", "pending-write|shared-race", WAIT, "\n"),
    ("store_right", "shared-misaligned", "[%r7], {", "[%r7+4], {"),
    ("store_right", "shared-out-of-bounds", "[%r7], {", "[%r7+0x8000], {"),
    ("store_right", "async-store-barrier", "[%r8]", "[%r4]"),
    ("store_right", "uninitialised", "{%r9, %r1}", "{%r9, %r15}"),
    ("store_right", "async-race", "  mapa", "  ld.shared.u32 %r14, [%r6];\n  mapa"),
    ("reduce_right", "uninitialised", "  @%p1 st.shared.u32 [%r6], %r9;\n", "\n"),
    ("reduce_right", "unknown-instruction", "add.u32 [%r7]", "exch.b32 [%r7]"),
    ("bulk_add_right", "missing-proxy-fence", "  fence.proxy.async.shared::cta;\n", "\n"),
    ("bulk_add_right", "bulk-misaligned", "[%r2], 128", "[%r2], 120"),
    ("bulk_add_right", "global-out-of-bounds", "[%rd2], [%r2]", "[%rd2+192], [%r2]"),
    ("bulk_add_right", "unknown-instruction", "add.u32 [%rd2]", "max.f32 [%rd2]"),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "check", "text", "wrong"), FAULTS, ids=lambda v: v.split("\n")[0][:30])
def test_fault_is_reported(tmp_path, kernel, check, text, wrong):
    if check == "unknown-instruction":
        with pytest.raises(AssertionError):
            run(tmp_path, kernel, (0, "lazy"), text, wrong)
        return
    found, _ = run(tmp_path, kernel, (0, "lazy"), text, wrong)
    assert {f.check for f in found} & set(check.split("|")), found
