"""Errors name the arguments of the Python functions, whoever noticed; bools are no integers; outputs are not copied."""

import re

import fp4aot
import numpy as np
import pytest
import torch
from fp4aot.nn import Fp4Linear, W4A16Linear, quantize_linears

U8, BF16 = torch.uint8, torch.bfloat16
LOST = r"\(a copy would get the result instead\)\.$"


def tensors():
    """x, then codes and scales of 4 x 64 and of 16 x 64."""
    x = torch.ones(4, 64, dtype=BF16)
    return x, *fp4aot.quantize_nvfp4(x), *fp4aot.quantize_nvfp4(torch.ones(16, 64))


def arrays():
    x = np.ones((4, 64), np.float32)
    return x, *fp4aot.quantize_nvfp4(x), *fp4aot.quantize_nvfp4(np.ones((16, 64), np.float32))


def gemm(operands, format="nvfp4", **options):
    _, a, a_scales, b, b_scales = operands
    if format == "mxfp4":  # any bytes will do as scales
        a_scales, b_scales = (
            scales.view(U8) if isinstance(scales, torch.Tensor) else scales for scales in (a_scales, b_scales)
        )
    return getattr(fp4aot, f"gemm_{format}")(a, b, a_scales, b_scales, **options)


def gemm_w4a16(operands, format="nvfp4", **options):
    x, _, _, b, b_scales = operands
    if isinstance(x, np.ndarray):
        x = x.astype(np.float16)
    b_scales = b_scales.view(U8) if isinstance(x, torch.Tensor) else b_scales
    weight = fp4aot.prepare_w4a16_weights(b, b_scales, format=format)
    return getattr(fp4aot, f"gemm_w4a16_{format}")(x, weight, **options)


PRODUCTS = [(product, format) for product in (gemm, gemm_w4a16) for format in ("nvfp4", "mxfp4")]
BOOLS = [True, False, np.True_, np.bool_(False), torch.tensor(True)]


@pytest.mark.parametrize("value", BOOLS, ids=lambda value: repr(value))
@pytest.mark.parametrize("operands", [tensors, arrays])
def test_a_bool_is_no_integer(operands, value):
    operands = operands()
    data = operands[3].reshape(-1)[:288]
    match = rf" is {re.escape(repr(value))}; it must be an integer\.$"
    for product, format in PRODUCTS:
        out = torch.empty(4, 16) if isinstance(data, torch.Tensor) else np.empty((4, 16), "f")
        for options in ({}, {"out": out}):
            with pytest.raises(TypeError, match=f"{product.__name__}_{format}: tactic{match}"):
                product(operands, format, tactic=value, **options)
    for sizes in ((value, 4), (4, value)):
        name = "columns" if sizes[0] == 4 else "rows"
        with pytest.raises(TypeError, match=f"unswizzle_scales: {name}{match}"):
            fp4aot.unswizzle_scales(operands[2], *sizes)
    for n, k, name in ((value, 64, "n"), (16, value, "k")):
        with pytest.raises(TypeError, match=f"PreparedWeight: {name}{match}"):
            fp4aot.PreparedWeight(data, n, k, "nvfp4")


@pytest.mark.parametrize("value", BOOLS, ids=lambda value: repr(value))
def test_a_bool_is_no_size(value):
    for call in (fp4aot.list_tactics, fp4aot.default_tactic):
        for place, name in enumerate("mnk"):
            sizes = [8, 8, 32]
            sizes[place] = value
            with pytest.raises(TypeError, match=f"{name} is .*integer"):
                call("gemm_nvfp4", *sizes, "cpu")
    for layer in (Fp4Linear, W4A16Linear):
        for sizes in ((value, 64), (64, value)):
            with pytest.raises(TypeError, match=f"{layer.__name__}: (in|out)_features is .*integer"):
                layer(*sizes)


@pytest.mark.parametrize("operands", [tensors, arrays])
@pytest.mark.parametrize("value", [True, False])
def test_a_bool_is_no_number(operands, value):
    x = operands()[0]
    with pytest.raises(TypeError, match=f"rmsnorm_quantize_nvfp4: epsilon is {value}; it must be a float"):
        fp4aot.rmsnorm_quantize_nvfp4(x, x[0], epsilon=value)
    with pytest.raises(TypeError, match=r"alpha is a builtins\.bool"):
        gemm(operands(), alpha=value)


