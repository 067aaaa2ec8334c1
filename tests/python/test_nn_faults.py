"""The linear layers with what models and checkpoints bring: views, replaced weights, other types, wrong sizes."""

import copy

import fp4aot
import fp4aot.nn
import numpy as np
import pytest
import torch
from fp4aot.nn import Fp4Linear, W4A16Linear, quantize_linears

BF16, FP32, U8 = torch.bfloat16, torch.float32, torch.uint8
KINDS = [Fp4Linear, W4A16Linear]


def linear(k=64, n=24, bias=True) -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(k, n, bias=bias)


def checkpoint(format="nvfp4"):
    """Codes, linear scales and global scale of linear()'s weight."""
    weight = linear().weight.detach()
    if format == "mxfp4":
        return *fp4aot.quantize_mxfp4(weight, scale_layout="linear"), None
    scale = fp4aot.nvfp4_global_scale(weight)
    return *fp4aot.quantize_nvfp4(weight, scale, scale_layout="linear"), scale


def misplaced(tensor: torch.Tensor) -> torch.Tensor:
    """The same bytes a byte behind an aligned address, as in a mapped file."""
    flat = torch.zeros(tensor.numel() * tensor.itemsize + 1, dtype=U8)
    flat[1:] = tensor.contiguous().view(U8).reshape(-1)
    return flat[1:].view(tensor.dtype).reshape(tensor.shape)


VIEWS = {
    "transposed batch": lambda x: x.view(3, 2, 64).transpose(0, 1),
    "columns": lambda x: x.t().contiguous().t(),
    "expanded": lambda x: x[:1].expand(4, 64),
    "expanded in the middle": lambda x: x[:, None].expand(6, 2, 64),
    "rows a little apart": lambda x: torch.cat([x, x[:, :3]], 1)[:, :64],
    "an odd column on": lambda x: torch.cat([x[:, :1], x], 1)[:, 1:],
    "an odd address": lambda x: torch.cat([x.reshape(-1)[:1], x.reshape(-1)])[1:].view(6, 64),
    "overlapping rows": lambda x: x.reshape(-1).as_strided((5, 64), (8, 1)),
    "rows apart": lambda x: torch.cat([x, x[:, :8]], 1)[:, :64],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_that_are_views(device, kind, dtype, name):
    """As torch.nn.Linear, a layer takes views of every kind."""
    layer = kind.from_linear(linear().to(device))
    view = VIEWS[name](torch.randn(6, 64).to(dtype).to(device))
    copied = view.clone(memory_format=torch.contiguous_format)
    assert torch.equal(layer(view), layer(copied))
    if name != "an odd address":  # torch.compile cannot see it
        torch.compiler.reset()
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(view), layer(copied))


def test_views_that_the_ops_take_are_not_copied(monkeypatch):
    layer, seen = W4A16Linear.from_linear(linear()), []
    product = layer._product
    monkeypatch.setattr(layer, "_product", lambda x: seen.append(x.data_ptr()) or product(x))
    x = torch.randn(6, 80).to(BF16)
    for view in (x[:, :64], x[::2, 8:72], x[3, :64]):
        layer(view)
        assert seen[-1] == view.data_ptr()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("x", [np.ones((2, 64), np.float32), [1.0], None])
def test_inputs_that_are_no_tensors(kind, x):
    with pytest.raises(TypeError, match=rf"{kind.__name__}: x is a .*; it must be a torch.Tensor\."):
        kind.from_linear(linear())(x)


