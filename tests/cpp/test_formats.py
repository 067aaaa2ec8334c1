"""formats.h, the definition every kernel is built on, against the reference: all codes, all 16-bit values, the ties."""

import ctypes
from pathlib import Path

import installed
import numpy as np
import pytest
import reference
from reference.edge_cases import MXFP4_CASES, NVFP4_CASES

pytestmark = pytest.mark.build

BF16 = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
FP16 = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)


def around(values: np.ndarray) -> np.ndarray:
    """fp32 values with both neighbours."""
    values = np.asarray(values, np.float32)
    return np.concatenate([np.nextafter(values, np.float32(-np.inf)), values, np.nextafter(values, np.float32(np.inf))])


E2M1_TIES = (reference.E2M1[1:] + reference.E2M1[:-1]) / 2
E4M3_TIES = (reference.E4M3[1:] + reference.E4M3[:-1]) / 2
MAGNITUDES = np.abs(
    np.concatenate(
        [BF16, FP16, around(E2M1_TIES), around(E4M3_TIES), around(6 * E4M3_TIES), around(6 * reference.UE8M0[:253])]
    )
)


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    output = tmp_path_factory.mktemp("formats") / "formats_shim.so"
    return installed.load(installed.build_library(Path(__file__).with_name("formats_shim.cpp"), output))


def call(function, count: int, *arguments):
    """Calls a shim function; numpy arrays go as pointers, ints as int, the count last."""
    converted = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            converted.append(ctypes.c_void_p(argument.ctypes.data))
        elif isinstance(argument, float):
            converted.append(ctypes.c_float(argument))
        else:
            converted.append(ctypes.c_int(argument))
    function(*converted, ctypes.c_int64(count))


def test_encode_e2m1(shim):
    values = np.concatenate([BF16, FP16, around(E2M1_TIES), -around(E2M1_TIES)])
    codes = np.zeros(values.size, np.uint8)
    call(shim.e2m1_encode, values.size, values, codes)
    nan = np.isnan(values)
    assert np.array_equal(codes[~nan], reference.encode_e2m1(values[~nan]))
    assert (codes[nan] == 7).all()


def test_encode_e4m3(shim):
    scales = np.zeros(MAGNITUDES.size, np.uint8)
    call(shim.e4m3_encode, MAGNITUDES.size, MAGNITUDES, scales)
    assert np.array_equal(scales, reference.encode_e4m3(MAGNITUDES))


@pytest.mark.parametrize(
    ("number", "count", "decode"), [(0, 16, "decode_e2m1"), (1, 128, "decode_e4m3"), (2, 256, "decode_ue8m0")]
)
def test_decode_every_code(shim, number, count, decode):
    codes = np.arange(count, dtype=np.uint8)
    values = np.zeros(count, np.float32)
    call(shim.decode, count, number, codes, values)
    expected = getattr(reference, decode)(codes)
    assert np.array_equal(values, expected, equal_nan=True)
    assert np.array_equal(np.signbit(values), np.signbit(expected))


@pytest.mark.parametrize(
    "global_scale", [1.0, 896.0, 0.37, 2.0**100, 2.0**-100, 2.0**120, 2.0**-130, 0.0, -1.0, np.inf, np.nan]
)
def test_nvfp4_block_scale(shim, global_scale):
    byte, poisoned = np.zeros(MAGNITUDES.size, np.uint8), np.zeros(MAGNITUDES.size, np.uint8)
    factor = np.zeros(MAGNITUDES.size, np.float32)
    call(shim.nvfp4_scale, MAGNITUDES.size, MAGNITUDES, float(global_scale), byte, poisoned, factor)
    blocks = np.zeros((MAGNITUDES.size, 16), np.float32)
    blocks[:, 5] = MAGNITUDES
    codes, scales = reference.quantize(blocks, "nvfp4", global_scale)
    assert np.array_equal(byte, scales[:, 0])
    usable = np.isfinite(MAGNITUDES) & bool(np.isfinite(global_scale) and global_scale > 0)
    assert np.array_equal(poisoned != 0, ~usable)
    assert np.isfinite(factor).all(), "0 * factor must stay 0"
    with np.errstate(over="ignore"):
        assert np.array_equal(reference.encode_e2m1(MAGNITUDES[usable] * factor[usable]), codes[usable, 5])


