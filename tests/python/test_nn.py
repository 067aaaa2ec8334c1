"""fp4aot.nn.Fp4Linear against its parts and against the layer that it replaces."""

import copy
import io

import fp4aot
import fp4aot.nn
import numpy as np
import pytest
import torch
from fp4aot.nn import Fp4Linear, quantize_linears

FORMATS = ["nvfp4", "mxfp4"]


def linear(device, k=96, n=72, bias=True, dtype=torch.float32) -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(k, n, bias=bias).to(dtype).to(device)


def inputs(device, *shape, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(dtype).to(device)


def relative(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(torch.linalg.norm(got.double() - wanted.double()) / torch.linalg.norm(wanted.double()))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_forward(device, format, bias, dtype):
    old = linear(device, bias=bias, dtype=dtype)
    new = Fp4Linear.from_linear(old, format)
    x = inputs(device, 3, 5, 96, dtype=dtype)
    with torch.no_grad():
        out, exact = new(x), old(x)
    assert out.dtype == dtype
    assert out.shape == (3, 5, 72)
    assert 0.01 < relative(out, exact) < 0.2, "the error of FP4, no more and no less"
    weight = new.dequantized_weight()
    assert 0.05 < relative(weight, old.weight.detach()) < 0.15
    if format == "nvfp4":
        scale = fp4aot.nvfp4_global_scale(x)
        x = fp4aot.dequantize_nvfp4(*fp4aot.quantize_nvfp4(x, scale), scale, dtype=torch.float32)
    else:
        x = fp4aot.dequantize_mxfp4(*fp4aot.quantize_mxfp4(x), dtype=torch.float32)
    wanted = x.double() @ weight.double().T
    if bias:
        wanted += old.bias.detach().double()
    assert relative(out, wanted) < {torch.bfloat16: 3e-3, torch.float16: 5e-4, torch.float32: 2e-6}[dtype]


@pytest.mark.parametrize("format", FORMATS)
def test_state_dict(device, format):
    """Saved and loaded into a fresh layer: the same outputs."""
    layer = Fp4Linear.from_linear(linear(device), format)
    layer.calibrate(inputs(device, 20, 96))
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    state = torch.load(file)
    fresh = Fp4Linear(96, 72, format=format, device=device, dtype=torch.float32)
    fresh.load_state_dict(state)
    x = inputs(device, 7, 96)
    assert torch.equal(fresh(x), layer(x))
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))


@pytest.mark.parametrize("format", FORMATS)
def test_to_another_dtype_keeps_the_codes(device, format):
    layer = Fp4Linear.from_linear(linear(device), format)
    layer.calibrate(inputs(device, 20, 96))
    weight = layer.dequantized_weight()
    moved = copy.deepcopy(layer).to(torch.bfloat16)
    assert torch.equal(moved.dequantized_weight(), weight)
    x = inputs(device, 4, 96)
    assert moved(x.to(torch.bfloat16)).dtype == torch.bfloat16
    assert relative(moved(x.to(torch.bfloat16)), layer(x)) < 0.05


def test_calibrate(device):
    layer = Fp4Linear.from_linear(linear(device))
    small, large = inputs(device, 4, 96), 3 * inputs(device, 4, 96)
    layer.calibrate(small)
    first = layer.input_global_scale.item()
    assert first == fp4aot.nvfp4_global_scale(small).item()
    layer.calibrate(large)
    assert layer.input_global_scale.item() == fp4aot.nvfp4_global_scale(large).item() < first
    layer.calibrate(small)
    assert layer.input_global_scale.item() == fp4aot.nvfp4_global_scale(large).item(), "the larger range is kept"


