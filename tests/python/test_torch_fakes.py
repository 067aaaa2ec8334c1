"""Fakes: the shapes and the refusals of the ops, for tensors without values."""

import fp4aot
import fp4aot.torch_ops
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

BF16 = torch.bfloat16
OPS = torch.ops.fp4aot


def bad_calls(device):
    """name: (call, text); the op and its fake refuse each."""

    def new(*shape, dtype=BF16, on=device):
        return torch.zeros(shape, dtype=dtype, device=on)

    u8, e4m3, other = torch.uint8, torch.float8_e4m3fn, "cpu" if device == "meta" else "meta"
    a, b, scales = new(4, 32, dtype=u8), new(16, 32, dtype=u8), new(128, 4, dtype=u8)
    return {
        "k": (lambda: OPS.quantize_nvfp4(new(3, 17)), "k = 17 .*multiple of 16"),
        "k mxfp4": (lambda: OPS.quantize_mxfp4(new(3, 48)), "k = 48 .*multiple of 32"),
        "k zero": (lambda: OPS.quantize_nvfp4(new(3, 0)), "k = 0 .*at least 16"),
        "halves": (lambda: OPS.silu_mul_quantize_nvfp4(new(3, 33)), "33 columns; it must have 2"),
        "scalar": (lambda: OPS.quantize_nvfp4(new()), "input is a scalar"),
        "rank": (lambda: OPS.quantize_nvfp4(new(*[1] * 99, 32)), "100 dimensions; at most 64"),
        "dtype": (lambda: OPS.quantize_nvfp4(new(3, 32, dtype=torch.float64)), "input is torch.float64; .*Convert"),
        "weight": (lambda: OPS.rmsnorm_quantize_nvfp4(new(3, 64), new(32)), r"weight has shape \[32\].*\[64\]"),
        "codes": (lambda: OPS.dequantize_nvfp4(new(4, 32), scales, None, BF16), "codes .*torch.uint8"),
        "out dtype": (lambda: OPS.dequantize_nvfp4(a, scales, None, torch.int8), "dtype is torch.int8; allowed"),
        "linear": (lambda: OPS.dequantize_nvfp4(a, scales, None, BF16, 1), "scales .*linear scales are"),
        "other scales": (lambda: OPS.dequantize_mxfp4(a, scales.view(e4m3), BF16), "scales is torch.float8_e4m3fn"),
        "swizzle": (lambda: OPS.swizzle_scales(new(4, 4)), "scales is torch.bfloat16"),
        "n": (lambda: OPS.gemm_nvfp4(a, b[:12], scales, scales, BF16), "n = 12 .*multiple of 8"),
        "k of a and b": (lambda: OPS.gemm_nvfp4(a, b[:, :16], scales, scales, BF16), "a has 32 bytes .*b has 16;"),
        "bias": (lambda: OPS.gemm_nvfp4(a, b, scales, scales, BF16, None, new(8)), r"bias has shape \[8\].*\[16\]"),
        "out shape": (lambda: OPS.gemm_nvfp4_out(new(4, 8), a, b, scales, scales), r"has shape \[4, 8\].*\[4, 16\]"),
        "short scales": (
            lambda: OPS.dequantize_nvfp4(new(129, 32, dtype=u8), scales, None, BF16),
            "scales has 512 bytes; 1024 are needed",
        ),
        "short linear scales": (
            lambda: OPS.dequantize_nvfp4(a, new(15, dtype=u8), None, BF16, 1),
            "scales has 15 bytes; 16 are needed",
        ),
        "short a_scales": (
            lambda: OPS.gemm_nvfp4(new(129, 32, dtype=u8), b, scales, scales, BF16),
            "a_scales has 512 bytes; 1024 are needed",
        ),
        "short b_scales": (
            lambda: OPS.gemm_mxfp4(a, b, scales, scales[:64], BF16),
            "b_scales has 256 bytes; 512 are needed",
        ),
        "short scales of weights": (
            lambda: OPS.prepare_w4a16_nvfp4(b, scales[:127]),
            "scales has 508 bytes; 512 are needed",
        ),
        "unswizzled rows": (lambda: OPS.unswizzle_scales(scales, -1, 4), "rows = -1 .*at least 0"),
        "unswizzled columns": (lambda: OPS.unswizzle_scales(scales, 1, 0), "columns = 0 .*at least 1"),
        "short swizzled": (lambda: OPS.unswizzle_scales(scales, 129, 4), "swizzled has 512 bytes; .*1024"),
        "device": (
            lambda: OPS.quantize_nvfp4(new(3, 32), new(1, dtype=torch.float32, on=other)),
            f"global_scale is on {other}.*first tensor is on {device}",
        ),
    }


@pytest.mark.parametrize("name", bad_calls("cpu"))
def test_a_fake_refuses_what_the_op_refuses(name):
    for device in ("cpu", "meta"):
        call, text = bad_calls(device)[name]
        with pytest.raises(ValueError, match=text):
            call()


def test_symbolic_sizes_tie_no_shapes():
    """A graph whose codes and scales come from outside has a number of rows of each, and no guard between them."""

    def work(codes, scales):
        return OPS.dequantize_nvfp4(codes, scales, None, BF16)

    codes, scales = fp4aot.quantize_nvfp4(torch.linspace(-6, 6, 200 * 64).view(200, 64))
    rows, padded = torch.export.Dim("rows", min=1, max=5000), torch.export.Dim("padded", min=128, max=5120)
    module = torch.nn.Module()
    module.forward = work
    exported = torch.export.export(module, (codes, scales), dynamic_shapes=({0: rows}, {0: padded}))
    assert torch.equal(exported.module()(codes[:7], scales), work(codes[:7], scales))


def test_fakes_of_good_calls():
    x = torch.empty(2, 3, 64, device="meta", dtype=BF16)
    codes, scales = fp4aot.quantize_nvfp4(x, scale_layout="linear")
    assert (codes.shape, scales.shape, scales.dtype) == ((2, 3, 32), (2, 3, 4), torch.float8_e4m3fn)
    assert fp4aot.dequantize_nvfp4(codes, scales, scale_layout="linear", dtype=torch.float16).shape == x.shape
    w_codes, w_scales = fp4aot.quantize_nvfp4(torch.empty(16, 64, device="meta"))
    product = fp4aot.gemm_nvfp4(codes, w_codes, fp4aot.quantize_nvfp4(x)[1], w_scales, out_dtype=torch.float32)
    assert (product.shape, product.dtype) == ((2, 3, 16), torch.float32)
    with FakeTensorMode(), pytest.raises(ValueError, match=r"x is torch\.float64"):
        fp4aot.quantize_nvfp4(torch.empty(4, 64, dtype=torch.float64))
