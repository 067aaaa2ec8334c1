"""Bad arguments of the W4A16 functions are refused in a sentence, before anything is written."""

import re

import fp4aot
import numpy as np
import pytest
import torch
from operands import Operand
from w4a16_operands import prepare

BF16, FP32, U8 = torch.bfloat16, torch.float32, torch.uint8


def operand(format="nvfp4", n=16, k=64) -> Operand:
    return Operand(np.random.default_rng(0), n, k, format, "cpu")


def x(*shape, dtype=BF16):
    return torch.ones(shape or (4, 64), dtype=dtype)


def weight(format="nvfp4"):
    return prepare(operand(format))


def prepared(format="nvfp4", layout="swizzled", codes=None, scales=None, **sizes):
    b = operand(format, **sizes)
    codes = b.packed if codes is None else codes(b.packed)
    scales = b.swizzled() if scales is None else scales(b)
    return fp4aot.prepare_w4a16_weights(codes, scales, format=format, scale_layout=layout)


def gemm(a=None, b=None, *arguments, **options):
    return fp4aot.gemm_w4a16_nvfp4(x() if a is None else a, weight() if b is None else b, *arguments, **options)


def changed(weight, **attributes):
    for name, value in attributes.items():
        setattr(weight, name, value)
    return weight


def state(shape):
    data = torch.zeros(576, dtype=U8)
    return fp4aot.PreparedWeight.from_state_dict({"data": data, "shape": torch.tensor(shape)})


def array_weight(prepared=None):
    return fp4aot.PreparedWeight(np.zeros(576, np.uint8) if prepared is None else prepared, 16, 64, "nvfp4")


def array_gemm(prepared=None, a=None, **attributes):
    weight = array_weight(prepared)
    a = np.ones((4, 64), np.float16) if a is None else a
    return fp4aot.gemm_w4a16_nvfp4(a, changed(weight, **attributes))