@pytest.mark.parametrize("format", FORMATS)
def test_from_tensors(device, format):
    layer = Fp4Linear.from_linear(linear(device, bias=False), format)
    scales = fp4aot.unswizzle_scales(layer.weight_scales, 72, 96 // (16 if format == "nvfp4" else 32))
    made = Fp4Linear.from_tensors(layer.weight_codes, scales, layer.weight_global_scale, format=format)
    x = inputs(device, 9, 96)
    assert torch.equal(made(x), layer(x))
    with pytest.raises(ValueError, match=r"scales have shape .*\(72, "):
        Fp4Linear.from_tensors(layer.weight_codes, scales[:, :-1].contiguous(), format=format)


def test_quantize_linears(device):
    model = torch.nn.Sequential(
        torch.nn.Linear(96, 64),
        torch.nn.GELU(),
        torch.nn.Sequential(torch.nn.Linear(64, 30), torch.nn.Linear(30, 64)),
        torch.nn.ModuleDict({"inner": torch.nn.Linear(64, 32)}),
    ).to(device)
    assert quantize_linears(model) is model
    assert isinstance(model[0], Fp4Linear)
    assert isinstance(model[3]["inner"], Fp4Linear)
    assert isinstance(model[2][0], torch.nn.Linear), "30 columns do not fit and stay"
    assert isinstance(model[2][1], torch.nn.Linear)


def test_quantize_linears_leaves_what_reads_the_weight(device):
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = torch.nn.Sequential(layer, torch.nn.Linear(64, 32), torch.nn.Linear(32, 8)).to(device).eval()
    quantize_linears(model, skip=lambda name, linear: name == "2" and linear.out_features == 8)
    assert [type(child) for child in model] == [torch.nn.TransformerEncoderLayer, Fp4Linear, torch.nn.Linear]
    assert model(inputs(device, 2, 5, 64)).shape == (2, 5, 8)
    with pytest.raises(ValueError, match=r"from_linear"):
        quantize_linears(torch.nn.Linear(64, 32))


def test_backward_raises(device):
    x = inputs(device, 4, 96).requires_grad_()
    y = Fp4Linear.from_linear(linear(device))(x)
    with pytest.raises(RuntimeError, match=r"no backward"):
        y.sum().backward()


def test_bad_arguments(device):
    layer = Fp4Linear.from_linear(linear(device))
    scales = fp4aot.unswizzle_scales(layer.weight_scales, 72, 96 // 16)
    with pytest.raises(ValueError, match=r"bias is torch.float64 of shape \(5,\)"):
        Fp4Linear.from_tensors(layer.weight_codes, scales, bias=torch.zeros(5, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"last dimension must be 96"):
        layer(inputs(device, 4, 64))
    with pytest.raises(TypeError, match=r"must be a torch.nn.Linear"):
        Fp4Linear.from_linear(layer)


def test_sizes_that_do_not_fit():
    for sizes in ((40, 64), (64, 12), (0, 8)):
        with pytest.raises(ValueError, match=r"multiples of 32 and 8"):
            Fp4Linear(*sizes)
    with pytest.raises(ValueError, match=r"'nvfp4' or 'mxfp4'"):
        Fp4Linear(64, 64, format="int4")


@pytest.mark.parametrize("format", FORMATS)
def test_compile(device, format):
    layer = Fp4Linear.from_linear(linear(device), format)
    x = inputs(device, 11, 96)
    with torch.no_grad():
        assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), layer(x))


@pytest.mark.parametrize(
    ("input_size", "weight_size", "tolerance"),
    [(1e-25, 1e-10, 1e-3), (1e-10, 1e-25, 1e-3), (1e-20, 1e-15, 1e-3), (1e-30, 1e20, 2e-6), (1e20, 1e10, 2e-6)],
)
def test_sizes_far_from_one(device, input_size, weight_size, tolerance):
    """The product of the global scales may overflow where alpha does not; a subnormal alpha has 10 bits here."""
    old = linear(device, bias=False)
    with torch.no_grad():
        old.weight.mul_(weight_size)
    layer, x = Fp4Linear.from_linear(old), inputs(device, 5, 96) * input_size
    scale = fp4aot.nvfp4_global_scale(x)
    assert torch.isfinite(scale * layer.weight_global_scale) == (input_size * weight_size > 1e-34)
    exact = fp4aot.dequantize_nvfp4(*fp4aot.quantize_nvfp4(x, scale), scale, dtype=torch.float32)
    wanted = exact.double() @ layer.dequantized_weight().double().T
    assert relative(layer(x), wanted) < tolerance


def test_quantize_linears_keeps_ties(device):
    shared, other = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
    model = torch.nn.Sequential(shared, shared, torch.nn.Sequential(other, shared), other).to(device)
    x = inputs(device, 3, 64)
    quantize_linears(model)
    assert isinstance(model[0], Fp4Linear)
    assert model[0] is model[1] is model[2][1]
    assert isinstance(model[3], Fp4Linear)
    assert model[2][0] is model[3] is not model[0]
    assert torch.equal(model(x), model[3](model[0](model[3](model[0](model[0](x))))))
    kept = torch.nn.Sequential(shared, shared, other)
    quantize_linears(kept, skip=lambda name, linear: name == "1")
    assert kept[0] is kept[1] is shared, "skipped in one place"
    encoder = torch.nn.TransformerEncoderLayer(64, 4, 64, batch_first=True)
    model = torch.nn.Sequential(encoder.linear1, encoder)
    quantize_linears(model)
    assert model[0] is encoder.linear1
    assert type(model[0]) is torch.nn.Linear


def test_from_tensors_refuses(device):
    layer = Fp4Linear.from_linear(linear(device))
    codes, scales = layer.weight_codes, fp4aot.unswizzle_scales(layer.weight_scales, 72, 96 // 16)
    with pytest.raises(ValueError, match=r"float8_e8m0fnu; those of nvfp4 are torch.float8_e4m3fn"):
        Fp4Linear.from_tensors(codes, scales.view(torch.float8_e8m0fnu))
    with pytest.raises(ValueError, match=r"float8_e4m3fn; those of mxfp4 are torch.float8_e8m0fnu"):
        Fp4Linear.from_tensors(codes, scales[:, :3].contiguous(), format="mxfp4")
    with pytest.raises(ValueError, match=r"codes are torch.int8 .* uint8"):
        Fp4Linear.from_tensors(codes.view(torch.int8), scales)
    with pytest.raises(ValueError, match=r"global_scale is \(2,\); it must be a tensor of one number"):
        Fp4Linear.from_tensors(codes, scales, torch.ones(2, device=device))
    with pytest.raises(ValueError, match=r"'nvfp4' or 'mxfp4'"):
        Fp4Linear.from_tensors(codes, scales, format="int4")
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"finite and > 0"):
            Fp4Linear.from_tensors(codes, scales, torch.tensor(bad))
    x = inputs(device, 3, 96)
    made = Fp4Linear.from_tensors(codes, scales.view(torch.uint8), layer.weight_global_scale.reshape(1), layer.bias)
    assert torch.equal(made(x), layer(x))


@pytest.mark.parametrize("margin", ["1.5", None, True, [1.0], torch.tensor(True)])
def test_margin_is_a_number(device, margin):
    layer = Fp4Linear.from_linear(linear(device))
    with pytest.raises(TypeError, match=r"Fp4Linear\.calibrate: margin is .*; it must be a number\."):
        layer.calibrate(inputs(device, 3, 96), margin)
    assert layer.input_global_scale is None
    layer.calibrate(inputs(device, 3, 96), np.float32(2))


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan"), float("inf")])
def test_margin(device, margin):
    layer = Fp4Linear.from_linear(linear(device))
    with pytest.raises(ValueError, match=r"margin is .* greater than zero"):
        layer.calibrate(inputs(device, 3, 96), margin)
    assert layer.input_global_scale is None
    layer.calibrate(inputs(device, 3, 96), 2.0)
    assert layer.input_global_scale == fp4aot.nvfp4_global_scale(inputs(device, 3, 96)) / 2


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(device, format, dtype):
    """The input is converted first, and the output has autocast's dtype, as with torch.nn.Linear."""
    old = linear(device)
    layer, x = Fp4Linear.from_linear(old, format), inputs(device, 5, 96)
    kind = torch.device(device).type
    with torch.no_grad(), torch.autocast(kind, dtype=dtype):
        out = layer(x)
        assert out.dtype == old(x).dtype == dtype
        with torch.autocast(kind, enabled=False):
            assert layer(x).dtype == torch.float32
    assert torch.equal(out, layer(x.to(dtype)))
    assert layer(x).dtype == torch.float32
    with torch.autocast(kind, dtype=dtype):
        assert torch.equal(layer(x.requires_grad_()), out)
