"""What torch lets through and the binding must not: odd tensors, None, gradients, scales of another layout."""

import gc
import re
from pathlib import Path

import fp4aot
import numpy as np
import pytest
import torch
from operands import Operand

BF16 = torch.bfloat16
OPS = torch.ops.fp4aot


def operands(format="nvfp4", m=4, n=16, k=64):
    rng = np.random.default_rng(0)
    a, b = Operand(rng, m, k, format, "cpu"), Operand(rng, n, k, format, "cpu")
    return [a.packed, b.packed, a.swizzled(), b.swizzled()]


def bytes_of(tensor):
    return tensor.view(torch.uint8)


# Rank.


def test_rank_64_is_the_most():
    values = torch.linspace(-6, 6, 32, dtype=BF16)
    codes, scales = fp4aot.quantize_nvfp4(values.view([1] * 63 + [32]))
    expected_codes, expected_scales = fp4aot.quantize_nvfp4(values.view(1, 32))
    assert codes.shape == (*[1] * 63, 16)
    assert torch.equal(codes.view(1, 16), expected_codes)
    assert torch.equal(bytes_of(scales), bytes_of(expected_scales))
    back = fp4aot.dequantize_nvfp4(codes, scales)
    assert torch.equal(back.view(1, 32), fp4aot.dequantize_nvfp4(expected_codes, expected_scales))


@pytest.mark.parametrize("rank", [65, 66, 100])
def test_rank_beyond_64_is_refused(rank):
    lead = [1] * (rank - 1)
    a, b, a_scales, b_scales = operands(m=1)
    calls = {
        "x": lambda: fp4aot.quantize_nvfp4(torch.zeros([*lead, 32])),
        "codes": lambda: fp4aot.dequantize_nvfp4(a.view(*lead, 32), a_scales),
        "a": lambda: fp4aot.gemm_nvfp4(a.view(*lead, 32), b, a_scales, b_scales),
        "scales": lambda: fp4aot.swizzle_scales(torch.zeros([*lead, 4], dtype=torch.uint8)),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf": {name} has {rank} dimensions; at most 64\. Reshape"):
            call()


# None.


def test_none_for_a_tensor_is_refused_and_leaks_nothing():
    x, big = torch.zeros(4, 64, dtype=BF16), 1 << 20
    codes, w_codes, scales, _ = operands()

    def attempts():
        with pytest.raises(ValueError, match=r"rmsnorm_quantize_nvfp4: weight is None; it is required"):
            fp4aot.rmsnorm_quantize_nvfp4(x, None, residual=torch.ones(big, dtype=BF16))
        with pytest.raises(ValueError, match=r"quantize_nvfp4: out\[0\] \(codes\) is None; it is required"):
            fp4aot.quantize_nvfp4(torch.ones(1, big, dtype=BF16), torch.ones(1), out=(None, None))
        with pytest.raises(ValueError, match=r"gemm_nvfp4: b_scales is None; it is required"):
            fp4aot.gemm_nvfp4(codes, w_codes, scales, None, torch.ones(big), torch.ones(big))

    def resident():
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096 / 2**20

    for _ in range(3):
        attempts()
    before = resident()
    for _ in range(40):  # 12 MiB each: 480 MiB if they leaked
        attempts()
    assert resident() - before < 100


# Autograd.


def test_a_residual_that_needs_a_gradient():
    x, weight = torch.randn(8, 64), torch.ones(64)
    leaf = torch.randn(8, 64, requires_grad=True)
    h = leaf.exp()
    loss, before = h.sum(), h.detach().clone()
    for target in (h, leaf):
        kept = target.detach().clone()
        with pytest.raises(RuntimeError, match=r"rmsnorm_quantize_nvfp4 writes to .* requires grad.*no_grad"):
            fp4aot.rmsnorm_quantize_nvfp4(x, weight, residual=target)
        assert torch.equal(target, kept)
    with torch.no_grad():
        fp4aot.rmsnorm_quantize_nvfp4(x, weight, residual=h)
    assert torch.equal(h, x + before)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_dequantised_output_without_the_gradient_of_its_scale():
    codes, scales = fp4aot.quantize_nvfp4(torch.full((4, 32), 6.0))
    global_scale, out = torch.tensor(2.0, requires_grad=True), torch.zeros(4, 32)
    with pytest.raises(RuntimeError, match=r"dequantize_nvfp4: an argument of shape \[\] requires grad.*no_grad"):
        fp4aot.dequantize_nvfp4(codes, scales, global_scale, out=out)
    assert not out.any()
    with torch.no_grad():
        assert (fp4aot.dequantize_nvfp4(codes, scales, global_scale, out=out) == 3).all()


