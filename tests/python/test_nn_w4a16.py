"""fp4aot.nn.W4A16Linear against its parts and against the layer that it replaces."""

import copy
import io

import fp4aot
import fp4aot.nn
import pytest
import torch
from fp4aot.nn import W4A16Linear, quantize_linears

FORMATS = ["nvfp4", "mxfp4"]
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def linear(device, k=96, n=72, bias=True, dtype=FP32) -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(k, n, bias=bias).to(dtype).to(device)


def inputs(device, *shape, dtype=BF16) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(dtype).to(device)


def relative(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(torch.linalg.norm(got.double() - wanted.double()) / torch.linalg.norm(wanted.double()))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
def test_forward(device, format, bias, dtype):
    old = linear(device, bias=bias, dtype=dtype)
    new = W4A16Linear.from_linear(old, format)
    x = inputs(device, 3, 5, 96, dtype=dtype)
    with torch.no_grad():
        out, exact = new(x), old(x)
    assert out.dtype == dtype
    assert out.shape == (3, 5, 72)
    weight = new.dequantized_weight()
    assert 0.05 < relative(weight, old.weight.detach()) < 0.15
    assert 0.01 < relative(out, exact) < 0.15, "the error of FP4 weights, no more and no less"
    wanted = x.to(BF16 if dtype == FP32 else dtype).double() @ weight.double().T
    if bias:
        wanted += old.bias.detach().double()
    assert relative(out, wanted) < {BF16: 3e-3, FP16: 5e-4, FP32: 2e-6}[dtype]


@pytest.mark.parametrize("format", FORMATS)
def test_closer_than_fp4_activations(device, format):
    """What the layer is for: only the weights are rounded to FP4."""
    old, x = linear(device, 256, 128), inputs(device, 64, 256, dtype=FP32)
    with torch.no_grad():
        exact = old(x)
        error = relative(W4A16Linear.from_linear(old, format)(x), exact)
        assert error < 0.8 * relative(fp4aot.nn.Fp4Linear.from_linear(old, format)(x), exact)


@pytest.mark.parametrize("format", FORMATS)
def test_state_dict(device, format):
    """Saved and loaded into a fresh layer: the same outputs. The state is the same on every device."""
    layer = W4A16Linear.from_linear(linear(device), format)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location="cpu", weights_only=True)
    assert state["weight"].dtype == torch.uint8
    fresh = W4A16Linear(96, 72, format=format, dtype=FP32)
    fresh.load_state_dict(state)
    x = inputs(device, 7, 96)
    assert torch.equal(fresh.to(device)(x), layer(x))
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))


@pytest.mark.parametrize("format", FORMATS)
def test_to_another_dtype_keeps_the_weight(device, format):
    layer = W4A16Linear.from_linear(linear(device), format)
    moved = copy.deepcopy(layer).to(BF16)
    assert torch.equal(moved.dequantized_weight(), layer.dequantized_weight())
    assert moved.bias.dtype == BF16
    x = inputs(device, 4, 96)
    assert relative(moved(x), layer(x)) < 0.01


@pytest.mark.parametrize("format", FORMATS)
def test_from_tensors(device, format):
    """A checkpoint's tensors: codes, linear scales, the global scale that multiplied."""
    weight = linear(device, bias=False).weight.detach()
    if format == "nvfp4":
        scale = fp4aot.nvfp4_global_scale(weight)
        codes, scales = fp4aot.quantize_nvfp4(weight, scale, scale_layout="linear")
    else:
        scale = None
        codes, scales = fp4aot.quantize_mxfp4(weight, scale_layout="linear")
    made = W4A16Linear.from_tensors(codes, scales, scale, format=format)
    x = inputs(device, 9, 96)
    assert torch.equal(made(x), W4A16Linear.from_linear(linear(device, bias=False), format)(x))
    with pytest.raises(ValueError, match=r"W4A16Linear.from_tensors: scales have shape .*\(72, "):
        W4A16Linear.from_tensors(codes, scales[:, :-1].contiguous(), format=format)
    restored = made.prepared_weight().restore(scale_layout="linear")
    assert torch.equal(restored[0], codes)
    assert torch.equal(restored[1].view(torch.uint8), scales.view(torch.uint8))


def test_quantize_linears(device):
    model = torch.nn.Sequential(
        torch.nn.Linear(96, 48), torch.nn.GELU(), torch.nn.Linear(48, 64), torch.nn.Linear(64, 30)
    ).to(device)
    mixed = copy.deepcopy(model)
    assert quantize_linears(model, weight_only=True) is model
    assert [type(layer).__name__ for layer in model] == ["W4A16Linear", "GELU", "W4A16Linear", "Linear"]
    quantize_linears(mixed, "mxfp4", weight_only=True)
    assert [type(layer).__name__ for layer in mixed] == ["W4A16Linear", "GELU", "Linear", "Linear"]
    with pytest.raises(ValueError, match=r"W4A16Linear\.from_linear"):
        quantize_linears(torch.nn.Linear(32, 32), weight_only=True)


def test_autocast(device):
    layer = W4A16Linear.from_linear(linear(device))
    x = inputs(device, 5, 96, dtype=FP32)
    with torch.autocast(device, dtype=FP16):
        out = layer(x)
    assert out.dtype == FP16
    assert torch.equal(out, layer(x.to(FP16)))


def test_backward_is_refused(device):
    layer = W4A16Linear.from_linear(linear(device))
    out = layer(inputs(device, 5, 96).requires_grad_())
    with pytest.raises(RuntimeError, match="W4A16Linear has no backward"):
        out.sum().backward()


@pytest.mark.parametrize("format", FORMATS)
def test_compile_and_export(device, format):
    layer = W4A16Linear.from_linear(linear(device), format).eval()
    x = inputs(device, 5, 96)
    with torch.no_grad():
        torch.compiler.reset()
        compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
        assert torch.equal(compiled(x), layer(x))
        assert torch.equal(compiled(inputs(device, 9, 96)), layer(inputs(device, 9, 96)))
        exported = torch.export.export(layer, (x,))
    assert torch.equal(exported.module()(x), layer(x))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: W4A16Linear(40, 8), r"in_features is 40.*multiples of 16 and 8"),
        (lambda: W4A16Linear(48, 8, format="mxfp4"), r"in_features is 48.*multiples of 32"),
        (lambda: W4A16Linear(32, 12), r"out_features 12"),
        (lambda: W4A16Linear(32, 8, format="fp4"), r"format is 'fp4'"),
        (lambda: W4A16Linear(32, 8)(torch.ones(2, 48, dtype=BF16)), r"W4A16Linear: x has shape \(2, 48\).*32"),
        (lambda: W4A16Linear(32, 8)(torch.ones(2, 32, dtype=torch.float64)), r"float64; allowed"),
    ],
)
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()
