"""The C ABI's own checks: struct_size, null pointers, devices, flags, ranges. On the CPU, through ctypes."""

import ctypes
import threading

import c_abi
import numpy as np
import pytest
import reference

LIBRARY = c_abi.load()


def aligned(size: int) -> np.ndarray:
    """uint8 memory at a multiple of 64 bytes."""
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


class Quantization:
    """A valid quantize_nvfp4 call of [3, 32] fp32, its memory, and its parameters."""

    def __init__(self):
        self.x = np.random.default_rng(0).standard_normal((3, 32)).astype(np.float32)
        self.codes, self.scales = aligned(48), aligned(512)
        self.params = c_abi.Quantize(
            struct_size=ctypes.sizeof(c_abi.Quantize),
            device=c_abi.CPU,
            input_dtype=c_abi.FP32,
            rows=3,
            k=32,
            input=self.x.ctypes.data,
            input_stride=32,
            codes=self.codes.ctypes.data,
            codes_stride=16,
            scales=self.scales.ctypes.data,
            scales_bytes=512,
        )

    def run(self, op="quantize_nvfp4", **changes) -> int:
        for name, value in changes.items():
            setattr(self.params, name, value)
        return getattr(LIBRARY, f"fp4aot_{op}")(self.params)

    def check(self):
        codes, scales = reference.quantize(self.x, "nvfp4")
        assert np.array_equal(self.codes.reshape(3, 16), reference.pack_codes(codes))
        assert np.array_equal(self.scales.reshape(128, 4), reference.swizzle(scales))


def test_valid_call():
    call = Quantization()
    assert call.run() == c_abi.OK
    call.check()