def test_a_compiled_residual_that_needs_a_gradient():
    def overwrite(x, weight, leaf):
        h = leaf.exp()
        loss = h.sum()
        fp4aot.rmsnorm_quantize_nvfp4(x, weight, residual=h)
        return loss

    torch.compiler.reset()
    compiled = torch.compile(overwrite, backend="aot_eager")
    leaf = torch.randn(8, 64, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        compiled(torch.randn(8, 64), torch.ones(64), leaf)
    with torch.no_grad():
        assert torch.equal(compiled(torch.randn(8, 64), torch.ones(64), leaf), leaf.exp().sum())


def test_gradients_where_nothing_was_overwritten():
    x, weight = torch.randn(8, 64), torch.ones(64)
    leaf = torch.randn(8, 64, requires_grad=True)
    h = leaf.exp()
    fp4aot.rmsnorm_quantize_nvfp4(x, weight, residual=h.detach().clone())
    h.sum().backward()
    assert torch.equal(leaf.grad, h.detach())


def test_every_output_counts_a_version():
    x, weight, (a, b, a_scales, b_scales) = torch.randn(4, 64), torch.ones(64), operands()
    mx = operands("mxfp4")
    codes, scales = fp4aot.quantize_nvfp4(x)
    mx_codes, mx_scales = fp4aot.quantize_mxfp4(x)
    half_codes, half_scales = fp4aot.silu_mul_quantize_nvfp4(x)
    mx_half_codes, mx_half_scales = fp4aot.silu_mul_quantize_mxfp4(x)
    back, product, one, residual = torch.empty(4, 64), torch.empty(4, 16), torch.empty(1), torch.randn(4, 64)
    linear = torch.zeros(4, 4, dtype=torch.uint8)
    swizzled = fp4aot.swizzle_scales(linear)
    calls = [
        (lambda out: fp4aot.quantize_nvfp4(x, out=out), (codes, scales)),
        (lambda out: fp4aot.quantize_mxfp4(x, out=out), (mx_codes, mx_scales)),
        (lambda out: fp4aot.silu_mul_quantize_nvfp4(x, out=out), (half_codes, half_scales)),
        (lambda out: fp4aot.silu_mul_quantize_mxfp4(x, out=out), (mx_half_codes, mx_half_scales)),
        (lambda out: fp4aot.rmsnorm_quantize_nvfp4(x, weight, residual=out[2], out=out[:2]), (codes, scales, residual)),
        (lambda out: fp4aot.rmsnorm_quantize_nvfp4(x, weight, residual=out[0]), (residual,)),
        (lambda out: fp4aot.dequantize_nvfp4(codes, scales, out=out[0]), (back,)),
        (lambda out: fp4aot.dequantize_mxfp4(mx_codes, mx_scales, out=out[0]), (back,)),
        (lambda out: fp4aot.gemm_nvfp4(a, b, a_scales, b_scales, out=out[0]), (product,)),
        (lambda out: fp4aot.gemm_mxfp4(*mx, out=out[0]), (product,)),
        (lambda out: fp4aot.nvfp4_global_scale(x, out=out[0]), (one,)),
        (lambda out: fp4aot.swizzle_scales(linear, out=out[0]), (swizzled,)),
        (lambda out: fp4aot.unswizzle_scales(swizzled, 4, 4, out=out[0]), (linear,)),
    ]
    for index, (call, outputs) in enumerate(calls):
        before = [output._version for output in outputs]
        call(outputs)
        assert all(output._version > old for output, old in zip(outputs, before, strict=True)), index
    assert x._version == 0
    with pytest.raises(RuntimeError, match="gemm_nvfp4 writes to"):
        fp4aot.gemm_nvfp4(a, b, a_scales, b_scales, out=torch.empty(4, 16, requires_grad=True))
    with torch.inference_mode():  # these tensors have no counter
        fp4aot.nvfp4_global_scale(x, out=torch.empty(1))


# Layout of scales, sizes, options.


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
def test_linear_scales_must_be_linear(format):
    quantize, dequantize = getattr(fp4aot, f"quantize_{format}"), getattr(fp4aot, f"dequantize_{format}")
    x = torch.randn(2, 3, 128)
    codes, scales = quantize(x, scale_layout="linear")
    expected = dequantize(codes, scales, scale_layout="linear")
    assert torch.linalg.norm(expected.float() - x) < 0.2 * torch.linalg.norm(x)
    flat, larger = scales.flatten(), torch.cat([bytes_of(scales).flatten(), torch.zeros(9, dtype=torch.uint8)])
    for given in (flat, larger, scales.view(6, -1)):
        assert torch.equal(dequantize(codes, given, scale_layout="linear"), expected)
    swizzled = quantize(x)[1]
    with pytest.raises(ValueError, match=r"scales has shape \[128, .*6 rows of .*swizzled"):
        dequantize(codes, swizzled, scale_layout="linear")
    with pytest.raises(ValueError, match=r"out\[1\] \(scales\) has shape \[128, .*6 rows of"):
        quantize(x, scale_layout="linear", out=(codes, swizzled))


def test_sizes_beyond_memory_are_refused_before_allocating():
    scales = torch.zeros(128, 4, dtype=torch.uint8)
    for rows, columns in ((2**40, 4), (2**62, 2**62), (2**63 - 1, 4), (1, 2**63 - 1), (2**40, 2**40)):
        with pytest.raises(ValueError, match=rf": scales has 512 bytes; {rows} rows of {columns} scales take"):
            fp4aot.unswizzle_scales(scales, rows, columns)
    with pytest.raises(ValueError, match="too many rows"):
        fp4aot.nvfp4_global_scale(torch.empty(1, 1, 2).expand(2**31, 2**30, 2))
    with pytest.raises(ValueError, match="too many columns"):
        fp4aot.dequantize_nvfp4(torch.empty(0, 2**62, dtype=torch.uint8), scales)


@pytest.mark.parametrize("tactic", [2**32, 2**32 + 1, -(2**32), 2**63 - 1, -(2**63), 2**31])
def test_a_tactic_is_never_wrapped(tactic):
    a, b, a_scales, b_scales = operands()
    with pytest.raises(ValueError, match=r"tactic = -?\d+ "):
        OPS.gemm_nvfp4(a, b, a_scales, b_scales, BF16, None, None, tactic)


def test_the_default_tactic_of_the_schema_is_the_default():
    arguments = {argument.name: argument for argument in OPS.gemm_nvfp4.default._schema.arguments}
    default = arguments["tactic"].default_value
    assert default == 0
    a, b, a_scales, b_scales = operands()
    chosen = OPS.gemm_nvfp4(a, b, a_scales, b_scales, BF16, None, None, default)
    assert torch.equal(chosen, fp4aot.gemm_nvfp4(a, b, a_scales, b_scales))


# Texts.


def test_names_of_dtypes():
    for dtype in (torch.complex64, torch.complex128, torch.uint16, torch.float8_e5m2fnuz, torch.float64, torch.bool):
        with pytest.raises(ValueError, match=rf": x is {re.escape(str(dtype))}; .*Convert it: \.to\(torch\.bfloat16\)"):
            fp4aot.quantize_nvfp4(torch.zeros(4, 64, dtype=dtype))


@pytest.mark.filterwarnings("ignore")
def test_tensors_that_are_not_dense():
    x = torch.eye(64)
    given = {
        "a sparse": [x.to_sparse(), x.to_sparse_csr(), x.to_sparse_bsr((8, 8))],
        "an mkldnn": [x.to_mkldnn()],
        "a nested": [torch.nested.nested_tensor([x]), torch.nested.nested_tensor([x], layout=torch.jagged)],
    }
    for name, tensors in given.items():
        for tensor in tensors:
            with pytest.raises(ValueError, match=rf": x is {name} tensor; pass a dense \(strided\) one"):
                fp4aot.quantize_nvfp4(tensor)
    with pytest.raises(ValueError, match=r"weight is a sparse tensor"):
        fp4aot.rmsnorm_quantize_nvfp4(x, torch.ones(64).to_sparse())
    with pytest.raises(ValueError, match=r": x is torch\.qint8; .*\.dequantize\(\)"):
        fp4aot.quantize_nvfp4(torch.quantize_per_tensor(x, 1.0, 0, torch.qint8))
