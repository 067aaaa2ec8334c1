"""Tensor instructions in small kernels (tcgen05, wgmma, tensor_copies in ptx/): right results, and planted faults.

A fault is a text of the kernel with another in its place; the run must report the named check.
"""

import ctypes

import numpy as np
import pytest
from reference import formats

from .core_device import PTX, Device, library

pytestmark = pytest.mark.ptxsim

SCHEDULES = [(0, "lazy"), (0, "eager"), (1, "random"), (2, "random")]
RNG = np.random.default_rng(17)


def device_with(tmp_path, file: str, schedule, text: str = "", wrong: str = "") -> Device:
    source = (PTX / f"{file}.ptx").read_text()
    if text:
        assert text in source
        source = source.replace(text, wrong)
    path = tmp_path / f"{file}.ptx"
    path.write_text(source)
    device = Device()
    device.load(path)
    device.schedule(*schedule)
    return device


def bf16(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def core_matrices(matrix: np.ndarray) -> np.ndarray:
    """[rows][32 bytes] -> bytes as 8 x 16-byte core matrices, halves of a row 128 bytes apart, groups of rows 256."""
    return matrix.reshape(-1, 8, 2, 16).transpose(0, 2, 1, 3).reshape(-1)


def plain_problem(rows: int, columns: int):
    a, b = RNG.integers(-8, 8, (rows, 16)), RNG.integers(-8, 8, (columns, 16))
    image = [core_matrices(bf16(m).view(np.uint8).reshape(-1, 32)) for m in (a, b)]
    return np.concatenate(image), (a @ b.T).astype(np.float32)


def scaled_problem():
    def operand(rows):
        codes, scales = RNG.integers(0, 16, (rows, 64)), RNG.integers(0x28, 0x40, (rows, 4))
        atom = np.zeros(512, np.uint8)
        for row in range(rows):
            for s in range(4):
                atom[row % 32 * 16 + row // 32 * 4 + s] = scales[row, s]
        values = formats.decode_e2m1(codes) * np.repeat(formats.decode_e4m3(scales), 16, axis=1)
        return core_matrices(formats.pack_codes(codes)), atom, values

    a, scale_a, value_a = operand(128)
    b, scale_b, value_b = operand(16)
    before = np.arange(128)[:, None] + np.arange(16)[None, :]
    return np.concatenate([a, b, scale_a, scale_b]), (value_a @ value_b.T + before).astype(np.float32)


def run_product(tmp_path, file: str, kernel: str, schedule, text="", wrong=""):
    rows = 64 if file == "wgmma" else 128
    image, expected = scaled_problem() if kernel == "scaled" else plain_problem(rows, 8 if file == "wgmma" else 16)
    device = device_with(tmp_path, file, schedule, text, wrong)
    out = device.upload(np.zeros(expected.size, np.float32))
    found = device.run(kernel, device.upload(image), out, block=128)
    return found, device.download(out, np.float32, expected.size).reshape(expected.shape), expected


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize(("file", "kernel"), [("tcgen05", "plain"), ("tcgen05", "scaled"), ("wgmma", "twice")])
def test_product(tmp_path, file, kernel, schedule):
    found, got, expected = run_product(tmp_path, file, kernel, schedule)
    assert found == []
    np.testing.assert_allclose(got, 2 * expected if kernel == "twice" else expected, rtol=1e-6)


def faults(kernels: tuple[str, ...]) -> list[tuple[str, ...]]:
    """(file, kernel, check, text, wrong text) of each block of tensor_faults.txt for one of the kernels."""
    blocks = (PTX / "tensor_faults.txt").read_text().strip().split("\n\n")[1:]
    lines = [block.replace("\\n", "\0").split("\n") for block in blocks]
    parts = [
        (*where.split(), text[2:].replace("\0", "\n"), wrong[2:].replace("\0", "\n")) for where, text, wrong in lines
    ]
    return [part for part in parts if part[1] in kernels]


@pytest.mark.parametrize("schedule", SCHEDULES[::2], ids=str)
@pytest.mark.parametrize(("file", "kernel", "check", "text", "wrong"), faults(("plain", "scaled", "twice")))
def test_fault_in_a_product_is_reported(tmp_path, file, kernel, check, text, wrong, schedule):
    found, _, _ = run_product(tmp_path, file, kernel, schedule, text, wrong)
    assert check in [f.check for f in found], found
    assert all(f.line > 0 for f in found if f.check == check != "tensor-memory-leak")


FENCE, WAIT = "  wgmma.fence.sync.aligned;\n", "  wgmma.wait_group.sync.aligned 0;\n"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (FENCE, f"  add.u32 %q2, %q2, 0;\n{FENCE}"),  # written before the fence
        (FENCE, f"  mov.b32 %f2, 0;\n{FENCE}"),
        (FENCE, f"{FENCE}  add.u32 %r20, %q1, 1;\n  mov.b32 %f7, %f7;\n"),  # read after it; others written
        (WAIT, f"  mov.b32 %r20, %r3;\n{WAIT}"),  # others read in flight
        (WAIT, f"{WAIT}  add.u32 %r20, %q1, 1;\n  mov.b32 %q1, 0;\n  mov.b32 %r21, %f3;\n"),  # given back
        # A second product with what the wait gave back: the fence orders it.
        (WAIT, f"{WAIT}  mov.b32 %q1, 0;\n{FENCE}  wgmma.commit_group.sync.aligned;\n{WAIT}"),
    ],
)
def test_registers_that_wgmma_does_not_have(tmp_path, text, right):
    found, got, expected = run_product(tmp_path, "wgmma", "twice", (0, "lazy"), text, right)
    assert found == []
    np.testing.assert_allclose(got, 2 * expected, rtol=1e-6)