@pytest.mark.parametrize("kind", KINDS)
def test_from_linear_takes_the_weight_that_is_there(kind):
    """Not in_features and out_features, which torch.nn.Linear itself does not look at either."""
    torch.manual_seed(0)
    replaced = linear(bias=False)
    replaced.weight = torch.nn.Parameter(torch.randn(128, 32).t())  # and not contiguous
    plain = linear(128, 32, bias=False)
    plain.weight = torch.nn.Parameter(replaced.weight.detach().contiguous())
    made = kind.from_linear(replaced)
    assert (made.in_features, made.out_features) == (128, 32)
    x = torch.randn(3, 128)
    assert torch.equal(made(x), kind.from_linear(plain)(x))
    model = torch.nn.Sequential(replaced)
    replaced.weight = torch.nn.Parameter(torch.randn(24, 40))  # fits no layer of ours, whatever in_features is
    assert type(quantize_linears(model)[0]) is torch.nn.Linear


@pytest.mark.parametrize("kind", KINDS)
def test_from_linear_refuses_what_no_layer_can_have(kind):
    with pytest.raises(ValueError, match=r"from_linear: weight is torch.float64 .*bfloat16, float16 or float32"):
        kind.from_linear(linear().double())
    layer = linear()
    layer.bias = torch.nn.Parameter(torch.zeros(8))
    with pytest.raises(ValueError, match=r"from_linear: bias is torch.float32 of shape \(8,\).*\(24,\)"):
        kind.from_linear(layer)


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
@pytest.mark.parametrize("kind", KINDS)
def test_from_tensors_takes_views(kind, format):
    codes, scales, scale = checkpoint(format)
    bias = torch.randn(24)
    wanted = kind.from_tensors(codes, scales, scale, bias, format)
    x = torch.randn(5, 64)
    views = {
        "misplaced": (misplaced(codes), misplaced(scales), bias),
        "transposed": (codes.t().contiguous().t(), scales.view(U8).t().contiguous().t().view(scales.dtype), bias),
        "apart": (torch.cat([codes, codes[:, :3]], 1)[:, :32], scales, torch.stack([bias, bias], 1)[:, 0]),
        "a parameter": (codes, scales, torch.nn.Parameter(bias)),
    }
    for a, b, c in views.values():
        made = kind.from_tensors(a, b, scale, c, format)
        assert torch.equal(made(x), wanted(x))
        assert not made(x).requires_grad
        assert not list(made.parameters())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (torch.tensor(1e-45), "global_scale is 1.4.*e-45; .*finite and > 0 .*reciprocal"),
        (torch.tensor(1e300, dtype=torch.float64), r"global_scale is 1e\+300; .*in float32"),
        (torch.tensor(1e-300, dtype=torch.float64), r"global_scale is 1e-300; .*in float32"),
        (torch.tensor(2j), "global_scale is 2j; it must be a tensor of one number"),
    ],
)
def test_global_scales_whose_alpha_would_be_no_number(kind, scale, text):
    codes, scales, _ = checkpoint()
    with pytest.raises(ValueError, match=text):
        kind.from_tensors(codes, scales, scale)


@pytest.mark.parametrize("kind", KINDS)
def test_from_tensors_errors(kind):
    codes, scales, _ = checkpoint()
    with pytest.raises(TypeError, match=r"codes is a builtins.list; it must be a torch.Tensor"):
        kind.from_tensors([1], scales)
    with pytest.raises(TypeError, match=r"scales is a builtins.NoneType; it must be a torch.Tensor"):
        kind.from_tensors(codes, None)
    with pytest.raises(TypeError, match=r"bias is a builtins.list; it must be a torch.Tensor"):
        kind.from_tensors(codes, scales, bias=[0.0] * 24)
    with pytest.raises(ValueError, match=r"bias is .* on meta; .* on cpu"):
        kind.from_tensors(codes, scales, bias=torch.zeros(24, device="meta"))