@pytest.mark.parametrize("size", [0, 1, 8, ctypes.sizeof(c_abi.Quantize) - 1, ctypes.sizeof(c_abi.Quantize) // 2])
def test_struct_too_small(size):
    call = Quantization()
    assert call.run(struct_size=size) == c_abi.INVALID_ARGUMENT
    text = c_abi.error(LIBRARY)
    assert f"struct_size = {size}" in text
    assert "sizeof" in text
    assert not call.codes.any()


def larger(call: Quantization, tail: bytes) -> int:
    """The call with a struct of a newer header: `tail` behind the fields that this library knows."""
    size = ctypes.sizeof(c_abi.Quantize)
    call.params.struct_size = size + len(tail)
    memory = ctypes.create_string_buffer(bytes(call.params) + tail, size + len(tail))
    return LIBRARY.fp4aot_quantize_nvfp4(ctypes.cast(memory, ctypes.POINTER(c_abi.Quantize)))


def test_larger_struct_with_zeros_works():
    call = Quantization()
    assert larger(call, bytes(64)) == c_abi.OK
    call.check()


@pytest.mark.parametrize("position", [0, 7, 63])
def test_larger_struct_with_an_unknown_field_set(position):
    call = Quantization()
    tail = bytearray(64)
    tail[position] = 1
    assert larger(call, bytes(tail)) == c_abi.INVALID_ARGUMENT
    assert "does not know" in c_abi.error(LIBRARY) or "newer" in c_abi.error(LIBRARY)
    assert not call.codes.any()


@pytest.mark.parametrize("op", c_abi.OPS)
def test_null_params(op):
    assert getattr(LIBRARY, f"fp4aot_{op}")(None) == c_abi.INVALID_ARGUMENT
    assert op in c_abi.error(LIBRARY)
    size = ctypes.c_size_t(5)
    assert getattr(LIBRARY, f"fp4aot_{op}_workspace_size")(None, size) == c_abi.INVALID_ARGUMENT


@pytest.mark.parametrize("op", c_abi.OPS)
def test_zeroed_struct_is_refused(op):
    """All zero but struct_size: device type 0 is none, k = 0 is out of range."""
    struct = c_abi.OPS[op]
    params = struct(struct_size=ctypes.sizeof(struct))
    assert getattr(LIBRARY, f"fp4aot_{op}")(params) == c_abi.INVALID_ARGUMENT
    assert op in c_abi.error(LIBRARY)


CHANGES = {
    "input null": ({"input": None}, "input"),
    "codes null": ({"codes": None}, "codes"),
    "scales null": ({"scales": None}, "scales"),
    "scales_bytes": ({"scales_bytes": 511}, "scales.*511.*512"),
    "scales_bytes negative": ({"scales_bytes": -1}, "scales.*-1"),
    "dtype 0": ({"input_dtype": 0}, "input_dtype = 0"),
    "dtype 4": ({"input_dtype": 4}, "input_dtype = 4"),
    "rows negative": ({"rows": -1}, "rows = -1"),
    "rows absurd": ({"rows": 2**62}, "rows"),
    "k absurd": ({"k": 2**62}, "k = "),
    "stride too small": ({"input_stride": 31}, "input_stride = 31"),
    "stride negative": ({"input_stride": -32}, "input_stride = -32"),
    "stride absurd": ({"input_stride": 2**62}, "input_stride"),
    "codes_stride": ({"codes_stride": 20}, "codes_stride = 20"),
    "layout": ({"scale_layout": 2}, "scale_layout = 2"),
    "layout negative": ({"scale_layout": -1}, "scale_layout = -1"),
    "rounding": ({"rounding": 1}, "rounding = 1"),
    "flags": ({"flags": 6}, "flags = 0x6"),
    "weight": ({"weight": 4096}, "weight"),
    "residual": ({"residual": 4096}, "residual"),
    "device type": ({"device": c_abi.Device(3, 0)}, "type = 3"),
    "cpu index": ({"device": c_abi.Device(1, 1)}, "index = 1"),
    "cuda index": ({"device": c_abi.Device(2, -1)}, "index = -1"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_bad_argument(name):
    changes, pattern = CHANGES[name]
    call = Quantization()
    assert call.run(**changes) == c_abi.INVALID_ARGUMENT
    assert not call.codes.any()
    assert not call.scales.any()
    with pytest.raises(AssertionError, match=pattern):
        raise AssertionError(c_abi.error(LIBRARY))


@pytest.mark.parametrize("field", ["input", "codes", "scales", "global_scale"])
def test_misaligned(field):
    call = Quantization()
    scale = np.ones(2, np.float32)
    call.params.global_scale = scale.ctypes.data
    assert call.run(**{field: getattr(call.params, field) + 2}) == c_abi.INVALID_ARGUMENT
    assert field in c_abi.error(LIBRARY)
    assert "misaligned" in c_abi.error(LIBRARY)


def test_mxfp4_takes_no_global_scale():
    call = Quantization()
    scale = np.ones(1, np.float32)
    assert call.run("quantize_mxfp4", global_scale=scale.ctypes.data) == c_abi.INVALID_ARGUMENT
    assert "global_scale" in c_abi.error(LIBRARY)
    assert call.run("quantize_mxfp4", global_scale=None, rounding=2) == c_abi.INVALID_ARGUMENT
    assert "rounding = 2" in c_abi.error(LIBRARY)


def test_pdl_flag_is_ignored_on_the_cpu():
    call = Quantization()
    assert call.run(flags=1) == c_abi.OK
    call.check()


def test_no_rows_needs_no_pointers():
    call = Quantization()
    assert call.run(rows=0, input=None, codes=None, scales=None, scales_bytes=0) == c_abi.OK


def test_workspace_size_checks_sizes_only():
    call = Quantization()
    size = ctypes.c_size_t(77)
    call.params.input = call.params.codes = call.params.scales = None
    assert LIBRARY.fp4aot_quantize_nvfp4_workspace_size(call.params, size) == c_abi.OK
    assert size.value == 0
    call.params.k = 24
    assert LIBRARY.fp4aot_quantize_nvfp4_workspace_size(call.params, size) == c_abi.INVALID_ARGUMENT


def test_global_scale_needs_the_workspace_it_asks_for():
    x = np.random.default_rng(0).standard_normal((999, 333)).astype(np.float32)
    out = np.zeros(1, np.float32)
    params = c_abi.GlobalScale(struct_size=ctypes.sizeof(c_abi.GlobalScale), device=c_abi.CPU, input_dtype=c_abi.FP32)
    params.rows, params.k, params.input, params.input_stride = 999, 333, x.ctypes.data, 333
    params.global_scale = out.ctypes.data
    size = ctypes.c_size_t()
    assert LIBRARY.fp4aot_nvfp4_global_scale_workspace_size(params, size) == c_abi.OK
    if size.value > 0:
        assert LIBRARY.fp4aot_nvfp4_global_scale(params) == c_abi.WORKSPACE_TOO_SMALL
        assert str(size.value) in c_abi.error(LIBRARY)
    workspace = aligned(size.value)
    params.workspace, params.workspace_bytes = workspace.ctypes.data, size.value
    assert LIBRARY.fp4aot_nvfp4_global_scale(params) == c_abi.OK
    assert out[0] == reference.nvfp4_global_scale(x)


def test_last_error_belongs_to_its_thread():
    call = Quantization()
    assert call.run(k=24) == c_abi.INVALID_ARGUMENT
    seen = {}

    def other():
        seen["before"] = c_abi.error(LIBRARY)
        mine = Quantization()
        mine.run(rows=-5)
        seen["after"] = c_abi.error(LIBRARY)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen["before"] == ""
    assert "rows = -5" in seen["after"]
    assert "k = 24" in c_abi.error(LIBRARY)


@pytest.mark.parametrize("size", [2**20, 2**40, 2**63, 2**64 - 1])
def test_struct_size_is_garbage(size):
    """Refused by its value: reading so far to look for set fields could leave the caller's memory."""
    call = Quantization()
    assert call.run(struct_size=size) == c_abi.INVALID_ARGUMENT
    assert str(size) in c_abi.error(LIBRARY)


@pytest.mark.parametrize("op", ["swizzle_scales", "unswizzle_scales"])
def test_buffer_beyond_int64(op):
    """2^48 rows of 32767 columns need 2^63 bytes, which no size holds."""
    memory = aligned(1024)
    params = c_abi.ScaleLayout(
        struct_size=ctypes.sizeof(c_abi.ScaleLayout),
        device=c_abi.CPU,
        rows=2**48,
        columns=32767,
        linear=memory.ctypes.data,
        linear_stride=32767,
        swizzled=memory.ctypes.data,
        swizzled_bytes=2**63 - 1,
    )
    assert getattr(LIBRARY, f"fp4aot_{op}")(params) == c_abi.INVALID_ARGUMENT
    assert "swizzled has" in c_abi.error(LIBRARY)


def test_tactic_functions_refuse_bad_arguments():
    count = ctypes.c_size_t(4)
    name = ctypes.c_char_p()
    assert LIBRARY.fp4aot_list_tactics(999, None, None, count) == c_abi.INVALID_ARGUMENT
    assert "999" in c_abi.error(LIBRARY)
    assert LIBRARY.fp4aot_list_tactics(10, None, None, None) == c_abi.INVALID_ARGUMENT
    assert LIBRARY.fp4aot_tactic_name(10, c_abi.CPU, 12345, name) == c_abi.INVALID_ARGUMENT
    assert "12345" in c_abi.error(LIBRARY)
    assert LIBRARY.fp4aot_tactic_name(10, c_abi.CPU, 0, None) == c_abi.INVALID_ARGUMENT
    assert LIBRARY.fp4aot_image_name(c_abi.CPU, None) == c_abi.INVALID_ARGUMENT
    assert LIBRARY.fp4aot_supports(-1, c_abi.CPU) == 0


def test_image_name():
    name = ctypes.c_char_p()
    assert LIBRARY.fp4aot_image_name(c_abi.CPU, name) == c_abi.OK
    assert name.value == b"cpu"
    assert LIBRARY.fp4aot_preload(c_abi.CPU) == c_abi.OK


def test_sizes_beyond_32_bits_are_computed_exactly():
    """What a shape needs is told in full, without its memory: 2^33 rows, k = 4096, 2^41 bytes of scales."""
    rows = 2**33
    call = Quantization()
    changes = {"rows": rows, "k": 4096, "input_stride": 4096, "codes_stride": 2048}
    assert call.run(**changes) == c_abi.INVALID_ARGUMENT
    assert f"{rows * 256} are needed" in c_abi.error(LIBRARY)
    assert call.run(**changes, scale_layout=c_abi.LINEAR) == c_abi.INVALID_ARGUMENT
    assert f"{rows * 256} are needed" in c_abi.error(LIBRARY)
    gemm = c_abi.Gemm(struct_size=ctypes.sizeof(c_abi.Gemm), device=c_abi.CPU, tactic=0, m=rows, n=8, k=4096)
    gemm.a_stride = gemm.b_stride = 2048
    gemm.d_stride, gemm.d_dtype = 8, c_abi.BF16
    size, count = ctypes.c_size_t(), ctypes.c_size_t()
    assert LIBRARY.fp4aot_gemm_nvfp4_workspace_size(gemm, size) == c_abi.OK
    number = list(c_abi.OPS).index("gemm_nvfp4")
    assert LIBRARY.fp4aot_list_tactics(number, ctypes.addressof(gemm), None, count) == c_abi.OK
    memory = aligned(8192)
    gemm.a_codes = gemm.b_codes = gemm.a_scales = gemm.b_scales = gemm.d = memory.ctypes.data
    assert LIBRARY.fp4aot_gemm_nvfp4(gemm) == c_abi.INVALID_ARGUMENT
    assert f"{rows * 256} are needed" in c_abi.error(LIBRARY)
