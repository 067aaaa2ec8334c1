"""Every bad argument is refused before anything is written, in a sentence: what was given, what is allowed, the fix."""

import re

import fp4aot
import numpy as np
import pytest
import torch
from operands import Operand

BF16, FP16, FP32, FP64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def x(rows=4, columns=64, dtype=BF16):
    return torch.ones(rows, columns, dtype=dtype)


def operands(format="nvfp4", m=4, n=16, k=64):
    rng = np.random.default_rng(0)
    a, b = Operand(rng, m, k, format, "cpu"), Operand(rng, n, k, format, "cpu")
    return [a.packed, b.packed, a.swizzled(), b.swizzled()]


def replaced(index, value, **options):
    arguments = operands(**options)
    arguments[index] = value(arguments[index])
    return arguments


def codes(rows=4, columns=32):
    return torch.zeros(rows, columns, dtype=torch.uint8)


def e4m3(*shape):
    return torch.zeros(shape, dtype=torch.uint8).view(torch.float8_e4m3fn)


# name: (call, pieces of text that the message must hold, in any order)
CASES = {
    # Sizes.
    "k of quantize_nvfp4": (
        lambda: fp4aot.quantize_nvfp4(x(columns=24)),
        ["quantize_nvfp4", "k = 24", "multiple of 16", "Pad"],
    ),
    "k of quantize_mxfp4": (
        lambda: fp4aot.quantize_mxfp4(x(columns=48)),
        ["quantize_mxfp4", "k = 48", "multiple of 32", "Pad"],
    ),
    "k of zero": (lambda: fp4aot.quantize_nvfp4(x(columns=0)), ["k = 0", "at least 16"]),
    "columns of silu_mul": (lambda: fp4aot.silu_mul_quantize_nvfp4(x(columns=33)), ["33", "gate", "up"]),
    "k of silu_mul": (lambda: fp4aot.silu_mul_quantize_mxfp4(x(columns=96)), ["k = 48", "multiple of 32"]),
    "k of gemm": (lambda: fp4aot.gemm_nvfp4(*operands(k=48)), ["gemm_nvfp4", "k = 48", "multiple of 32"]),
    "n of gemm": (lambda: fp4aot.gemm_nvfp4(*operands(n=12)), ["gemm_nvfp4", "n = 12", "multiple of 8"]),
    "k of a and b": (
        lambda: fp4aot.gemm_nvfp4(*replaced(1, lambda b: torch.zeros(16, 64, dtype=torch.uint8))),
        ["32", "64", "K/2"],
    ),
    "rank of b": (lambda: fp4aot.gemm_nvfp4(*replaced(1, lambda b: b[None])), ["b", "two dimensions", "3"]),
    # Types.
    "float for alpha": (
        lambda: fp4aot.gemm_nvfp4(*operands(), 0.5),
        ["gemm_nvfp4", "alpha is a builtins.float", r"torch.tensor\(0.5"],
    ),
    "float for global_scale": (
        lambda: fp4aot.quantize_nvfp4(x(), 2.0),
        ["quantize_nvfp4", "global_scale is a builtins.float", r"torch.tensor\(2.0"],
    ),
    "array among tensors": (lambda: fp4aot.gemm_nvfp4(*replaced(1, np.asarray)), ["b is a numpy.ndarray", "Tensor"]),
    "name of a dtype": (
        lambda: fp4aot.gemm_nvfp4(*operands(), out_dtype="float32"),
        ["'float32'", "bfloat16", "float16"],
    ),
    "one output of two": (lambda: fp4aot.quantize_nvfp4(x(), out=(codes(),)), ["1 tensor", r"\(codes, scales\)"]),
    "input dtype": (lambda: fp4aot.quantize_nvfp4(x(dtype=FP64)), ["float64", "bfloat16", "float16", "float32"]),
    "input integer": (lambda: fp4aot.quantize_mxfp4(x(dtype=torch.int32)), ["int32", "bfloat16"]),
    "codes dtype": (lambda: fp4aot.gemm_nvfp4(*replaced(0, lambda a: a.to(torch.int8))), ["a", "uint8", "int8"]),
    "out_dtype": (lambda: fp4aot.gemm_nvfp4(*operands(), out_dtype=FP64), ["out_dtype", "float64", "bfloat16"]),
    "dtype of dequantize": (
        lambda: fp4aot.dequantize_nvfp4(codes(), e4m3(128, 4), dtype=torch.int8),
        ["dtype", "int8", "float16"],
    ),
    "scales of the other format": (
        lambda: fp4aot.gemm_nvfp4(*replaced(2, lambda s: s.view(torch.float8_e8m0fnu))),
        ["a_scales", "float8_e8m0fnu", "float8_e4m3fn"],
    ),
    "mxfp4 scales of the other format": (
        lambda: fp4aot.gemm_mxfp4(*replaced(3, lambda s: s.view(torch.float8_e4m3fn), format="mxfp4")),
        ["b_scales", "float8_e4m3fn", "float8_e8m0fnu"],
    ),
    "scales float": (
        lambda: fp4aot.swizzle_scales(torch.ones(4, 4)),
        ["scales", "float32", "float8_e4m3fn", "uint8"],
    ),
    "alpha dtype": (
        lambda: fp4aot.gemm_nvfp4(*operands(), torch.tensor([1.0], dtype=FP64)),
        ["alpha", "float32", "float64"],
    ),
    "alpha size": (lambda: fp4aot.gemm_nvfp4(*operands(), torch.ones(2)), ["alpha", "one", "2"]),
    "global_scale dtype": (
        lambda: fp4aot.quantize_nvfp4(x(), torch.tensor([1], dtype=torch.int64)),
        ["global_scale", "float32", "int64"],
    ),
    "bias dtype": (lambda: fp4aot.gemm_nvfp4(*operands(), bias=torch.ones(16, dtype=FP64)), ["bias", "float64"]),
    "weight dtype": (
        lambda: fp4aot.rmsnorm_quantize_nvfp4(x(), torch.ones(64, dtype=FP32)),
        ["weight", "float32", "bfloat16"],
    ),
    "residual dtype": (
        lambda: fp4aot.rmsnorm_quantize_nvfp4(x(), torch.ones(64, dtype=BF16), residual=x(dtype=FP16)),
        ["residual", "float16", "bfloat16"],
    ),
    # Shapes of the other arguments.
    "bias shape": (lambda: fp4aot.gemm_nvfp4(*operands(), bias=torch.ones(8)), ["bias", r"\[8\]", r"\[16\]"]),
    "weight shape": (
        lambda: fp4aot.rmsnorm_quantize_nvfp4(x(), torch.ones(32, dtype=BF16)),
        ["weight", r"\[32\]", r"\[64\]"],
    ),
    "residual shape": (
        lambda: fp4aot.rmsnorm_quantize_nvfp4(x(), torch.ones(64, dtype=BF16), residual=x(rows=3)),
        ["residual", r"\[3, 64\]", r"\[4, 64\]"],
    ),
    "out shape of gemm": (
        lambda: fp4aot.gemm_nvfp4(*operands(), out=torch.zeros(4, 8, dtype=BF16)),
        [r"\[4, 8\]", r"\[4, 16\]"],
    ),
    "out codes shape": (
        lambda: fp4aot.quantize_nvfp4(x(), out=(codes(3), e4m3(128, 4))),
        ["codes", r"\[3, 32\]", r"\[4, 32\]"],
    ),
    "out scales too small": (lambda: fp4aot.quantize_nvfp4(x(), out=(codes(), e4m3(4, 4))), ["scales", "16", "512"]),
    "out scales of the other format": (
        lambda: fp4aot.quantize_mxfp4(x(), out=(codes(), e4m3(128, 4))),
        ["scales", "float8_e4m3fn", "float8_e8m0fnu"],
    ),
    "linear scales given for swizzled": (
        lambda: fp4aot.gemm_nvfp4(*replaced(2, lambda s: e4m3(4, 4))),
        ["a_scales", "16", "512"],
    ),
    "b_scales too small": (lambda: fp4aot.gemm_nvfp4(*replaced(3, lambda s: e4m3(16, 4))), ["b_scales", "64", "512"]),
    "scales of dequantize too small": (
        lambda: fp4aot.dequantize_nvfp4(codes(), e4m3(4, 3), scale_layout="linear"),
        ["scales", "12", "16"],
    ),
    "unswizzle size": (lambda: fp4aot.unswizzle_scales(e4m3(128, 4), 129, 4), ["512", "1024"]),
    "unswizzle negative rows": (lambda: fp4aot.unswizzle_scales(e4m3(128, 4), -1, 4), ["rows = -1", "at least 0"]),
    # Strides and alignment.
    "last dimension strided": (lambda: fp4aot.quantize_nvfp4(x(64, 64).t()), ["stride", "contiguous"]),
    "expanded rows": (
        lambda: fp4aot.quantize_nvfp4(x(1).expand(4, 64)),
        ["row stride of x = 0", "64", "contiguous copy"],
    ),
    "rows that overlap": (
        lambda: fp4aot.quantize_nvfp4(torch.ones(999, dtype=BF16).as_strided((4, 64), (32, 1))),
        ["32", "overlap"],
    ),
    "leading dimensions not collapsible": (
        lambda: fp4aot.quantize_nvfp4(torch.ones(4, 6, 64, dtype=BF16)[:, :3]),
        ["copy", "contiguous"],
    ),
    "a_stride": (
        lambda: fp4aot.gemm_nvfp4(*replaced(0, lambda a: torch.zeros(4, 40, dtype=torch.uint8)[:, :32])),
        ["row stride of a = 40", "multiple of 16"],
    ),
    "a misaligned": (
        lambda: fp4aot.gemm_nvfp4(*replaced(0, lambda a: torch.zeros(256, dtype=torch.uint8)[8:136].view(4, 32))),
        ["gemm_nvfp4: a = 0x", "misaligned", "16"],
    ),
    "codes_stride": (
        lambda: fp4aot.quantize_nvfp4(x(), out=(torch.zeros(4, 36, dtype=torch.uint8)[:, :32], e4m3(128, 4))),
        [r"row stride of out\[0\] \(codes\) = 36", "multiple of 8"],
    ),
    "scales not contiguous": (
        lambda: fp4aot.gemm_nvfp4(*replaced(2, lambda s: e4m3(128, 8)[:, :4])),
        ["a_scales", "contiguous"],
    ),
    "scales misaligned": (
        lambda: fp4aot.gemm_nvfp4(*replaced(2, lambda s: e4m3(520)[8:].view(128, 4))),
        ["a_scales", "misaligned", "16"],
    ),
    "bias strided": (lambda: fp4aot.gemm_nvfp4(*operands(), bias=torch.ones(32)[::2]), ["bias", "contiguous"]),
    "scalar input": (lambda: fp4aot.quantize_nvfp4(torch.tensor(1.0)), ["dimension"]),
    # Options.
    "scale_layout": (
        lambda: fp4aot.quantize_nvfp4(x(), scale_layout="blocked"),
        ["'blocked'", "'swizzled'", "'linear'"],
    ),
    "rounding": (lambda: fp4aot.quantize_mxfp4(x(), rounding="nearest"), ["'nearest'", "'ceil'", "'floor'"]),
    "epsilon negative": (
        lambda: fp4aot.rmsnorm_quantize_nvfp4(x(), torch.ones(64, dtype=BF16), epsilon=-1.0),
        ["epsilon = -1", ">= 0"],
    ),
    "epsilon NaN": (
        lambda: fp4aot.rmsnorm_quantize_nvfp4(x(), torch.ones(64, dtype=BF16), epsilon=float("nan")),
        ["epsilon = nan", "finite"],
    ),
    "epsilon of no number": (
        lambda: fp4aot.rmsnorm_quantize_nvfp4(x(), torch.ones(64, dtype=BF16), epsilon="1"),
        ["epsilon is '1'", "float"],
    ),
    "tactic": (lambda: fp4aot.gemm_nvfp4(*operands(), tactic=9999), ["tactic = 9999", " 0"]),
    "tactic beyond 32 bits": (
        lambda: fp4aot.gemm_nvfp4(*operands(), tactic=2**32),
        ["tactic = 4294967296", "out of range"],
    ),
    "layout beyond 32 bits": (
        lambda: torch.ops.fp4aot.quantize_nvfp4(x(), None, 2**32),
        ["scale_layout = ", "SWIZZLED"],
    ),
    "tactic of 2^31": (
        lambda: fp4aot.gemm_mxfp4(*operands("mxfp4"), tactic=2**31),
        ["tactic = 2147483648", "out of range"],
    ),
    "tactic None": (lambda: fp4aot.gemm_nvfp4(*operands(), tactic=None), ["tactic is None", "integer"]),
    "tactic None with out": (
        lambda: fp4aot.gemm_nvfp4(*operands(), out=torch.empty(4, 16, dtype=torch.bfloat16), tactic=None),
        ["tactic is None", "integer"],
    ),
    "tactic negative": (lambda: fp4aot.gemm_nvfp4(*operands(), tactic=-1), ["tactic = -1", " 0"]),
    "tactic beyond 64 bits": (lambda: fp4aot.gemm_nvfp4(*operands(), tactic=2**64), ["tactic = ", "out of range"]),
    "tactic of no integer": (lambda: fp4aot.gemm_mxfp4(*operands("mxfp4"), tactic=1.5), ["tactic is 1.5", "integer"]),
    "rows of no integer": (lambda: fp4aot.unswizzle_scales(e4m3(128, 4), 1.5, 4), ["rows is 1.5", "integer"]),
    "scale_layout of no text": (lambda: fp4aot.quantize_nvfp4(x(), scale_layout=[]), [r"\[\]", "'swizzled'"]),
    "sizes of list_tactics": (
        lambda: fp4aot.list_tactics("gemm_nvfp4", 1 << 62, 8, 32, "cpu"),
        ["m = 46116860", "2\\^48"],
    ),
    "op of list_tactics": (
        lambda: fp4aot.list_tactics("gemm", 8, 8, 32, "cpu"),
        ["'gemm'", "gemm_nvfp4", "gemm_mxfp4"],
    ),
    "op of supports": (lambda: fp4aot.supports("gemm_fp3", "cpu"), ["'gemm_fp3'", "gemm_nvfp4"]),
    "device": (lambda: fp4aot.supports("gemm_nvfp4", "tpu"), ["'tpu'", "'cpu'", "'cuda'"]),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    call, pieces = CASES[name]
    text = ""
    try:
        call()
    except (ValueError, TypeError) as error:
        text = str(error)
    missing = [piece for piece in pieces if not re.search(piece, text)]
    assert not missing, f"the message lacks {missing}: {text}"
    assert len(text) > 30, text
    assert text.endswith((".", ")")), f"not a sentence: {text}"


@pytest.mark.parametrize("value", [[1.0, 2.0], 3.0, None, "text"])
def test_not_a_tensor(value):
    with pytest.raises(TypeError, match=r"tensor.*NumPy|NumPy.*tensor"):
        fp4aot.quantize_nvfp4(value)


def test_nothing_is_written_on_error():
    out_codes, out_scales = torch.full((4, 32), 7, dtype=torch.uint8), torch.full((128, 2), 7, dtype=torch.uint8)
    with pytest.raises(ValueError, match="scales"):
        fp4aot.quantize_nvfp4(x(), out=(out_codes, out_scales))
    assert (out_codes == 7).all()
    assert (out_scales == 7).all()


@pytest.mark.cuda
def test_tensors_on_two_devices():
    arguments = operands()
    with pytest.raises((ValueError, RuntimeError), match=r"(?s)cpu.*cuda|cuda.*cpu"):
        fp4aot.gemm_nvfp4(arguments[0].cuda(), *arguments[1:])


def test_an_error_does_not_stick():
    """After a refused call the next valid one works."""
    with pytest.raises(ValueError, match="k = 24"):
        fp4aot.quantize_nvfp4(x(columns=24))
    fp4aot.quantize_nvfp4(x())
