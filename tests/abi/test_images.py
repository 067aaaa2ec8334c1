"""The handshake between core and images, with images made on the fly and put first by FP4AOT_IMAGE_DIR."""

import json
import os
import shutil
from pathlib import Path

import c_abi
import installed
import pytest

pytestmark = pytest.mark.build

SOURCE = Path(__file__).with_name("fake_image.cpp")
DEFAULTS = {
    "MAJOR": 1,
    "MINOR": 0,
    "SLOTS": len(c_abi.OPS),
    "MISSING": -1,
    "NAME": '"cpu"',
    "WORKSPACE": 0,
    "TOOLKIT": 0,
}

# Calls an op with valid sizes; prints the status and the message as JSON. Runs in a process of its own, since a process
# keeps the image it has bound.
PROGRAM = """
import ctypes, json, sys
sys.path.insert(0, sys.argv[1])
import c_abi
library = c_abi.load()
gemm = c_abi.Gemm(struct_size=ctypes.sizeof(c_abi.Gemm), device=c_abi.CPU, tactic=0, m=1, n=8, k=32, a_stride=16,
                  b_stride=16, d_stride=8, d_dtype=1)
buffer = (ctypes.c_ubyte * 8192)()
address = (ctypes.addressof(buffer) + 1023) // 1024 * 1024
gemm.a_codes = gemm.b_codes = gemm.a_scales = gemm.b_scales = gemm.d = address
gemm.a_scales_bytes = gemm.b_scales_bytes = 512
for name, value in json.loads(sys.argv[2]).items():
    setattr(gemm, name, value if value != "address" else address)
result = {}
status = library.fp4aot_gemm_nvfp4(gemm)
result["gemm"] = [status, c_abi.error(library)]
size = ctypes.c_size_t(99)
result["workspace"] = [library.fp4aot_gemm_nvfp4_workspace_size(gemm, size), size.value]
result["supports"] = [library.fp4aot_supports(number, c_abi.CPU) for number in range(len(c_abi.OPS))]
count = ctypes.c_size_t(8)
tactics = (ctypes.c_int32 * 8)()
gemm_number = list(c_abi.OPS).index("gemm_nvfp4")
status = library.fp4aot_list_tactics(gemm_number, ctypes.addressof(gemm), ctypes.addressof(tactics), count)
result["tactics"] = [status, list(tactics)[:count.value]]
default = ctypes.c_int32(99)
result["default"] = [library.fp4aot_default_tactic(gemm_number, ctypes.addressof(gemm), default), default.value]
result["info"] = json.loads(library.fp4aot_info_json())
result["preload"] = library.fp4aot_preload(c_abi.CPU)
print(json.dumps(result))
"""


