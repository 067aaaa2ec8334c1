"""Calls in front of torch's dispatcher give what the dispatcher gives. (Where it is left: test_fast_path_left.py.)"""

import fp4aot
import pytest
import torch
from fast_calls import (
    DISPATCHED,
    FORMATS,
    QUANTIZE,
    bound,
    clones,
    gemm_arguments,
    needed,
    quantize_arguments,
    same,
    slow,
    torch_dtype,
    values,
    w4a16_arguments,
)
from fp4aot import torch_ops

pytestmark = needed


@pytest.mark.parametrize("dtype", [15, 5, 6])
@pytest.mark.parametrize("leading", [(5,), (2, 3), (1,), ()])
@pytest.mark.parametrize("fmt", FORMATS)
def test_gemm_is_the_dispatched_one(device, fmt, leading, dtype):
    arguments = gemm_arguments(fmt, device, leading)
    arguments[4] = dtype
    name = f"gemm_{fmt}"
    expected = slow(name)(*arguments[:4], torch_dtype(dtype), *arguments[5:])
    for given in (arguments, arguments[:7]):
        assert same(bound(name)(*given), expected)
    assert same(bound(name)(*arguments[:5]), slow(name)(*arguments[:4], torch_dtype(dtype)))
    out = torch.empty_like(expected)
    version = out._version
    assert bound(name + "_out")(out, *arguments[:4], *arguments[5:]) is None
    assert same(out, expected)
    assert out._version == version + 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("fmt", FORMATS)
def test_w4a16_is_the_dispatched_one(device, fmt, dtype):
    name = f"gemm_w4a16_{fmt}"
    if not fp4aot.supports(name, device):
        pytest.skip(f"this device's image has no {name}")
    for leading in ((5,), (2, 3), ()):
        arguments = w4a16_arguments(fmt, device, leading)
        arguments[0] = arguments[0].to(dtype)
        expected = slow(name)(*arguments[:4], torch.bfloat16, *arguments[5:])
        for given in (arguments, arguments[:7]):
            assert same(bound(name)(*given), expected)
        out = torch.empty_like(expected)
        assert bound(name + "_out")(out, *arguments[:4], *arguments[5:]) is None
        assert same(out, expected)
        assert out._version == 1


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_tactic_and_option(device, fmt):
    arguments = gemm_arguments(fmt, device, (40,), 64, 256)
    for tactic, _ in [(0, "default"), *fp4aot.list_tactics(f"gemm_{fmt}", m=40, n=64, k=256, device=device)]:
        arguments[7:] = [tactic, True]
        expected = slow(f"gemm_{fmt}")(*arguments[:4], torch.bfloat16, *arguments[5:])
        assert same(bound(f"gemm_{fmt}")(*arguments), expected), tactic


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", QUANTIZE)
def test_quantize_is_the_dispatched_one(device, name, dtype):
    for layout in (0, 1):
        arguments = quantize_arguments(name, device, dtype)
        arguments[-2] = layout
        theirs, ours = clones(arguments), clones(arguments)
        expected, results = slow(name)(*theirs), bound(name)(*ours)
        assert type(results) is tuple
        assert all(map(same, results, expected))
        if name.startswith("rmsnorm"):
            assert same(ours[4], theirs[4])
            assert ours[4]._version == 1
    arguments[-2] = 0
    expected = slow(name)(*clones(arguments))
    outputs = [torch.empty_like(tensor) for tensor in expected]
    ours = clones(arguments)
    assert bound(name + "_out")(*outputs, *ours) is None
    assert all(map(same, outputs, expected))
    assert [tensor._version for tensor in outputs] == [1, 1]
    if name.startswith("rmsnorm"):
        assert ours[4]._version == 1
        arguments[4] = None
        assert all(map(same, bound(name)(*arguments), slow(name)(*arguments)))


def test_row_strides_and_uint8_scales(device):
    arguments = gemm_arguments("nvfp4", device, (6,), 16, 128)
    expected = slow("gemm_nvfp4")(*arguments[:4], torch.bfloat16, *arguments[5:])
    for index in (0, 1):
        wide = torch.full((arguments[index].shape[0], 96), 0xEE, dtype=torch.uint8, device=device)
        wide[:, :64] = arguments[index]
        arguments[index] = wide[:, :64]
    arguments[2:4] = [scales.view(torch.uint8) for scales in arguments[2:4]]
    assert same(bound("gemm_nvfp4")(*arguments), expected)
    out = torch.zeros(6, 40, dtype=torch.bfloat16, device=device)
    assert bound("gemm_nvfp4_out")(out[:, :16], *arguments[:4], *arguments[5:]) is None
    assert torch.equal(out[:, :16], expected)
    assert not out[:, 16:].any()
    x = values((7, 160), device=device)[:, :64]
    assert all(map(same, bound("quantize_nvfp4")(x), slow("quantize_nvfp4")(x)))


def test_public_functions_take_it(device, monkeypatch):
    """The functions that users call reach the fast ones: no dispatcher is there to fall back to."""
    a, b, a_scales, b_scales, _, alpha, bias, *_ = gemm_arguments(device=device)
    x = values((5, 64), device=device)
    for name in ("gemm_nvfp4", "gemm_nvfp4_out", "quantize_nvfp4", "quantize_nvfp4_out"):
        monkeypatch.setattr(torch_ops.Eager, name, staticmethod(bound(name)))
    y = fp4aot.gemm_nvfp4(a, b, a_scales, b_scales, alpha, bias, out_dtype=torch.float16)
    assert y is not DISPATCHED
    assert y.dtype == torch.float16
    out = torch.zeros(5, 24, dtype=torch.float16, device=device)
    assert fp4aot.gemm_nvfp4(a, b, a_scales, b_scales, alpha, bias, out=out, tactic=0) is out
    assert torch.equal(out, y)
    results = fp4aot.quantize_nvfp4(x, alpha)
    assert results is not DISPATCHED
    outputs = tuple(torch.zeros_like(tensor) for tensor in results)
    fp4aot.quantize_nvfp4(x, alpha, out=outputs)
    assert all(map(same, outputs, results))


def test_parameters_no_grad_and_inference_mode(device):
    arguments = gemm_arguments(device=device)
    fixed = [torch.nn.Parameter(tensor, requires_grad=False) for tensor in arguments[:4]]
    assert type(bound("gemm_nvfp4")(*fixed, *arguments[4:])) is torch.Tensor
    bias = torch.nn.Parameter(arguments[6])
    call = bound("gemm_nvfp4")
    assert call(*arguments[:6], bias) is DISPATCHED
    with torch.no_grad():
        assert type(call(*arguments[:6], bias)) is torch.Tensor
    with torch.inference_mode():
        expected = slow("gemm_nvfp4")(*arguments[:4], torch.bfloat16, *arguments[5:])
        y = call(*arguments[:6], bias)
        assert y.is_inference()
        assert same(y, expected)
        out = torch.empty_like(y)
        assert bound("gemm_nvfp4_out")(out, *arguments[:4], *arguments[5:]) is None
    assert bound("gemm_nvfp4_out")(out, *arguments[:4], *arguments[5:]) is None  # as dispatched: it has no version
    assert same(out, expected)


def test_a_backward_that_needs_what_was_overwritten_fails():
    arguments = gemm_arguments(leading=(2,), n=8)
    out, factor = torch.ones(2, 8, dtype=torch.bfloat16), torch.ones(2, 8, dtype=torch.bfloat16, requires_grad=True)
    loss = (out * factor).sum()
    fp4aot.gemm_nvfp4(*arguments[:4], out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