CASES = {
    "n": (lambda: prepared(n=12), ["n = 12", "multiple of 8", "Pad"]),
    "k": (lambda: prepared("mxfp4", codes=lambda c: c[:, :24]), ["k = 48", "multiple of 32", "Pad"]),
    "format": (lambda: fp4aot.prepare_w4a16_weights(x(), x(), format="fp4"), ["'fp4'", "'nvfp4'", "'mxfp4'"]),
    "layout": (lambda: prepared(layout="rows"), ["'rows'", "'swizzled'", "'linear'"]),
    "codes dtype": (lambda: prepared(codes=lambda c: c.int()), ["prepare_w4a16_weights: b holds", "uint8", "int32"]),
    "codes rank": (lambda: prepared(codes=lambda c: c[0]), [r"b \(weights\) must have two dimensions", r"\[N, K/2\]"]),
    "codes columns strided": (lambda: prepared(codes=lambda c: c.t()), ["b has stride", "contiguous"]),
    "no scales": (lambda: prepared(scales=lambda b: None), ["b_scales is None", "required"]),
    "no linear scales": (lambda: prepared(layout="linear", scales=lambda b: None), ["b_scales is None", "required"]),
    "codes stride": (
        lambda: prepared(codes=lambda c: torch.zeros(16, 36, dtype=U8)[:, :32]),
        ["prepare_w4a16_weights: row stride of b = 36"],
    ),
    "codes an array": (lambda: prepared(codes=lambda c: c.numpy()), ["b_scales", "torch", "NumPy"]),
    "scales an array": (lambda: prepared(scales=lambda b: b.scales), ["b_scales is a numpy.ndarray", "Tensor"]),
    "scales too small": (lambda: prepared(scales=lambda b: b.swizzled()[:127]), ["b_scales has 508 bytes; 512"]),
    "linear for swizzled": (
        lambda: prepared(scales=lambda b: torch.from_numpy(b.scales)),
        ["b_scales has 64 bytes; 512", r"\(16, 4\) have the size of linear ones", 'pass scale_layout="linear"'],
    ),
    "flat linear for swizzled": (
        lambda: prepared("mxfp4", scales=lambda b: torch.from_numpy(b.scales).reshape(-1)),
        ["b_scales has 32 bytes; 512", r"\(32,\) have the size of linear ones", 'pass scale_layout="linear"'],
    ),
    "more linear rows for swizzled": (
        lambda: prepared(scales=lambda b: torch.zeros(20, 4, dtype=U8)),
        ["b_scales has 80 bytes; 512", 'pass scale_layout="linear"'],
    ),
    "linear array for swizzled": (
        lambda: prepared(codes=lambda c: c.numpy(), scales=lambda b: b.scales),
        ["b_scales has 64 bytes; 512", 'pass scale_layout="linear"'],
    ),
    "swizzled array for linear": (
        lambda: prepared(layout="linear", codes=lambda c: c.numpy(), scales=lambda b: np.zeros((128, 8), np.uint8)),
        [r"shape \(128, 8\)", 'leave out scale_layout="linear"'],
    ),
    "swizzled for linear, as many columns": (
        lambda: prepared(layout="linear", scales=lambda b: b.swizzled()),
        [r"b_scales has shape \(128, 4\)", r"\(16, 4\)", 'leave out scale_layout="linear"', r"b_scales\[:16\]"],
    ),
    "swizzled array for linear, as many columns": (
        lambda: prepared(layout="linear", codes=lambda c: c.numpy(), scales=lambda b: np.zeros((128, 4), np.uint8)),
        [r"b_scales has shape \(128, 4\)", r"b_scales\[:16\]"],
    ),
    "swizzled for linear": (
        lambda: prepared(layout="linear", codes=lambda c: c[:, :24], scales=lambda b: b.swizzled()),
        ["128 rows of 4", "linear", "swizzled"],
    ),
    "linear flat too small": (
        lambda: prepared(layout="linear", scales=lambda b: torch.from_numpy(b.scales).reshape(-1)[:63]),
        ["b_scales has 63 bytes; 64 are needed"],
    ),
    "scales of the other format": (
        lambda: prepared("mxfp4", scales=lambda b: operand("nvfp4").swizzled()),
        ["float8_e4m3fn", "float8_e8m0fnu", "nvfp4 op"],
    ),
    "swizzled not contiguous": (
        lambda: prepared(scales=lambda b: torch.zeros(128, 8, dtype=U8)[:, :4]),
        ["b_scales", "contiguous"],
    ),
    # Products.
    "a tensor for b": (lambda: gemm(b=operand().packed), ["b is a torch.Tensor", "prepare_w4a16_weights"]),
    "the other format": (lambda: gemm(b=weight("mxfp4")), ["mxfp4 weights", "gemm_w4a16_mxfp4"]),
    "float32": (lambda: gemm(x(dtype=FP32)), ["a is torch.float32", "bfloat16", "float16", "Convert"]),
    "integers": (
        lambda: gemm(torch.ones(4, 64, dtype=torch.int32)),
        [r"a is torch.int32; allowed are torch.bfloat16 and torch.float16\."],
    ),
    "k of a": (lambda: gemm(x(4, 32)), ["a has 32 columns", "K = 64"]),
    "a scalar": (lambda: gemm(torch.tensor(1.0, dtype=BF16)), ["a is a scalar", "dimension"]),
    "a misaligned": (lambda: gemm(x(264)[4:260].view(4, 64)), ["a = 0x", "misaligned", "16 bytes", "Copy"]),
    "a_stride": (lambda: gemm(x(4, 68)[:, :64]), ["row stride of a = 68", "multiple of 8"]),
    "a transposed": (lambda: gemm(x(64, 64).t()), ["a has stride 64", "contiguous"]),
    "a expanded": (lambda: gemm(x(1, 64).expand(4, 64)), ["row stride of a = 0", "64"]),
    "a an array": (lambda: gemm(np.ones((4, 64), np.float16)), ["b is a torch.Tensor", "NumPy"]),
    "array of float32": (
        lambda: gemm(np.ones((4, 64), np.float32)),
        ["a is float32", "float16", "bfloat16"],
    ),
    "float64 array": (
        lambda: array_gemm(a=np.ones((4, 64))),
        [r"a is float64; allowed are float16 and ml_dtypes.bfloat16\."],
    ),
    "no tensor": (lambda: gemm([[1.0]]), ["a is a builtins.list", "torch tensors", "NumPy"]),
    "alpha a number": (lambda: gemm(None, None, 0.5), ["alpha is a builtins.float", r"torch.tensor\(0.5"]),
    "alpha size": (lambda: gemm(None, None, torch.ones(2)), ["alpha", "one float32"]),
    "bias shape": (lambda: gemm(bias=torch.ones(8)), ["bias", r"\[8\]", r"\[16\]"]),
    "bias strided": (lambda: gemm(bias=torch.ones(32)[::2]), ["bias", "contiguous"]),
    "out_dtype": (lambda: gemm(out_dtype=torch.float64), ["out_dtype", "float64", "bfloat16"]),
    "out shape": (lambda: gemm(out=x(4, 8)), [r"\[4, 8\]", r"\[4, 16\]"]),
    "out an array": (lambda: gemm(out=np.ones((4, 16), np.float32)), ["out is a numpy.ndarray"]),
    "tactic": (lambda: gemm(tactic=9999), ["tactic = 9999", " 0"]),
    "tactic None": (lambda: gemm(tactic=None), ["tactic is None", "integer"]),
    "a_dtype of list_tactics": (
        lambda: fp4aot.list_tactics("gemm_nvfp4", 8, 8, 32, "cpu", a_dtype=BF16),
        ["gemm_nvfp4", "a_dtype"],
    ),
    "float32 for a_dtype": (
        lambda: fp4aot.list_tactics("gemm_w4a16_nvfp4", 8, 8, 32, "cpu", a_dtype=FP32),
        ["a_dtype = 3", "FP16"],
    ),
    "op of list_tactics": (
        lambda: fp4aot.list_tactics("prepare_w4a16_nvfp4", 8, 8, 32, "cpu"),
        ["no tactics", "gemm_w4a16_nvfp4"],
    ),
    # PreparedWeight.
    "size of data": (
        lambda: fp4aot.PreparedWeight(torch.zeros(500, dtype=U8), 16, 64, "nvfp4"),
        [r"shape \(500,\)", "N = 16, K = 64", r"\(576,\)"],
    ),
    "dtype of data": (
        lambda: fp4aot.PreparedWeight(torch.zeros(576, dtype=torch.int8), 16, 64, "nvfp4"),
        ["int8", "uint8"],
    ),
    "format of data": (
        lambda: fp4aot.PreparedWeight(torch.zeros(576, dtype=U8), 16, 64, "e2m1"),
        ["'e2m1'", "'nvfp4'"],
    ),
    "state": (
        lambda: fp4aot.PreparedWeight.from_state_dict({"data": torch.zeros(9), "shape": torch.tensor([16, 64])}),
        [r"shape \(9,\)", r"576 bytes \(nvfp4\)", r"544 bytes \(mxfp4\)"],
    ),
    "data a list": (lambda: fp4aot.PreparedWeight([0], 16, 64, "nvfp4"), ["data is a builtins.list", "NumPy array"]),
    "state of three sizes": (lambda: state([16, 64, 1]), [r"shape is .*16, 64, *1", r"two integers, \(N, K\)"]),
    "state of fractions": (lambda: state([16.5, 64.0]), ["shape is", "two integers"]),
    "state of no multiples": (lambda: state([15, 61]), [r"\(15, 61\)", "multiple of 8", r"of 16 \(nvfp4\)"]),
    "state of negative sizes": (lambda: state([-16, -64]), [r"\(-16, -64\)", "positive multiple of 8"]),
    "state a list": (
        lambda: fp4aot.PreparedWeight.from_state_dict({"data": [0], "shape": [16, 64]}),
        ["data is a builtins.list", "NumPy array"],
    ),
    "n a float": (lambda: gemm(b=changed(weight(), n=16.0)), ["n is 16.0", "integer"]),
    "data replaced by floats": (
        lambda: gemm(b=changed(weight(), data=torch.zeros(576))),
        ["b holds prepared weights", "torch.uint8", "torch.float32"],
    ),
    "out a tuple": (lambda: gemm(out=()), ["out is a builtins.tuple", "torch.Tensor"]),
    "strided array": (lambda: array_gemm(np.zeros(2 * 576, np.uint8)[::2]), ["b must be contiguous"]),
    "backwards array": (lambda: array_gemm(np.zeros(576, np.uint8)[::-1]), ["b must be contiguous"]),
    "broadcast array": (lambda: array_gemm(np.broadcast_to(np.uint8(0), 576)), ["b must be contiguous"]),
    "array restored": (
        lambda: fp4aot.PreparedWeight(np.zeros(2 * 576, np.uint8)[::2], 16, 64, "nvfp4").restore(),
        ["data must be contiguous"],
    ),
    "array replaced by floats": (lambda: array_gemm(data=np.zeros(576, np.float32)), ["uint8", "float32"]),
    "array too small": (lambda: array_gemm(n=1 << 40), ["b has 576 bytes", f"N = {1 << 40}, K = 64"]),
    "array of negative sizes": (
        lambda: changed(array_weight(), n=-16, k=-64).restore(),
        ["n = -16", "at least 8"],
    ),
    "negative sizes": (
        lambda: fp4aot.PreparedWeight(np.zeros(576, np.uint8), -16, -64, "nvfp4"),
        [r"shape is \(-16, -64\)", "positive multiple of 8"],
    ),
    "no sizes": (
        lambda: fp4aot.PreparedWeight(torch.zeros(0, dtype=U8), 0, 0, "nvfp4"),
        [r"shape is \(0, 0\)", "positive multiple of 8"],
    ),
    "sizes that are no multiples": (
        lambda: fp4aot.PreparedWeight(torch.zeros(576, dtype=U8), 9, 33, "nvfp4"),
        [r"shape is \(9, 33\)", r"K of 16 \(nvfp4\)"],
    ),
    "fractions": (
        lambda: fp4aot.PreparedWeight(torch.zeros(576, dtype=U8), 16.0, 64, "nvfp4"),
        ["n is 16.0", "integer"],
    ),
    "a list of formats": (
        lambda: fp4aot.PreparedWeight(torch.zeros(576, dtype=U8), 16, 64, ["nvfp4"]),
        [r"\['nvfp4'\]", "'nvfp4' or 'mxfp4'"],
    ),
    "state without shape": (
        lambda: fp4aot.PreparedWeight.from_state_dict({"data": torch.zeros(576, dtype=U8), "weight": 1}),
        [r"state has the keys \['data', 'weight'\]", "'data' and 'shape'"],
    ),
    "no state": (
        lambda: fp4aot.PreparedWeight.from_state_dict(None),
        ["state is a builtins.NoneType", "'data' and 'shape'"],
    ),
    "empty state": (lambda: fp4aot.PreparedWeight.from_state_dict({}), ["state is empty", "'data' and 'shape'"]),
    "state of booleans": (lambda: state([True, True]), ["shape is", "two integers"]),
    "state of one boolean": (
        lambda: fp4aot.PreparedWeight.from_state_dict({"data": torch.zeros(576, dtype=U8), "shape": [True, 64]}),
        [r"shape is \[True, 64\]", "two integers"],
    ),
    "state's shape without values": (
        lambda: fp4aot.PreparedWeight.from_state_dict(
            {"data": torch.zeros(576, dtype=U8), "shape": torch.zeros(2, dtype=torch.int64, device="meta")}
        ),
        ["shape is .*meta", "two integers"],
    ),
    "array's n a float": (lambda: array_gemm(n=16.0), ["n is 16.0", "integer"]),
    "layout of restore": (lambda: weight().restore(scale_layout="rows"), ["'rows'", "'swizzled'"]),
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
    assert text.endswith((".", ")")), f"not a sentence: {text}"


def test_scales_of_no_layout_are_not_taken_for_linear_ones():
    """Too small for either layout: the message does not send on to the other."""
    with pytest.raises(ValueError, match="scales has 63 bytes; 512 are needed") as error:
        prepared(scales=lambda b: torch.from_numpy(b.scales).reshape(-1)[:63])
    assert "linear" not in str(error.value)


def test_nothing_is_written_on_error():
    out = torch.full((4, 16), 7.0, dtype=BF16)
    with pytest.raises(ValueError, match="bias"):
        gemm(out=out, bias=torch.ones(8))
    assert (out == 7).all()