def with_image(tmp_path, parameters=None, flags=(), **macros):
    """Builds a fake cpu image and returns what PROGRAM sees of it."""
    values = {**DEFAULTS, **macros}
    defines = [f"-D{name}={value}" for name, value in values.items()]
    installed.build_library(SOURCE, tmp_path / "libfp4aot_cpu.so", *defines, *flags, "-Wno-unused")
    done = installed.python(
        PROGRAM, str(Path(__file__).parent), json.dumps(parameters or {}), env={"FP4AOT_IMAGE_DIR": str(tmp_path)}
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_same_abi(tmp_path):
    result = with_image(tmp_path)
    assert result["gemm"][0] == c_abi.LAUNCH_FAILED
    assert "the fake image was reached" in result["gemm"][1]
    assert "gemm_nvfp4" in result["gemm"][1]
    assert "cpu" in result["gemm"][1]
    assert result["supports"] == [1] * len(c_abi.OPS)
    assert result["workspace"] == [c_abi.OK, 0]
    assert result["preload"] == c_abi.OK


def test_other_major_is_refused(tmp_path):
    result = with_image(tmp_path, MAJOR=2)
    status, message = result["gemm"]
    assert status in (c_abi.LOAD_FAILED, c_abi.NO_IMAGE)
    assert "ABI 2.0" in message
    assert "major 1" in message
    assert str(tmp_path) in message
    assert result["supports"] == [0] * len(c_abi.OPS)
    described = next(image for image in result["info"]["images"] if image["name"] == "cpu")
    assert "ABI 2.0" in described["error"]


def test_major_zero_is_refused(tmp_path):
    assert "ABI 0.9" in with_image(tmp_path, MAJOR=0, MINOR=9)["gemm"][1]


def test_older_image_with_fewer_slots(tmp_path):
    slots = list(c_abi.OPS).index("gemm_nvfp4")  # made before there was a GEMM
    result = with_image(tmp_path, SLOTS=slots)
    status, message = result["gemm"]
    assert status == c_abi.UNSUPPORTED
    assert "gemm_nvfp4" in message
    assert "cpu" in message
    assert result["supports"] == [1] * slots + [0] * (len(c_abi.OPS) - slots)
    assert result["preload"] == c_abi.OK


def test_newer_minor_with_more_slots_and_larger_slots(tmp_path):
    result = with_image(tmp_path, flags=["-DNEWER"], MINOR=7, SLOTS=40)
    assert result["gemm"][0] == c_abi.LAUNCH_FAILED
    assert result["supports"] == [1] * len(c_abi.OPS)
    assert result["tactics"] == [c_abi.OK, [1, 3]]


def test_null_slot_is_unsupported(tmp_path):
    missing = list(c_abi.OPS).index("gemm_nvfp4")
    result = with_image(tmp_path, MISSING=missing)
    assert result["gemm"][0] == c_abi.UNSUPPORTED
    assert result["supports"] == [int(number != missing) for number in range(len(c_abi.OPS))]


def test_wrong_name_is_refused(tmp_path):
    status, message = with_image(tmp_path, NAME='"other"')["gemm"]
    assert status in (c_abi.LOAD_FAILED, c_abi.NO_IMAGE)
    assert "other" in message
    assert "cpu" in message


ALONE = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
library.fp4aot_info_json.restype = ctypes.c_char_p
print(json.dumps({image["name"]: image["error"] for image in json.loads(library.fp4aot_info_json())["images"]}))
"""


@pytest.mark.parametrize("folder", ["", "absent", "."])
def test_an_image_that_is_nowhere(tmp_path, folder):
    """The error names all the places that were looked at."""
    core, folder = tmp_path / "core" / "libfp4aot.so", str(tmp_path / folder) if folder else ""
    core.parent.mkdir()
    shutil.copy(installed.core_library(), core)
    done = installed.python(ALONE, str(core), env={"FP4AOT_IMAGE_DIR": folder})
    where = f"neither in FP4AOT_IMAGE_DIR='{folder}' nor" if folder else "not"
    for name, error in json.loads(done.stdout).items():
        assert error.startswith(f"libfp4aot_{name}.so is {where} in this installation ({core.parent} has: none). ")


def test_library_without_the_entry_is_refused(tmp_path):
    status, message = with_image(tmp_path, flags=["-DNO_ENTRY"])["gemm"]
    assert status in (c_abi.LOAD_FAILED, c_abi.NO_IMAGE)
    assert "fp4aot_image" in message


def test_not_a_library(tmp_path):
    (tmp_path / "libfp4aot_cpu.so").write_text("not an ELF file")
    done = installed.python(PROGRAM, str(Path(__file__).parent), "{}", env={"FP4AOT_IMAGE_DIR": str(tmp_path)})
    status, message = json.loads(done.stdout.splitlines()[-1])["gemm"]
    assert status in (c_abi.LOAD_FAILED, c_abi.NO_IMAGE)
    assert "libfp4aot_cpu.so" in message


@pytest.mark.parametrize("left", ["a header", "a half", "all but a little"])
def test_truncated_library(tmp_path, left):
    """Mapping a file that ends early would kill the process at the first touch of what is missing."""
    whole = installed.image_library("cpu").read_bytes()
    size = {"a header": 4096, "a half": len(whole) // 2, "all but a little": len(whole) - 5000}[left]
    (tmp_path / "libfp4aot_cpu.so").write_bytes(whole[:size])
    done = installed.python(PROGRAM, str(Path(__file__).parent), "{}", env={"FP4AOT_IMAGE_DIR": str(tmp_path)})
    status, message = json.loads(done.stdout.splitlines()[-1])["gemm"]
    assert status == c_abi.NO_IMAGE
    assert "libfp4aot_cpu.so" in message
    assert f"{size} bytes" in message


def refused(tmp_path):
    """The message of a call, in a process of its own that may not wait for ever."""
    env = {"FP4AOT_IMAGE_DIR": str(tmp_path)}
    done = installed.python("import signal; signal.alarm(60)" + PROGRAM, str(Path(__file__).parent), "{}", env=env)
    status, message = json.loads(done.stdout.splitlines()[-1])["gemm"]
    assert status == c_abi.NO_IMAGE
    return message


@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a device"])
def test_not_a_file(tmp_path, kind):
    """Opening a pipe waits until somebody writes to it."""
    path = tmp_path / "libfp4aot_cpu.so"
    {"a pipe": os.mkfifo, "a folder": os.mkdir, "a device": lambda path: path.symlink_to("/dev/zero")}[kind](path)
    assert f"{path} is not a regular file" in refused(tmp_path)


def test_library_of_another_machine(tmp_path):
    """dlopen says that there is no such file."""
    library = bytearray(installed.image_library("cpu").read_bytes())
    library[18:20] = (183).to_bytes(2, "little")  # e_machine: AArch64
    (tmp_path / "libfp4aot_cpu.so").write_bytes(library)
    message = refused(tmp_path)
    assert "another kind of machine (ELF number 183), not x86-64" in message


def test_image_without_a_name(tmp_path):
    status, message = with_image(tmp_path, NAME="nullptr")["gemm"]
    assert status == c_abi.NO_IMAGE
    assert "expected 'cpu'" in message


def test_tactics(tmp_path):
    result = with_image(tmp_path)
    assert result["tactics"] == [c_abi.OK, [1, 3]]
    assert result["default"] == [c_abi.OK, 3]
    status, message = with_image(tmp_path, {"tactic": 2})["gemm"]
    assert status == c_abi.INVALID_ARGUMENT
    assert "two" in message
    assert "list_tactics" in message
    status, message = with_image(tmp_path, {"tactic": 4})["gemm"]
    assert status == c_abi.INVALID_ARGUMENT
    assert "tactic = 4" in message
    assert "1..3" in message


def test_problems_that_no_tactic_can_run(tmp_path):
    """Refused everywhere with the image's sentence: nothing is offered that the launch would refuse."""
    result = with_image(tmp_path, {"m": 1}, flags=["-DCHECKED"], WORKSPACE=4096)
    assert result["gemm"] == [c_abi.INVALID_ARGUMENT, "gemm_nvfp4 on the CPU (image cpu): k is too large."]
    assert result["workspace"] == [c_abi.INVALID_ARGUMENT, 0]
    assert result["tactics"][0] == c_abi.INVALID_ARGUMENT
    assert result["default"] == [c_abi.INVALID_ARGUMENT, 99]
    result = with_image(tmp_path, {"m": 0}, flags=["-DCHECKED"])  # an empty problem launches nothing
    assert result["gemm"] == [c_abi.OK, ""]
    assert result["workspace"] == [c_abi.OK, 0]
    assert result["tactics"] == [c_abi.OK, [1, 3]]


def test_workspace(tmp_path):
    result = with_image(tmp_path, WORKSPACE=4096)
    assert result["workspace"] == [c_abi.OK, 4096]
    assert result["gemm"][0] == c_abi.WORKSPACE_TOO_SMALL
    assert "4096" in result["gemm"][1]
    enough = {"workspace": "address", "workspace_bytes": 4096}
    assert with_image(tmp_path, enough, WORKSPACE=4096)["gemm"][0] == c_abi.LAUNCH_FAILED
    status, message = with_image(tmp_path, {**enough, "workspace_bytes": 4095}, WORKSPACE=4096)["gemm"]
    assert status == c_abi.WORKSPACE_TOO_SMALL
    assert "4095" in message