def tensor_map(address: int, shape: tuple[int, int]) -> np.ndarray:
    """cuTensorMapEncodeTiled: bf16, boxes [8][64], swizzle 128 B."""
    raw = ctypes.create_string_buffer(256)
    at = (ctypes.addressof(raw) + 63) // 64 * 64
    sizes, strides = (ctypes.c_uint64 * 2)(shape[1], shape[0]), (ctypes.c_uint64 * 1)(shape[1] * 2)
    box, ones = (ctypes.c_uint32 * 2)(64, 8), (ctypes.c_uint32 * 2)(1, 1)
    status = library().cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), 9, 2, ctypes.c_void_p(address), sizes, strides, box, ones, 0, 3, 0, 0
    )
    assert status == 0
    return np.frombuffer(ctypes.string_at(at, 128), np.uint8)


def run_copy(tmp_path, monkeypatch, schedule, at=(0, 0), rows=None, text="", wrong="", cluster=1):
    monkeypatch.setenv("FP4AOT_SIM", "sm90a")
    shape = (20, 136)
    values = RNG.integers(0, 60000, shape).astype(np.uint16)
    device = device_with(tmp_path, "tensor_copies", schedule, text, wrong)
    source, target = device.upload(values), device.upload(np.zeros(shape, np.uint16))
    maps = [device.upload(tensor_map(address, (rows or shape[0], shape[1]))) for address in (source, target)]
    found = device.run("increment", *maps, *(v & 0xFFFFFFFF for v in at), block=64, grid=cluster, cluster=cluster)
    return found, values, device.download(target, np.uint16, values.size).reshape(shape)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("at", [(0, 0), (64, 8), (128, 16), (96, 3)], ids=str)
def test_tensor_copy(tmp_path, monkeypatch, at, schedule):
    found, values, got = run_copy(tmp_path, monkeypatch, schedule, at)
    assert found == []
    expected = np.zeros_like(values)
    x, y = at
    expected[y : y + 8, x : x + 64] = values[y : y + 8, x : x + 64] + 1
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("file", "kernel", "check", "text", "wrong"), faults(("increment",)))
def test_fault_in_a_tensor_copy_is_reported(tmp_path, monkeypatch, file, kernel, check, text, wrong):
    assert (file, kernel) == ("tensor_copies", "increment")
    found, _, _ = run_copy(tmp_path, monkeypatch, (0, "lazy"), text=text, wrong=wrong)
    assert check in [f.check for f in found], found