@pytest.mark.parametrize("kind", KINDS)
def test_formats_and_sizes(kind):
    for format in ("fp4", ["nvfp4"], None):
        for call in (
            lambda format=format: kind(64, 16, format=format),
            lambda format=format: kind.from_tensors(*checkpoint(), format=format),
            lambda format=format: quantize_linears(torch.nn.Sequential(), format, weight_only=kind is W4A16Linear),
        ):
            with pytest.raises(ValueError, match="'nvfp4' or 'mxfp4'"):
                call()
    with pytest.raises(TypeError, match=r"in_features is 64.0; it must be an integer"):
        kind(64.0, 16)


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_loaded_as_bytes(kind, format, assign):
    """uint8 scales and float4 codes are taken bit for bit (torch would convert their values), at any address."""
    layer = kind.from_linear(linear(), format)
    state = {name: misplaced(value) if value.itemsize == 1 else value for name, value in layer.state_dict().items()}
    if kind is Fp4Linear:
        state["weight_scales"] = state["weight_scales"].view(U8)
        state["weight_codes"] = state["weight_codes"].view(torch.float4_e2m1fn_x2)
    if format == "nvfp4":
        name = "weight_alpha" if kind is W4A16Linear else "weight_global_scale"
        state[name] = state[name].double()
    fresh = kind(64, 24, format=format, dtype=FP32)
    fresh.load_state_dict(state, assign=assign)
    x = torch.randn(3, 64)
    assert torch.equal(fresh(x), layer(x))
    assert {name: buffer.dtype for name, buffer in fresh.named_buffers()} == {
        name: buffer.dtype for name, buffer in layer.named_buffers()
    }


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize(
    ("kind", "name", "dtype"),
    [
        (W4A16Linear, "weight", FP32),
        (W4A16Linear, "weight", torch.float8_e4m3fn),
        (Fp4Linear, "weight_codes", BF16),
        (Fp4Linear, "weight_scales", FP32),
        (Fp4Linear, "weight_scales", torch.float8_e8m0fnu),
    ],
)
def test_what_holds_no_such_bytes_is_not_loaded(kind, name, dtype, assign):
    layer = kind.from_linear(linear())
    before = getattr(layer, name).view(U8).clone()
    state = layer.state_dict()
    state[name] = torch.ones(state[name].shape).to(dtype)
    with pytest.raises(RuntimeError, match=rf"m\.{name} is {dtype}; it must be torch\."):
        torch.nn.ModuleDict({"m": layer}).load_state_dict(
            {f"m.{key}": value for key, value in state.items()}, assign=assign
        )
    assert torch.equal(getattr(layer, name).view(U8), before)


@pytest.mark.parametrize(("k", "n"), [(64, 32), (48, 24), (128, 16)])
@pytest.mark.parametrize("strict", [False, True])
def test_prepared_weights_of_other_sizes_are_not_loaded(k, n, strict):
    """They have as many bytes: 2 tiles."""
    layer = W4A16Linear(k, n, bias=False)
    state = W4A16Linear.from_linear(linear(bias=False)).state_dict()
    assert state["weight"].shape == layer.weight.shape
    with pytest.raises(RuntimeError, match=rf"weight is \[24, 64\] \(N, K\), but this layer is \[{n}, {k}\]"):
        layer.load_state_dict(state, strict=strict)


def test_sizes_in_the_state_dict():
    """They may be missing, and are right after to_empty and on a meta device."""
    layer = W4A16Linear.from_linear(linear(bias=False))
    state = layer.state_dict()
    assert state["weight_shape"].tolist() == [24, 64]
    x = torch.randn(3, 64)
    for empty in (
        W4A16Linear(64, 24, bias=False),
        W4A16Linear(64, 24, bias=False, device="meta").to_empty(device="cpu"),
        copy.deepcopy(layer).to("meta").to_empty(device="cpu").half(),
    ):
        assert empty.weight_shape.tolist() == [24, 64]
        empty.load_state_dict({name: value for name, value in state.items() if name != "weight_shape"})
        assert torch.equal(empty(x), layer(x))
    on_meta = W4A16Linear(64, 24, bias=False, device="meta")
    assert on_meta.weight_shape.is_meta
    on_meta.load_state_dict(state, assign=True)
    assert torch.equal(on_meta(x), layer(x))
    with pytest.raises(RuntimeError, match=r'Missing key.*"weight"'):
        layer.load_state_dict({})
