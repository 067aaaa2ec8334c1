"""NumPy arrays that do not fit are refused in a sentence, never read as if they did; what lies beside them works."""

import re

import fp4aot
import ml_dtypes
import numpy as np
import pytest
import reference
import torch

E4M3, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu


def x(rows=4, columns=64):
    return np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)


def quantized(format="nvfp4", rows=4, k=64, **options):
    return getattr(fp4aot, f"quantize_{format}")(x(rows, k), **options)


def operands(format="nvfp4", changed=None, value=None):
    (a, a_scales), (b, b_scales) = quantized(format), quantized(format, rows=16)
    arguments = [a, b, a_scales, b_scales]
    if changed is not None:
        arguments[changed] = value(arguments[changed])
    return arguments


def codes(rows=4, columns=32):
    return np.zeros((rows, columns), np.uint8)


def scales(*shape):
    return np.zeros(shape, np.uint8)


def masked():
    return np.ma.masked_array(x(), mask=x() > 1)


def one_buffer():
    """Codes of 4 x 64 and swizzled scales that share their last and first bytes."""
    buffer = np.zeros(128 + 512 - 16, np.uint8)
    return buffer[:128].reshape(4, 32), buffer[112:].reshape(128, 4)


ONE = np.ones(64, np.float32)

# name: (call, pieces of text that the message must hold)
CASES = {
    # Types that are one byte wide.
    "e4m3 scales of mxfp4": (
        lambda: fp4aot.gemm_mxfp4(*operands("mxfp4", 2, lambda s: s.view(E4M3))),
        ["a_scales", "float8_e4m3fn", "ml_dtypes.float8_e8m0fnu"],
    ),
    "e8m0 scales of nvfp4": (
        lambda: fp4aot.gemm_nvfp4(*operands(changed=3, value=lambda s: s.view(E8M0))),
        ["b_scales", "float8_e8m0fnu", "ml_dtypes.float8_e4m3fn"],
    ),
    "e5m2 scales": (
        lambda: fp4aot.dequantize_nvfp4(codes(), scales(128, 4).view(ml_dtypes.float8_e5m2)),
        ["scales", "float8_e5m2", "uint8"],
    ),
    "e5m2 scales to swizzle": (
        lambda: fp4aot.swizzle_scales(scales(128, 4).view(ml_dtypes.float8_e5m2)),
        ["scales", "float8_e5m2", "uint8"],
    ),
    "out scales of the other format": (
        lambda: fp4aot.quantize_mxfp4(x(), out=(codes(), scales(128, 4).view(E4M3))),
        ["scales", "float8_e4m3fn", "e8m0fnu"],
    ),
    "bytes as codes": (lambda: fp4aot.dequantize_nvfp4(codes().view("S1"), scales(128, 4)), ["codes", "S1", "uint8"]),
    "e4m3 as codes": (
        lambda: fp4aot.gemm_nvfp4(*operands(changed=0, value=lambda a: a.view(E4M3))),
        ["a has", "float8_e4m3fn", "uint8"],
    ),
    "float4 as codes": (
        lambda: fp4aot.dequantize_nvfp4(np.zeros((4, 64), ml_dtypes.float4_e2m1fn), scales(128, 4)),
        ["codes", "float4_e2m1fn", "uint8", "two"],
    ),
    # Linear scales.
    "linear scales of other columns": (
        lambda: fp4aot.dequantize_nvfp4(codes(8), scales(4, 8), scale_layout="linear"),
        [r"\(4, 8\)", r"\[8, 4\]", "linear"],
    ),
    "swizzled scales given for linear": (
        lambda: fp4aot.dequantize_nvfp4(codes(8), scales(128, 4), scale_layout="linear"),
        [r"\(128, 4\)", r"\[8, 4\]", "swizzled"],
    ),
    "out of linear scales": (
        lambda: fp4aot.quantize_nvfp4(x(), out=(codes(), scales(128, 4)), scale_layout="linear"),
        [r"\(128, 4\)", r"\[4, 4\]"],
    ),
    "linear scales too few bytes": (
        lambda: fp4aot.dequantize_nvfp4(codes(), scales(15), scale_layout="linear"),
        ["15", "16"],
    ),
    # Memory.
    "residual is x": (lambda: (lambda a: fp4aot.rmsnorm_quantize_nvfp4(a, ONE, residual=a))(x()), ["residual", "x "]),
    "outputs overlap": (lambda: fp4aot.quantize_nvfp4(x(), out=one_buffer()), ["codes", "scales", "overlap"]),
    "out within x": (
        lambda: (lambda a: fp4aot.quantize_nvfp4(a, out=(a[:2].view(np.uint8).reshape(4, -1)[:, :32], scales(128, 4))))(
            x()
        ),
        ["overlaps x", "codes"],
    ),
    "global scale within x": (
        lambda: (lambda a: fp4aot.nvfp4_global_scale(a, out=a[0, :1]))(x()),
        ["out overlaps x"],
    ),
    "swizzled onto itself": (
        lambda: (lambda s: fp4aot.swizzle_scales(s, out=s))(scales(128, 4)),
        ["out overlaps scales"],
    ),
    # Kinds of arrays.
    "masked": (lambda: fp4aot.quantize_nvfp4(masked()), ["masked", "filled"]),
    "masked global": (lambda: fp4aot.nvfp4_global_scale(masked()), ["masked", "filled"]),
    "out is a list": (
        lambda: fp4aot.nvfp4_global_scale(x(), out=[np.float32(0)]),
        ["out is a builtins.list", "NumPy array"],
    ),
    "out is a number": (lambda: fp4aot.nvfp4_global_scale(x(), out=np.float32(0)), ["out is a numpy.float32"]),
    "out is one array": (lambda: fp4aot.quantize_nvfp4(x(), out=codes()), ["ndarray", r"\(codes, scales\)"]),
    "out of None": (lambda: fp4aot.quantize_nvfp4(x(), out=(None, scales(128, 4))), ["codes", "NoneType"]),
    "list for alpha": (lambda: fp4aot.gemm_nvfp4(*operands(), [1.0]), ["alpha is a builtins.list", "NumPy array"]),
    "tensor among arrays": (
        lambda: fp4aot.gemm_nvfp4(*operands(changed=1, value=torch.from_numpy)),
        ["b is a torch.Tensor", "first argument is a NumPy array", "tensor.numpy"],
    ),
    "no weight": (lambda: fp4aot.rmsnorm_quantize_nvfp4(x(), None), ["weight", "NoneType"]),
    # Integers that C would truncate.
    "tactic of 32 bits": (lambda: fp4aot.gemm_nvfp4(*operands(), tactic=2**32 - 1), ["tactic = 4294967295", "range"]),
    "tactic 2**32": (lambda: fp4aot.gemm_nvfp4(*operands(), tactic=2**32), ["tactic = 4294967296", "range"]),
    "tactic 1.5": (lambda: fp4aot.gemm_nvfp4(*operands(), tactic=1.5), ["tactic is 1.5", "integer"]),
    "tactic that is not there": (lambda: fp4aot.gemm_nvfp4(*operands(), tactic=9999), ["tactic = 9999"]),
    "m of list_tactics": (
        lambda: fp4aot.list_tactics("gemm_nvfp4", 2**64 + 8, 8, 32, "cpu"),
        ["m = 18446744073709551624", "range"],
    ),
    "k of list_tactics": (lambda: fp4aot.default_tactic("gemm_nvfp4", 8, 8, "32", "cpu"), ["k is '32'", "integer"]),
    "cuda index": (lambda: fp4aot.image_name("cuda:4294967296"), ["cuda:4294967296", "32 bits"]),
    "device number": (lambda: fp4aot.image_name(2**32), ["4294967296", "32 bits"]),
    "cpu index": (lambda: fp4aot.image_name("cpu:5"), ["cpu:5", "one CPU"]),
    "cpu colon": (lambda: fp4aot.image_name("cpu:"), ["'cpu:'", "not known"]),
    "unswizzle rows": (lambda: fp4aot.unswizzle_scales(scales(128, 4), 2**50, 4), ["512", "rows = 1125899906842624"]),
    "unswizzle rows 1.5": (lambda: fp4aot.unswizzle_scales(scales(128, 4), 1.5, 4), ["rows is 1.5", "integer"]),
    "op of list_tactics": (lambda: fp4aot.list_tactics([], 8, 8, 32, "cpu"), [r"\[\] is not an op", "gemm_nvfp4"]),
    # Options.
    "epsilon": (lambda: fp4aot.rmsnorm_quantize_nvfp4(x(), ONE, epsilon="1"), ["epsilon is '1'", "float"]),
    "huge global_scale": (lambda: fp4aot.quantize_nvfp4(x(), 10**400), ["global_scale", "float32"]),
    "out_dtype": (lambda: fp4aot.gemm_nvfp4(*operands(), out_dtype="garbage"), ["out_dtype is 'garbage'", "float32"]),
    "out_dtype of torch": (
        lambda: fp4aot.gemm_nvfp4(*operands(), out_dtype=torch.float32),
        ["torch.float32", "NumPy", "numpy.float32"],
    ),
    "dtype": (lambda: fp4aot.dequantize_mxfp4(codes(), scales(128, 4), dtype=np.float64), ["dtype", "float64"]),
    "dtype swapped": (lambda: fp4aot.dequantize_mxfp4(codes(), scales(128, 4), dtype=">f4"), ["native"]),
    "scale_layout": (lambda: fp4aot.quantize_nvfp4(x(), scale_layout=[]), [r"\[\]", "'swizzled'", "'linear'"]),
    "rounding": (lambda: fp4aot.quantize_mxfp4(x(), rounding={}), [r"\{\}", "'ceil'"]),
    # Strides.
    "broadcast": (
        lambda: fp4aot.quantize_nvfp4(np.broadcast_to(ONE, (4, 64))),
        ["0 elements apart", "at least 64", "ascontiguousarray"],
    ),
    "backwards": (lambda: fp4aot.quantize_nvfp4(x()[::-1]), ["-64 elements apart", "backwards", "ascontiguousarray"]),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name):
    call, pieces = CASES[name]
    text = ""
    try:
        call()
    except (ValueError, TypeError) as error:
        text = str(error)
    missing = [piece for piece in pieces if not re.search(piece, text)]
    assert not missing, f"the message lacks {missing}: {text}"
    assert text.endswith((".", ")")), f"not a sentence: {text}"