@pytest.mark.parametrize("value", ["x", "", [], ()], ids=repr)
@pytest.mark.parametrize("operands", [tensors, arrays])
def test_pdl_that_is_neither_true_nor_false(operands, value):
    operands = operands()
    x, codes, scales = operands[:3]
    linear = fp4aot.unswizzle_scales(scales, 4, 4)
    mxfp4 = fp4aot.quantize_mxfp4(x)
    calls = [
        lambda: fp4aot.nvfp4_global_scale(x, pdl=value),
        lambda: fp4aot.quantize_nvfp4(x, pdl=value),
        lambda: fp4aot.quantize_mxfp4(x, pdl=value),
        lambda: fp4aot.silu_mul_quantize_nvfp4(x, pdl=value),
        lambda: fp4aot.silu_mul_quantize_mxfp4(x, pdl=value),
        lambda: fp4aot.rmsnorm_quantize_nvfp4(x, x[0], pdl=value),
        lambda: fp4aot.dequantize_nvfp4(codes, scales, pdl=value),
        lambda: fp4aot.dequantize_mxfp4(*mxfp4, pdl=value),
        lambda: fp4aot.swizzle_scales(linear, pdl=value),
        lambda: fp4aot.unswizzle_scales(scales, 4, 4, pdl=value),
        *(lambda product=product, format=format: product(operands, format, pdl=value) for product, format in PRODUCTS),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=rf"pdl is {re.escape(repr(value))}; it must be True or False\.$"):
            call()


