"""W4A16 through the C ABI: sizes of prepared weights, prepare, restore, product, and what each refuses."""

import ctypes

import c_abi
import numpy as np
import pytest
import reference

LIBRARY = c_abi.load()
NUMBERS = {name: number for number, name in enumerate(c_abi.OPS)}
FORMATS = ["nvfp4", "mxfp4"]


def aligned(size: int) -> np.ndarray:
    """uint8 memory at a multiple of 64 bytes, with a pattern in it."""
    memory = np.full(size + 64, 0xA5, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


def copied(values: np.ndarray) -> np.ndarray:
    memory = aligned(values.nbytes)
    memory[:] = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
    return memory


def prepared_bytes(op: str, n: int, k: int) -> tuple[int, int]:
    size = ctypes.c_int64(-1)
    return LIBRARY.fp4aot_w4a16_prepared_bytes(NUMBERS[op], n, k, size), size.value


class Weights:
    """Codes and scales [n, k], and a valid call of prepare_* and restore_*."""

    def __init__(self, format: str, n: int, k: int, layout: int = c_abi.LINEAR):
        rng = np.random.default_rng(n + k)
        vector = reference.VECTOR[format]
        self.format = format
        self.codes = rng.integers(0, 16, (n, k)).astype(np.uint8)
        self.scales = rng.integers(0, 0x7F if format == "nvfp4" else 150, (n, k // vector)).astype(np.uint8)
        self.packed = copied(reference.pack_codes(self.codes))
        linear = layout == c_abi.LINEAR
        self.layout = copied(self.scales if linear else reference.swizzle(self.scales))
        self.prepared = aligned(prepared_bytes(f"gemm_w4a16_{format}", n, k)[1])
        self.params = c_abi.W4a16Weights(
            struct_size=ctypes.sizeof(c_abi.W4a16Weights),
            device=c_abi.CPU,
            scale_layout=layout,
            n=n,
            k=k,
            codes=self.packed.ctypes.data,
            codes_stride=k // 2,
            scales=self.layout.ctypes.data,
            scales_stride=k // vector if linear else 0,
            scales_bytes=self.layout.size,
            prepared=self.prepared.ctypes.data,
            prepared_bytes=self.prepared.size,
        )

    def run(self, kind: str, **changes) -> int:
        for name, value in changes.items():
            setattr(self.params, name, value)
        return getattr(LIBRARY, f"fp4aot_{kind}_w4a16_{self.format}")(self.params)


class Product:
    """A valid gemm_w4a16_nvfp4 call of [3, 48] and [8, 48], from prepared bytes of the reference."""

    def __init__(self):
        self.weights = Weights("nvfp4", 8, 48)
        self.a = copied(np.random.default_rng(0).standard_normal((3, 48)).astype(np.float16))
        self.prepared = copied(reference.prepare_w4a16(self.weights.codes, self.weights.scales, "nvfp4"))
        self.d = aligned(3 * 8 * 4)
        self.params = c_abi.GemmW4a16(
            struct_size=ctypes.sizeof(c_abi.GemmW4a16),
            device=c_abi.CPU,
            m=3,
            n=8,
            k=48,
            a=self.a.ctypes.data,
            a_stride=48,
            a_dtype=c_abi.FP16,
            d_dtype=c_abi.FP32,
            prepared=self.prepared.ctypes.data,
            prepared_bytes=self.prepared.size,
            d=self.d.ctypes.data,
            d_stride=8,
        )

    def run(self, **changes) -> int:
        for name, value in changes.items():
            setattr(self.params, name, value)
        return LIBRARY.fp4aot_gemm_w4a16_nvfp4(self.params)


@pytest.mark.parametrize(
    ("format", "n", "k", "expected"),
    # A tile of 16 rows x 64 k has 512 bytes of codes and 64 (NVFP4) or 32 (MXFP4) of scales.
    [
        ("nvfp4", 8, 16, 576),
        ("nvfp4", 16, 64, 576),
        ("nvfp4", 24, 80, 2 * 2 * 576),
        ("nvfp4", 4096, 7168, 4096 * 7168 * 9 // 16),
        ("mxfp4", 8, 32, 544),
        ("mxfp4", 4096, 7168, 4096 * 7168 * 17 // 32),
        ("mxfp4", 2**40, 2**20, 2**60 * 17 // 32),
    ],
)
def test_prepared_bytes(format, n, k, expected):
    for kind in ("prepare", "restore", "gemm"):
        assert prepared_bytes(f"{kind}_w4a16_{format}", n, k) == (c_abi.OK, expected)


@pytest.mark.parametrize(
    ("op", "n", "k", "text"),
    [
        ("gemm_w4a16_nvfp4", 12, 16, "n = 12"),
        ("gemm_w4a16_nvfp4", 0, 16, "n = 0"),
        ("gemm_w4a16_nvfp4", -8, 16, "n = -8"),
        ("gemm_w4a16_nvfp4", 8, 24, "k = 24"),
        ("gemm_w4a16_mxfp4", 8, 48, "multiple of 32"),
        ("gemm_w4a16_nvfp4", 2**48, 2**48, "2^63 bytes"),
        ("gemm_w4a16_nvfp4", 2**62, 16, "2^48"),
        ("gemm_nvfp4", 8, 32, "w4a16"),
    ],
)
def test_prepared_bytes_refuses(op, n, k, text):
    assert prepared_bytes(op, n, k) == (c_abi.INVALID_ARGUMENT, -1)
    assert text in c_abi.error(LIBRARY)
    assert LIBRARY.fp4aot_w4a16_prepared_bytes(NUMBERS["gemm_w4a16_nvfp4"], 8, 16, None) == c_abi.INVALID_ARGUMENT
    assert "bytes is NULL" in c_abi.error(LIBRARY)


@pytest.mark.parametrize("layout", [c_abi.SWIZZLED, c_abi.LINEAR])
@pytest.mark.parametrize(("n", "k"), [(8, 32), (40, 96), (136, 448)])
@pytest.mark.parametrize("format", FORMATS)
def test_prepare_and_restore(format, n, k, layout):
    weights = Weights(format, n, k, layout)
    assert weights.run("prepare") == c_abi.OK
    assert np.array_equal(weights.prepared, reference.prepare_w4a16(weights.codes, weights.scales, format))
    codes, scales = aligned(weights.packed.size), aligned(weights.layout.size)
    assert weights.run("restore", codes=codes.ctypes.data, scales=scales.ctypes.data) == c_abi.OK
    assert np.array_equal(codes, weights.packed)
    assert np.array_equal(scales, weights.layout)  # swizzled padding too: zero


def test_rows_of_codes_and_scales_may_be_strided():
    weights = Weights("nvfp4", 24, 48)
    codes, scales = aligned(24 * 40), aligned(24 * 5)
    codes.reshape(24, 40)[:, :24] = weights.packed.reshape(24, 24)
    scales.reshape(24, 5)[:, :3] = weights.scales
    pointers = {"codes": codes.ctypes.data, "scales": scales.ctypes.data}
    strides = {"codes_stride": 40, "scales_stride": 5, "scales_bytes": 23 * 5 + 3}
    assert weights.run("prepare", **pointers, **strides) == c_abi.OK
    assert np.array_equal(weights.prepared, reference.prepare_w4a16(weights.codes, weights.scales, "nvfp4"))
    codes[:], scales[:] = 0xA5, 0xA5
    assert weights.run("restore") == c_abi.OK
    assert np.array_equal(codes.reshape(24, 40)[:, :24], weights.packed.reshape(24, 24))
    assert np.array_equal(scales.reshape(24, 5)[:, :3], weights.scales)
    assert (codes.reshape(24, 40)[:, 24:] == 0xA5).all()
    assert (scales.reshape(24, 5)[:, 3:] == 0xA5).all()


def test_scale_bytes_that_are_no_scales_become_nan():
    weights = Weights("nvfp4", 128, 64)
    weights.layout[:] = np.tile(np.arange(256), 2).astype(np.uint8)
    assert weights.run("prepare") == c_abi.OK
    assert weights.run("restore") == c_abi.OK
    assert np.array_equal(weights.layout, np.minimum(np.tile(np.arange(256), 2), 0x7F))


def test_product():
    call = Product()
    assert call.run() == c_abi.OK
    a = call.a.view(np.float16).reshape(3, 48).astype(np.float64)
    weights = reference.dequantize(call.weights.codes, call.weights.scales, "nvfp4")
    reference.assert_product(call.d.view(np.float32).reshape(3, 8), reference.product(a, weights), 48, "fp32")


WEIGHTS = {
    "codes null": ({"codes": None}, "codes is NULL"),
    "scales null": ({"scales": None}, "scales is NULL"),
    "prepared null": ({"prepared": None}, "prepared is NULL"),
    "prepared too small": ({"prepared_bytes": 575}, "prepared has 575 bytes; 576 are needed"),
    "scales too small": ({"scales_bytes": 23}, "scales has 23 bytes; 24 are needed"),
    "scales negative": ({"scales_bytes": -1}, "scales has -1"),
    "n": ({"n": 12}, "n = 12"),
    "n zero": ({"n": 0}, "n = 0"),
    "k": ({"k": 40}, "k = 40"),
    "k absurd": ({"k": 2**62}, "k = "),
    "n absurd": ({"n": 2**62}, "n = "),
    "product of sizes": ({"n": 2**48, "k": 2**48, "codes_stride": 2**47}, "2^63"),
    "codes_stride small": ({"codes_stride": 16}, "codes_stride = 16"),
    "codes_stride odd": ({"codes_stride": 28}, "codes_stride = 28"),
    "scales_stride small": ({"scales_stride": 2}, "scales_stride = 2"),
    "scales_stride absurd": ({"scales_stride": 2**62}, "scales_stride"),
    "layout": ({"scale_layout": 2}, "scale_layout = 2"),
    "stride of swizzled": ({"scale_layout": 0}, "scales_stride = 3"),
    "flags": ({"flags": 2}, "flags = 0x2"),
    "device": ({"device": c_abi.Device(3, 0)}, "type = 3"),
}


@pytest.mark.parametrize("kind", ["prepare", "restore"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_bad_weights(kind, name):
    changes, text = WEIGHTS[name]
    weights = Weights("nvfp4", 8, 48)
    before = weights.prepared.copy(), weights.packed.copy(), weights.layout.copy()
    assert weights.run(kind, **changes) == c_abi.INVALID_ARGUMENT
    assert text in c_abi.error(LIBRARY)
    assert f"{kind}_w4a16_nvfp4" in c_abi.error(LIBRARY) or name == "device"
    for memory, old in zip((weights.prepared, weights.packed, weights.layout), before, strict=True):
        assert np.array_equal(memory, old)


@pytest.mark.parametrize(("field", "offset"), [("codes", 4), ("prepared", 8)])
def test_misaligned_weights(field, offset):
    weights = Weights("mxfp4", 8, 32)
    assert weights.run("prepare", **{field: getattr(weights.params, field) + offset}) == c_abi.INVALID_ARGUMENT
    assert f"{field} = " in c_abi.error(LIBRARY)
    assert "misaligned" in c_abi.error(LIBRARY)


PRODUCT = {
    "a null": ({"a": None}, "a is NULL"),
    "prepared null": ({"prepared": None}, "prepared is NULL"),
    "d null": ({"d": None}, "d is NULL"),
    "prepared too small": ({"prepared_bytes": 100}, "prepared has 100 bytes; 576 are needed"),
    "n": ({"n": 10}, "n = 10"),
    "n beyond prepared": ({"n": 24, "d_stride": 24}, "1152 are needed"),
    "k": ({"k": 40}, "k = 40"),
    "k beyond prepared": ({"k": 80, "a_stride": 80}, "1152 are needed"),
    "m negative": ({"m": -1}, "m = -1"),
    "a_dtype fp32": ({"a_dtype": c_abi.FP32}, "a_dtype = 3"),
    "a_dtype zero": ({"a_dtype": 0}, "a_dtype = 0"),
    "d_dtype": ({"d_dtype": 4}, "d_dtype = 4"),
    "bias_dtype": ({"bias": 4096, "bias_dtype": 0}, "bias_dtype = 0"),
    "a_stride small": ({"a_stride": 40}, "a_stride = 40"),
    "a_stride odd": ({"a_stride": 50}, "a_stride = 50"),
    "a_stride absurd": ({"a_stride": 2**62}, "a_stride"),
    "d_stride": ({"d_stride": 7}, "d_stride = 7"),
    "flags": ({"flags": 4}, "flags = 0x4"),
    "tactic": ({"tactic": 9999}, "tactic = 9999"),
    "tactic negative": ({"tactic": -1}, "tactic = -1"),
}


@pytest.mark.parametrize("name", PRODUCT)
def test_bad_product(name):
    changes, text = PRODUCT[name]
    call = Product()
    assert call.run(**changes) == c_abi.INVALID_ARGUMENT
    assert text in c_abi.error(LIBRARY)
    assert "gemm_w4a16_nvfp4" in c_abi.error(LIBRARY)
    assert (call.d == 0xA5).all()


@pytest.mark.parametrize(("field", "offset"), [("a", 8), ("prepared", 8), ("alpha", 2), ("bias", 2), ("d", 2)])
def test_misaligned_product(field, offset):
    call = Product()
    one = np.ones(16, np.float32)
    call.params.alpha = call.params.bias = one.ctypes.data
    call.params.bias_dtype = c_abi.FP32
    assert call.run(**{field: getattr(call.params, field) + offset}) == c_abi.INVALID_ARGUMENT
    assert f"{field} = " in c_abi.error(LIBRARY)
    assert "misaligned" in c_abi.error(LIBRARY)
    assert (call.d == 0xA5).all()


def test_no_rows_need_no_pointers():
    assert Product().run(m=0, a=None, prepared=None, prepared_bytes=0, d=None) == c_abi.OK