@pytest.mark.parametrize("rounding", ["ceil", "floor"])
def test_mxfp4_block_scale(shim, rounding):
    byte, poisoned = np.zeros(MAGNITUDES.size, np.uint8), np.zeros(MAGNITUDES.size, np.uint8)
    factor = np.zeros(MAGNITUDES.size, np.float32)
    call(shim.mxfp4_scale, MAGNITUDES.size, MAGNITUDES, int(rounding == "floor"), byte, poisoned, factor)
    blocks = np.zeros((MAGNITUDES.size, 32), np.float32)
    blocks[:, 7] = MAGNITUDES
    _, scales = reference.quantize(blocks, "mxfp4", rounding=rounding)
    assert np.array_equal(byte, scales[:, 0])
    usable = np.isfinite(MAGNITUDES)
    assert np.array_equal(poisoned != 0, ~usable)
    assert np.array_equal(factor[usable].astype(np.float64), 2.0 ** (127.0 - byte[usable]))
    if rounding == "ceil":  # from the definition: covered by this scale and not by the next smaller one
        wide, scale = MAGNITUDES[usable].astype(np.float64), 2.0 ** (byte[usable] - 127.0)
        assert (wide <= 6 * scale).all()
        assert ((wide > 3 * scale) | (byte[usable] == 0)).all()


def test_edge_cases_by_formats_h(shim):
    """The table holds for formats.h itself, without any kernel."""
    for case in NVFP4_CASES:
        assert _block(shim, case, 16, lambda amax, out, case=case: (shim.nvfp4_scale, amax, case.global_scale, *out)), (
            case.name
        )
    for case in MXFP4_CASES:
        for floor in (0, 1):
            if case.rounding in ("both", ("ceil", "floor")[floor]):
                assert _block(shim, case, 32, lambda amax, out, floor=floor: (shim.mxfp4_scale, amax, floor, *out)), (
                    case.name
                )


def _block(shim, case, vector, scale_call) -> bool:
    values = np.zeros(vector, np.float32)
    values[: len(case.values)] = case.values
    amax = np.abs(values).max(keepdims=True)
    byte, poisoned, factor = np.zeros(1, np.uint8), np.zeros(1, np.uint8), np.zeros(1, np.float32)
    function, *arguments = scale_call(amax, (byte, poisoned, factor))
    call(function, 1, *arguments)
    codes = np.zeros(vector, np.uint8)
    if not poisoned[0]:
        with np.errstate(over="ignore"):
            scaled = values * factor[0]
        call(shim.e2m1_encode, vector, scaled, codes)
    return byte[0] == case.scale and tuple(codes[: len(case.codes)]) == case.codes


def test_nvfp4_global_scale(shim):
    amax = MAGNITUDES[np.isfinite(MAGNITUDES)]
    scales = np.zeros(amax.size, np.float32)
    call(shim.global_scale_of, amax.size, amax, scales)
    expected = np.array([reference.nvfp4_global_scale(value) for value in amax], np.float32)
    assert np.array_equal(scales, expected)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (128, 4), (129, 5), (384, 448), (1000, 7)])
def test_scale_offset(shim, rows, columns):
    out = np.zeros((rows, columns), np.int64)
    shim.offsets(ctypes.c_int64(rows), ctypes.c_int64(columns), ctypes.c_void_p(out.ctypes.data))
    expected = [[reference.offset(row, column, columns) for column in range(columns)] for row in range(rows)]
    assert np.array_equal(out, expected)