def test_tensor_beyond_its_allocation(tmp_path, monkeypatch):
    found, _, _ = run_copy(tmp_path, monkeypatch, (0, "lazy"), at=(0, 16), rows=24)
    assert "global-out-of-bounds" in [f.check for f in found]


def test_store_at_a_negative_coordinate(tmp_path, monkeypatch):
    found, _, _ = run_copy(tmp_path, monkeypatch, (0, "lazy"), at=(0, -1))
    assert [f.check for f in found] == ["tensor-coordinates"]


def test_mbarrier_of_another_cta(tmp_path, monkeypatch):
    """A copy that is no multicast tells an mbarrier beside what it writes."""
    text, wrong = (
        "  cp.async.bulk.tensor.2d.shared",
        "  mapa.shared::cluster.u32 %r4, %r4, 1;\n  cp.async.bulk.tensor.2d.shared",
    )
    found, _, _ = run_copy(tmp_path, monkeypatch, (0, "lazy"), text=text, wrong=wrong, cluster=2)
    assert [f.cta for f in found if f.check == "mbarrier-elsewhere"] == [[0, 0, 0]], found


WRONG_ORDINAL = "replace.tile.global_dim.shared::cta.b1024.b32 [%r3], 5, 8"


def run_replaced(tmp_path, monkeypatch, schedule, text="", wrong="", kernel="replaced"):
    monkeypatch.setenv("FP4AOT_SIM", "sm90a")
    values = RNG.integers(0, 60000, (16, 64)).astype(np.uint16)
    device = device_with(tmp_path, "tensor_copies", schedule, text, wrong)
    source, out = device.upload(values), device.upload(np.zeros((8, 64), np.uint16))
    maps = device.upload(tensor_map(source, (8, 64)))
    block = 32 if kernel == "replaced" else 64
    found = device.run(kernel, maps, device.upload(np.zeros(128, np.uint8)), source + 8 * 128, out, block=block)
    return found, values, device.download(out, np.uint16, 512).reshape(8, 8, 8)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("kernel", ["replaced", "replaced_by_another_warp"])
def test_replaced_tensor_map(tmp_path, monkeypatch, kernel, schedule):
    found, values, got = run_replaced(tmp_path, monkeypatch, schedule, kernel=kernel)
    assert found == []
    rows = np.arange(8)[:, None]
    # 16-byte pieces of row r stand at piece ^ r.
    np.testing.assert_array_equal(got[rows, np.arange(8)[None, :] ^ rows], values[8:].reshape(8, 8, 8))


@pytest.mark.parametrize(
    ("check", "text", "wrong"),
    [
        ("tensor-map-not-acquired", "  fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;\n", "\n"),
        ("tensor-map-not-acquired", "acquire.gpu [%rd2], 128", "acquire.gpu [%rd1], 128"),
        ("tensor-map", "replace.tile.global_address.shared::cta.b1024.b64 [%r3], %rd3", WRONG_ORDINAL),
        ("tensor-map", "ld.param.u64 %rd3, [address];", "ld.param.u64 %rd3, [address]; add.s64 %rd3, %rd3, 8;"),
    ],
)  # fmt: skip
def test_fault_in_a_replaced_tensor_map_is_reported(tmp_path, monkeypatch, check, text, wrong):
    found, _, _ = run_replaced(tmp_path, monkeypatch, (0, "lazy"), text, wrong)
    assert check in [f.check for f in found], found


ACQUIRE = "  fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;\n"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (ACQUIRE, "\n"),
        # After the barrier that orders the other warp: nothing orders the use after it.
        (ACQUIRE + "  bar.sync 0, 64;\n", "  bar.sync 0, 64;\n" + ACQUIRE),
        # By the warp that uses it, which is not ordered after the change.
        ("USE:\n  bar.sync 0, 64;\n", f"USE:\n{ACQUIRE}"),
    ],
)
def test_map_that_another_warp_acquires_too_late(tmp_path, monkeypatch, text, wrong):
    kernel = "replaced_by_another_warp"
    found, _, _ = run_replaced(tmp_path, monkeypatch, (0, "lazy"), text, wrong, kernel)
    assert {"tensor-map-not-acquired", "tensor-map"} & {f.check for f in found}, found
