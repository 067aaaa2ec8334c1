"""FP4AOT_CHECK_SCALES=1: padding along K of a product's scales is read and must be zero. On the CPU and a fake GPU."""

import json
from pathlib import Path

import c_abi
import installed
import pytest

pytestmark = pytest.mark.build

HERE = Path(__file__).parent

# gemm_nvfp4 [130, 32] x [136, 32]: two scales a row, so columns 2 and 3 are padding. argv: device type, scale tensor
# to change, its byte, stream. Prints status and text.
PROGRAM = """
import ctypes, json, sys
sys.path.insert(0, sys.argv[1])
import c_abi
library = c_abi.load()
kind, change, byte, stream = json.loads(sys.argv[2])
memory = (ctypes.c_ubyte * (1 << 20))()
start = (ctypes.addressof(memory) + 4095) // 4096 * 4096
parts = {name: start + i * 65536 for i, name in enumerate(("a_codes", "b_codes", "a_scales", "b_scales", "d", "space"))}
if change:
    ctypes.c_ubyte.from_address(parts[change] + byte).value = 0x7F
params = c_abi.Gemm(struct_size=ctypes.sizeof(c_abi.Gemm), device=c_abi.Device(kind, 0), stream=stream,
                    m=130, n=136, k=32, a_stride=16, b_stride=16, a_scales_bytes=1024, b_scales_bytes=1024,
                    d_stride=136, d_dtype=3,
                    workspace=parts.pop("space"), workspace_bytes=65536, **parts)
status = library.fp4aot_gemm_nvfp4(params)
print(json.dumps([status, c_abi.error(library)]))
"""


def run(kind: int, change: str | None, byte: int = 0, stream: int = 0, **env) -> tuple[int, str]:
    arguments = json.dumps([kind, change, byte, stream])
    done = installed.python(PROGRAM, str(HERE), arguments, env={"FP4AOT_CHECK_SCALES": "1", **env})
    return tuple(json.loads(done.stdout.splitlines()[-1]))


# Row 33 = 32 + 1 is in the second group of 4 bytes of the second 16; rows from 128 on are in the second atom.
PADDING = [("a_scales", 16 + 4 + 2, 33, 2), ("b_scales", 512 + 16 + 3, 129, 3), ("b_scales", 3, 0, 3)]
HARMLESS = [("a_scales", 16 + 4 + 1), ("a_scales", 512 + 32 + 2)]  # a scale; a row beyond m = 130


@pytest.mark.parametrize(("name", "byte", "row", "column"), PADDING)
def test_padding_is_found_on_the_cpu(name, byte, row, column):
    status, text = run(1, name, byte)
    assert status == c_abi.INVALID_ARGUMENT
    assert f"gemm_nvfp4: {name} has 0x7f at row {row}, column {column}" in text
    assert "swizzle_scales" in text
    assert run(1, name, byte, FP4AOT_CHECK_SCALES="0")[0] == c_abi.OK


@pytest.mark.parametrize(("name", "byte"), HARMLESS)
def test_what_is_no_padding_is_let_through(name, byte):
    assert run(1, name, byte) == (c_abi.OK, "")


def test_padding_is_found_on_a_device(fakes, tmp_path):
    env = {
        "LD_LIBRARY_PATH": str(fakes),
        "FP4AOT_IMAGE_DIR": str(fakes),
        "FAKE_DEVICES": "9.0:Alpha",
        "FAKE_LOG": str(tmp_path / "log"),
        "FP4AOT_FORCE_IMAGE": None,
        "CUDA_VISIBLE_DEVICES": None,
    }
    for name, byte, row, column in PADDING:
        status, text = run(2, name, byte, **env)
        assert (status, f"{name} has 0x7f at row {row}, column {column}" in text) == (c_abi.INVALID_ARGUMENT, True), (
            text
        )
    calls = (tmp_path / "log").read_text().split()
    assert calls.index("cuStreamSynchronize") < calls.index("cuMemcpyDtoH")
    assert run(2, None, **env)[0] == c_abi.LAUNCH_FAILED, "the fake image answers every launch with this"
    (tmp_path / "log").unlink()
    assert run(2, *PADDING[0][:2], stream=4096, **env)[0] == c_abi.LAUNCH_FAILED, (
        "a stream in capture is not waited for"
    )
    calls = (tmp_path / "log").read_text().split()
    assert "cuStreamIsCapturing" in calls
    assert "cuMemcpyDtoH" not in calls
