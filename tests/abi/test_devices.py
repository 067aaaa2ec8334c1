"""Which image serves which device, with a fake driver, a fake NVML and fake images: no GPU needed."""

import json
import shutil
from pathlib import Path

import c_abi
import installed
import pytest

pytestmark = pytest.mark.build

HERE = Path(__file__).parent

# Prints as JSON: per device the status and text of binding it and of a call on it, then fp4aot_info_json.
PROGRAM = """
import ctypes, json, os, sys
sys.path.insert(0, sys.argv[1])
import c_abi
library = c_abi.load()
def called():
    path = os.environ["FAKE_LOG"]
    return open(path).read().split() if os.path.exists(path) else []
result = {"info": json.loads(library.fp4aot_info_json()), "called by info": called(), "devices": []}
buffer = (ctypes.c_ubyte * 4096)()
address = (ctypes.addressof(buffer) + 1023) // 1024 * 1024
for index in json.loads(sys.argv[2]):
    device = c_abi.Device(2, index)
    name = ctypes.c_char_p()
    entry = {"bind": library.fp4aot_image_name(device, ctypes.byref(name)), "bind error": c_abi.error(library)}
    entry["image"] = name.value.decode() if name.value else None
    params = c_abi.ScaleLayout(struct_size=ctypes.sizeof(c_abi.ScaleLayout), device=device, rows=1, columns=4,
                               linear=address, linear_stride=4, swizzled=address + 1024, swizzled_bytes=512)
    entry["call"] = library.fp4aot_swizzle_scales(params)
    entry["call error"] = c_abi.error(library)
    entry["supports"] = library.fp4aot_supports(0, device)
    result["devices"].append(entry)
result["called"] = called()
print(json.dumps(result))
"""


def ask(fakes, tmp_path, devices: str, indices=(0,), **env) -> dict:
    log = tmp_path / "log"
    log.unlink(missing_ok=True)
    variables = {
        "LD_LIBRARY_PATH": str(fakes),
        "FP4AOT_IMAGE_DIR": str(fakes),
        "FAKE_DEVICES": devices,
        "FAKE_LOG": str(log),
        "CUDA_VISIBLE_DEVICES": None,
        "CUDA_DEVICE_ORDER": None,
        "FP4AOT_FORCE_IMAGE": None,
        **env,
    }
    done = installed.python(PROGRAM, str(HERE), json.dumps(list(indices)), env=variables)
    return json.loads(done.stdout.splitlines()[-1])


def test_exact_capability_gets_its_image(fakes, tmp_path):
    result = ask(fakes, tmp_path, "9.0:Alpha")
    device = result["devices"][0]
    assert (device["bind"], device["image"], device["supports"]) == (c_abi.OK, "sm90a", 1)
    assert device["call"] == c_abi.LAUNCH_FAILED, "the fake image answers every launch with this"
    for piece in ("the fake image was reached", "swizzle_scales", "sm90a", "Alpha", "9.0"):
        assert piece in device["call error"]
    calls = result["called"]
    assert calls.count("cuCtxPushCurrent") == calls.count("cuCtxPopCurrent") > 0, "the caller's context is restored"


@pytest.mark.parametrize("capability", ["8.0", "8.9", "9.1", "10.0", "10.3", "12.0", "12.1", "99.0"])
def test_no_image_for_any_other_capability(fakes, tmp_path, capability):
    result = ask(fakes, tmp_path, f"{capability}:Other")
    known = {image["capability"] for image in result["info"]["images"]}
    if capability in known:
        pytest.skip(f"this version of fp4aot has an image for {capability}")
    device = result["devices"][0]
    assert (device["bind"], device["image"], device["supports"]) == (c_abi.NO_IMAGE, None, 0)
    assert device["call"] == c_abi.NO_IMAGE, "never another image, never the CPU's"
    for piece in ("Other", capability, "sm90a", "9.0"):
        assert piece in device["call error"], device["call error"]
    assert result["info"]["devices"][0]["image"] is None


def test_several_devices_each_get_their_own(fakes, tmp_path):
    result = ask(fakes, tmp_path, "8.9:Old,9.0:New,9.0:Newer", indices=(0, 1, 2))
    assert [device["image"] for device in result["devices"]] == [None, "sm90a", "sm90a"]
    assert "Old" in result["devices"][0]["bind error"]
    assert "Newer" in result["devices"][2]["call error"]
    assert [device["image"] for device in result["info"]["devices"]] == [None, "sm90a", "sm90a"]


def test_device_that_does_not_exist(fakes, tmp_path):
    result = ask(fakes, tmp_path, "9.0:Alpha", indices=(1, -1, 64))
    assert [device["bind"] for device in result["devices"]] == [c_abi.INVALID_ARGUMENT] * 3
    assert "1 device" in result["devices"][0]["bind error"]


@pytest.mark.parametrize(
    ("driver", "ok"), [(12000, False), (12090, False), (13000, True), (13010, True), (14000, True)]
)
def test_driver_older_than_the_toolkit(fakes, tmp_path, driver, ok):
    result = ask(fakes, tmp_path, "9.0:Alpha", FAKE_CUDA_VERSION=str(driver))
    device = result["devices"][0]
    if ok:
        assert device["bind"] == c_abi.OK
        return
    assert device["bind"] == c_abi.DRIVER_TOO_OLD
    for piece in ("13.0", f"{driver // 1000}.{driver % 1000 // 10}", "driver"):
        assert piece in device["bind error"]
    assert result["info"]["devices"][0]["image"] is None
    assert "driver" in result["info"]["devices"][0]["reason"]