def strided(shape, dtype=BF16):
    """Views that no output may be: transposed, all rows in one, rows that overlap."""
    rows, columns = shape
    return [
        torch.empty(columns, rows, dtype=dtype).t(),
        torch.empty(1, columns, dtype=dtype).expand(rows, columns),
        torch.empty(rows * columns, dtype=dtype).as_strided(shape, (columns // 2, 1)),
    ]


def test_what_is_written_is_not_to_be_copied():
    x, codes, scales, *_ = tensors()
    linear = fp4aot.unswizzle_scales(scales, 4, 4)
    calls = {
        "out": [
            *((lambda out, p=p, f=f: p(tensors(), f, out=out), strided((4, 16))) for p, f in PRODUCTS),
            (lambda out: fp4aot.dequantize_nvfp4(codes, scales, out=out), strided((4, 64))),
            (lambda out: fp4aot.swizzle_scales(linear.view(U8), out=out), strided((128, 4), U8)),
            (lambda out: fp4aot.unswizzle_scales(scales.view(U8), 4, 4, out=out), strided((4, 4), U8)),
        ],
        "out[0]": [(lambda out: fp4aot.quantize_nvfp4(x, out=(out, scales)), strided((4, 32), U8))],
        "out[1]": [(lambda out: fp4aot.quantize_nvfp4(x, out=(codes, out)), strided((128, 4), U8))],
        "residual": [(lambda out: fp4aot.rmsnorm_quantize_nvfp4(x, x[0], residual=out), strided((4, 64)))],
    }
    for name, attempts in calls.items():
        for call, given in attempts:
            for out in given:
                with pytest.raises(
                    ValueError, match=rf"{re.escape(name)}.* Give a contiguous {re.escape(name)} {LOST}"
                ):
                    call(out)
    with pytest.raises(ValueError, match=rf"misaligned.* Give an aligned out\[0\] {LOST}"):
        fp4aot.quantize_nvfp4(x, out=(torch.empty(129, dtype=U8)[1:].view(4, 32), scales))


def test_arrays_that_are_written_are_not_to_be_copied():
    x, codes, *_ = arrays()
    read_only = np.ones((4, 16), np.float32)
    read_only.flags.writeable = False
    for out, what in (
        (np.ones((16, 4), np.float32).T, "a contiguous"),
        (np.ones((4, 16), np.float32)[::-1], "a contiguous"),
        (np.ones((8, 16), np.float32)[:4, ::-1], "a contiguous"),
        (read_only, "a writable"),
    ):
        with pytest.raises(ValueError, match=rf"out\b.* Give {what} out {LOST}"):
            gemm(arrays(), out=out)
    with pytest.raises(TypeError, match=rf"Give an unmasked out {LOST}"):
        gemm(arrays(), out=np.ma.masked_array(np.ones((4, 16), np.float32)))
    for out in (np.ones((4, 16)), np.ones((4, 16), ">f4")):
        with pytest.raises((TypeError, ValueError), match=r"out (is|has dtype) (?!.*(Convert|copy))"):
            gemm(arrays(), out=out)
    with pytest.raises(ValueError, match=rf"Give a contiguous out\[1\] {LOST}"):
        fp4aot.quantize_nvfp4(x, out=(codes, np.ones((128, 8), np.uint8)[:, :4]))
    with pytest.raises(ValueError, match=rf"Give a contiguous residual {LOST}"):
        fp4aot.rmsnorm_quantize_nvfp4(x, x[0], residual=np.ones((64, 4), np.float32).T)


# Names of the C structs and of torch's schemas, with those of Python in their place.


def quantizers():
    return [
        fp4aot.quantize_nvfp4,
        fp4aot.quantize_mxfp4,
        fp4aot.silu_mul_quantize_nvfp4,
        fp4aot.silu_mul_quantize_mxfp4,
        lambda x: fp4aot.rmsnorm_quantize_nvfp4(x, torch.ones(64, dtype=x.dtype)),
        fp4aot.nvfp4_global_scale,
    ]


@pytest.mark.parametrize("place", ["cpu", "meta"])
def test_x_is_called_x(place):
    for quantize in quantizers():
        with pytest.raises(ValueError, match=r"^\w+: x is torch\.int32; allowed are"):
            quantize(torch.ones(4, 64, dtype=torch.int32, device=place))
        if place == "cpu":
            with pytest.raises(ValueError, match=r"^\w+: x has stride 64 in its last dimension"):
                quantize(torch.ones(64, 64).t())
            with pytest.raises(ValueError, match=r"^\w+: row stride of x = 0 is not allowed"):
                quantize(torch.ones(1, 64).expand(4, 64))


@pytest.mark.parametrize("operands", [tensors, arrays])
def test_weights_are_called_b(operands):
    _, _, _, b, b_scales = operands()
    empty = torch.zeros if isinstance(b, torch.Tensor) else np.zeros
    byte = U8 if isinstance(b, torch.Tensor) else np.uint8
    for arguments, text in (
        ((b.view(torch.int8 if byte is U8 else np.int8), b_scales), r"b h(olds|as)"),
        ((b[0], b_scales), r"b (\(weights\) must have|has shape)"),
        ((b[:12], b_scales), "n = 12"),
        ((empty((16, 36), dtype=byte)[:, :32], b_scales), "row stride of b = 36"),
        ((b, b_scales[:9]), "b_scales has 36 bytes"),
        ((b, [1]), r"b_scales is a builtins\.list"),
    ):
        with pytest.raises((TypeError, ValueError), match=rf"^prepare_w4a16_weights: {text}"):
            fp4aot.prepare_w4a16_weights(*arguments)


def test_operands_and_scales_have_their_own_names():
    x, codes, scales, b, b_scales = tensors()
    for call, text in (
        (lambda: fp4aot.gemm_nvfp4(torch.zeros(4, 40, dtype=U8)[:, :32], b, scales, b_scales), "row stride of a = 40"),
        (
            lambda: fp4aot.gemm_nvfp4(codes, torch.zeros(16, 40, dtype=U8)[:, :32], scales, b_scales),
            "row stride of b = 40",
        ),
        (lambda: fp4aot.gemm_nvfp4(torch.zeros(136, dtype=U8)[8:].view(4, 32), b, scales, b_scales), "a = 0x"),
        (lambda: fp4aot.swizzle_scales(torch.zeros(1, 4, dtype=U8).expand(4, 4)), "row stride of scales = 0"),
        (lambda: fp4aot.swizzle_scales(scales, out=torch.zeros(4, dtype=scales.dtype)), "out has 4 bytes"),
        (lambda: fp4aot.unswizzle_scales(scales, 400, 4), "scales has 512 bytes"),
        (lambda: fp4aot.nvfp4_global_scale(x, out=torch.ones(2)), "out must be one float32"),
        (lambda: fp4aot.dequantize_nvfp4(codes, scales, out=torch.ones(4, 8)), r"out has shape \[4, 8\]"),
        (lambda: fp4aot.dequantize_nvfp4(codes, scales[:1]), "scales has 4 bytes"),
    ):
        with pytest.raises(ValueError, match=rf"^\w+: {text}"):
            call()


def test_torchs_own_ops_keep_the_names_of_their_schemas():
    with pytest.raises(ValueError, match=r"^quantize_nvfp4: input is torch\.int32"):
        torch.ops.fp4aot.quantize_nvfp4(torch.ones(4, 64, dtype=torch.int32))


def test_quantize_linears_of_no_module():
    for module in (3, None, [torch.nn.Linear(64, 64)]):
        name = type(module).__name__
        with pytest.raises(TypeError, match=rf"quantize_linears: module is a builtins\.{name}; it must be a torch\.nn"):
            quantize_linears(module)
    with pytest.raises(TypeError, match=r"quantize_linears: skip is 'head'; it must be a function"):
        quantize_linears(torch.nn.Sequential(torch.nn.Linear(64, 64)), skip="head")