@pytest.mark.parametrize(("format", "dtype"), [("nvfp4", E4M3), ("mxfp4", E8M0)])
def test_the_format_s_own_dtype(format, dtype):
    """Scales as ml_dtypes arrays are the same as their bytes."""
    a, b, a_scales, b_scales = operands(format)
    gemm = getattr(fp4aot, f"gemm_{format}")
    typed = gemm(a, b, a_scales.view(dtype), b_scales.view(dtype))
    assert np.array_equal(typed, gemm(a, b, a_scales, b_scales))
    values = getattr(fp4aot, f"dequantize_{format}")(a, a_scales.view(dtype))
    other = getattr(fp4aot, f"dequantize_{format}")(b, b_scales.view(dtype))
    assert np.allclose(typed, values.astype(np.float64) @ other.astype(np.float64).T, rtol=1e-5, atol=1e-5)
    swizzled = fp4aot.swizzle_scales(fp4aot.unswizzle_scales(a_scales.view(dtype), 4, a_scales.shape[1] // 2 * 2))
    assert swizzled.dtype == dtype


def test_linear_layout():
    """Rows that match, in any number of dimensions, or a flat buffer with room to spare."""
    values = x(6).reshape(2, 3, 64)
    want_codes, want = reference.quantize(values.reshape(6, 64), "nvfp4")
    out = np.zeros((2, 3, 32), np.uint8), np.full(30, 7, np.uint8)
    fp4aot.quantize_nvfp4(values, out=out, scale_layout="linear")
    assert np.array_equal(out[0].reshape(6, 32), reference.pack_codes(want_codes))
    assert np.array_equal(out[1][:24].reshape(6, 4), want)
    assert (out[1][24:] == 7).all()
    back = fp4aot.dequantize_nvfp4(out[0], want.reshape(2, 3, 4), scale_layout="linear")
    assert np.array_equal(back, fp4aot.dequantize_nvfp4(out[0], want, scale_layout="linear"))
    assert np.array_equal(back, fp4aot.dequantize_nvfp4(out[0], reference.swizzle(want)))


def test_outputs_side_by_side():
    """Interleaved in one buffer but without a byte in common: allowed."""
    buffer = np.zeros((4, 48), np.uint8)
    out = buffer[:, :32], np.zeros((128, 4), np.uint8)
    inputs = np.zeros((4, 96), np.float32)
    inputs[:, :64] = x()
    fp4aot.quantize_nvfp4(inputs[:, :64], out=out)
    assert np.array_equal(out[0], quantized()[0])
    wide = np.zeros((4, 64 + 32), np.float32)
    wide[:, :64] = x()
    codes_view = wide.view(np.uint8)[:, 64 * 4 :][:, :32]
    fp4aot.quantize_nvfp4(wide[:, :64], out=(codes_view, out[1]))
    assert np.array_equal(codes_view, quantized()[0])


def test_global_scale_out():
    out = np.zeros(1, np.float32)
    assert fp4aot.nvfp4_global_scale(x(), out=out) is out
    assert out[0] == reference.nvfp4_global_scale(x())


@pytest.mark.parametrize("alpha", [0.5, np.float32(0.5), np.full(1, 0.5, np.float32), np.float64(0.5)])
def test_alpha(alpha):
    arguments = operands()
    assert np.array_equal(fp4aot.gemm_nvfp4(*arguments, alpha), fp4aot.gemm_nvfp4(*arguments) / 2)


@pytest.mark.parametrize("dtype", [None, np.float16, "float16", np.dtype(np.float32), ml_dtypes.bfloat16])
def test_output_dtypes(dtype):
    out = fp4aot.gemm_nvfp4(*operands(), out_dtype=dtype, tactic=0)
    assert out.dtype == (np.float32 if dtype is None else dtype)
    assert np.allclose(out.astype(np.float32), fp4aot.gemm_nvfp4(*operands()), rtol=1e-2, atol=1e-2)


def test_devices_that_are_known():
    for device in ("cpu", "cpu:0", torch.device("cpu"), torch.device("cpu:0")):
        assert fp4aot.image_name(device) == "cpu"


def test_default_tactic_is_the_zero():
    numbers = [number for number, _ in fp4aot.list_tactics("gemm_nvfp4", 8, 8, 32, "cpu")]
    assert 0 not in numbers
    assert fp4aot.default_tactic("gemm_nvfp4", 8, 8, 32, "cpu") in [0, *numbers]