def test_force_image(fakes, tmp_path):
    forced = ask(fakes, tmp_path, "8.9:Old", FP4AOT_FORCE_IMAGE="sm90a")
    assert forced["devices"][0]["image"] == "sm90a"
    assert "FP4AOT_FORCE_IMAGE" in forced["info"]["devices"][0]["reason"]
    for wrong in ("sm42", "cpu"):
        device = ask(fakes, tmp_path, "9.0:Alpha", FP4AOT_FORCE_IMAGE=wrong)["devices"][0]
        assert device["bind"] == c_abi.NO_IMAGE
        for piece in ("FP4AOT_FORCE_IMAGE", wrong, "sm90a"):
            assert piece in device["bind error"]


def test_driver_that_cannot_start(fakes, tmp_path):
    device = ask(fakes, tmp_path, "9.0:Alpha", FAKE_INIT_ERROR="802")["devices"][0]
    assert device["bind"] == c_abi.LOAD_FAILED
    for piece in ("cuInit", "the fake driver says no", "802"):
        assert piece in device["bind error"]


def test_no_driver_and_no_nvml(fakes, tmp_path):
    """Libraries that cannot be loaded stand for missing ones, also on a machine that has a driver."""
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (tmp_path / name).write_text("not a library")
    result = ask(fakes, tmp_path, "", LD_LIBRARY_PATH=str(tmp_path))
    device = result["devices"][0]
    assert device["bind"] == c_abi.LOAD_FAILED
    for piece in ("libcuda.so.1", "driver", "CPU"):
        assert piece in device["bind error"]
    info = result["info"]
    assert info["devices"] == []
    assert "libnvidia-ml" in info["driver"]["error"]


def test_nvml_missing_beside_a_driver(fakes, tmp_path):
    """In a container without NVML the devices still work; info cannot list them."""
    shutil.copy(fakes / "libcuda.so.1", tmp_path / "libcuda.so.1")
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    result = ask(fakes, tmp_path, "9.0:Alpha", LD_LIBRARY_PATH=str(tmp_path))
    assert result["devices"][0]["image"] == "sm90a"
    assert result["info"]["devices"] == []
    assert result["info"]["driver"]["error"]


def test_info_starts_no_cuda(fakes, tmp_path):
    """Import and info may be followed by a fork: no cuInit, no context."""
    result = ask(fakes, tmp_path, "9.0:Alpha")
    assert "nvmlInit" in result["called by info"]
    assert not {"cuInit", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent"} & set(result["called by info"])
    assert "cuInit" in result["called"]


IMPORT = """
import os, sys
import fp4aot
fp4aot.info()
path = os.environ["FAKE_LOG"]
calls = open(path).read().split() if os.path.exists(path) else []
assert "cuInit" not in calls, calls
pid = os.fork()
if pid == 0:
    assert fp4aot.image_name("cuda:0") == "sm90a"
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert fp4aot.image_name("cuda:0") == "sm90a"
assert fp4aot.supports("gemm_nvfp4", "cuda:0")
print("done")
"""


def test_python_import_starts_no_cuda_and_survives_a_fork(fakes, tmp_path):
    env = {"LD_LIBRARY_PATH": str(fakes), "FP4AOT_IMAGE_DIR": str(fakes), "FAKE_DEVICES": "9.0:Alpha"}
    env |= {"FAKE_LOG": str(tmp_path / "log"), "FP4AOT_FORCE_IMAGE": None, "CUDA_VISIBLE_DEVICES": None}
    assert "done" in installed.python(IMPORT, env=env).stdout


THREE = "9.0:Alpha,9.0:Alpha,9.0:Alpha"


@pytest.mark.parametrize(
    ("devices", "visible", "order", "expected"),
    [
        (THREE, None, None, [True, True, True]),
        (THREE, "1", None, [False, True, False]),
        (THREE, "2, 0", None, [True, False, True]),
        (THREE, "", None, [False, False, False]),
        (THREE, "-1", None, [False, False, False]),
        (THREE, "0,7,1", None, [True, False, False]),  # CUDA stops at the first entry that it does not know
        (THREE, "GPU-20000000-1111-2222-3333-444444444444", None, [False, False, True]),
        (THREE, "GPU-1", None, [False, True, False]),  # a prefix is enough
        (THREE, "GPU-9", None, [False, False, False]),
        (THREE, "MIG-abc", None, None),
        ("9.0:Alpha,8.9:Beta", "0", None, None),  # CUDA orders by speed, NVML by PCI: not decided
        ("9.0:Alpha,8.9:Beta", "1", "PCI_BUS_ID", [False, True]),
        ("9.0:Alpha,8.9:Beta", "GPU-0", None, [True, False]),
    ],
)
def test_visible_devices(fakes, tmp_path, devices, visible, order, expected):
    result = ask(fakes, tmp_path, devices, (), CUDA_VISIBLE_DEVICES=visible, CUDA_DEVICE_ORDER=order)
    info = result["info"]
    assert info["visibility_decided"] is (expected is not None)
    if expected is not None:
        assert [device["visible"] for device in info["devices"]] == expected


def test_check_pointers(fakes, tmp_path):
    """The debugging aid refuses memory that the driver does not know, and names the argument."""
    device = ask(fakes, tmp_path, "9.0:Alpha", FP4AOT_CHECK_POINTERS="1")["devices"][0]
    assert device["call"] == c_abi.INVALID_ARGUMENT
    for piece in ("linear", "CUDA"):
        assert piece in device["call error"]
