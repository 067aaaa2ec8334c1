"""The W4A16 ops as torch sees them: opcheck, schemas, fakes, torch.compile, versions of outputs."""

import fp4aot
import fp4aot.nn
import numpy as np
import pytest
import torch
from operands import Operand
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from w4a16_operands import FORMATS, activations, prepare

BF16 = torch.bfloat16
OPS = torch.ops.fp4aot
NAMES = [f"{kind}_w4a16_{format}" for kind in ("prepare", "restore", "gemm") for format in FORMATS]


def operand(name: str, device: str) -> Operand:
    return Operand(np.random.default_rng(0), 16, 64, name.rpartition("_")[2], device)


def arguments(name: str, device: str) -> tuple:
    """Positional arguments of the functional op `name`; scales as uint8, which opcheck can calculate with."""
    b = operand(name, device)
    if name.startswith("prepare"):
        return b.packed, b.swizzled().view(torch.uint8)
    if name.startswith("restore"):
        return prepare(b).data, 16, 64
    a = activations(np.random.default_rng(1), 6, 64, "bf16", device)
    return a, prepare(b).data, 16, 64, torch.float16, torch.tensor([3.0], device=device), torch.ones(16, device=device)


def out_arguments(name: str, device: str) -> tuple:
    given = arguments(name, device)
    results = getattr(OPS, name)(*given)
    results = results if isinstance(results, tuple) else (results,)
    outputs = (
        torch.zeros_like(result).view(torch.uint8) if result.element_size() == 1 else result for result in results
    )
    return (*outputs, *(value for value in given if not isinstance(value, torch.dtype)))


@pytest.mark.parametrize("name", NAMES)
def test_opcheck(device, name):
    fp4aot.image_name(device)
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    if name.startswith("restore"):
        tests = tests[:2]  # its scales are of an 8-bit float type, which torch cannot compare
    torch.library.opcheck(getattr(OPS, name).default, arguments(name, device), test_utils=tests)


@pytest.mark.parametrize("name", NAMES)
def test_opcheck_out(device, name):
    fp4aot.image_name(device)
    op = getattr(OPS, f"{name}_out").default
    torch.library.opcheck(op, out_arguments(name, device), test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("name", NAMES)
def test_schema_says_what_is_mutated(name):
    def mutated(schema):
        return [argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write]

    assert mutated(getattr(OPS, name).default._schema) == []
    kind = name.partition("_")[0]
    expected = {"prepare": ["prepared"], "restore": ["codes", "scales"], "gemm": ["d"]}[kind]
    assert mutated(getattr(OPS, f"{name}_out").default._schema) == expected


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_compile_fullgraph(device, format, dynamic):
    """A PreparedWeight may be closed over and given, and out= is written."""
    torch.compiler.reset()
    b = operand(f"gemm_w4a16_{format}", device)
    closed, given = prepare(b), prepare(b)
    gemm = getattr(fp4aot, f"gemm_w4a16_{format}")

    def function(x, weight, alpha, out):
        gemm(x, closed, out=out)
        return gemm(x * 2, weight, alpha, out_dtype=torch.float32) + 1

    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    alpha = torch.tensor([0.5], device=device)
    for rows in (5, 130) if dynamic else (5,):
        x = activations(np.random.default_rng(rows), rows, 64, "bf16", device)
        outputs = [torch.zeros(rows, 16, dtype=BF16, device=device) for _ in range(2)]
        assert torch.equal(compiled(x, given, alpha, outputs[0]), function(x, given, alpha, outputs[1]))
        assert torch.equal(*outputs)
        assert outputs[0].any()


def test_meta_tensors():
    codes = torch.empty(24, 48, device="meta", dtype=torch.uint8)
    weight = fp4aot.prepare_w4a16_weights(codes, torch.empty(128, 8, device="meta", dtype=torch.uint8))
    assert weight.nbytes == weight.data.numel() == 2 * 2 * 576
    out = fp4aot.gemm_w4a16_nvfp4(torch.empty(2, 3, 96, device="meta", dtype=BF16), weight)
    assert (out.shape, out.dtype) == ((2, 3, 24), BF16)
    restored = weight.restore(scale_layout="linear")
    assert [tuple(part.shape) for part in restored] == [(24, 48), (24, 6)]
    assert restored[1].dtype == torch.float8_e4m3fn


def test_prepared_without_values(device):
    """Where nobody can look at the scales, preparing works all the same: a bad one becomes NaN."""
    b = operand("gemm_w4a16_nvfp4", device)
    scales = b.swizzled().view(torch.uint8)

    def data(codes, scales):
        return fp4aot.prepare_w4a16_weights(codes, scales).data

    torch.compiler.reset()
    compiled = torch.compile(data, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(b.packed, scales), prepare(b).data)
    assert torch.equal(make_fx(data)(b.packed, scales)(b.packed, scales), prepare(b).data)
    scales[0, 0] = 0x81
    with pytest.raises(ValueError, match="bit 7 set"):
        data(b.packed, scales)
    bad = fp4aot.PreparedWeight(compiled(b.packed, scales), 16, 64, "nvfp4")
    out = fp4aot.gemm_w4a16_nvfp4(torch.ones(1, 64, dtype=BF16, device=device), bad)
    assert out.isnan().tolist() == [[True] + [False] * 15]
    with FakeTensorMode() as mode:
        fake = fp4aot.prepare_w4a16_weights(mode.from_tensor(b.packed), mode.from_tensor(scales))
        layer = fp4aot.nn.W4A16Linear.from_linear(torch.nn.Linear(64, 16, device=device))
        assert fake.nbytes == layer.weight.numel() == 576
        assert layer(torch.ones(3, 64, dtype=BF16, device=device)).shape == (3, 16)
    assert fp4aot.gemm_w4a16_nvfp4(mode.from_tensor(torch.ones(3, 64, dtype=BF16, device=device)), fake).shape == (
        3,
        16,
    )


def test_every_output_counts_a_version(device):
    b = operand("gemm_w4a16_nvfp4", device)
    weight = prepare(b)
    out = torch.zeros(3, 16, dtype=BF16, device=device)
    before = out._version, weight.data._version
    fp4aot.gemm_w4a16_nvfp4(torch.ones(3, 64, dtype=BF16, device=device), weight, out=out)
    assert out._version > before[0]
    assert weight.data._version == before[1]
    with pytest.raises(RuntimeError, match=r"gemm_w4a16_nvfp4 writes to a tensor .* requires grad"):
        fp4aot.gemm_w4a16_nvfp4(torch.ones(3, 64, dtype=BF16, device=device), weight, out=out.requires_grad_())


@pytest.mark.parametrize("wanted", ["a", "alpha", "bias"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_backward_pass_raises(device, format, wanted):
    """Through the function, the op and a compiled graph. The product itself is the same; out= has no place for one."""
    name = f"gemm_w4a16_{format}"
    a, data, n, k, dtype, alpha, bias = arguments(name, device)
    weight = fp4aot.PreparedWeight(data, n, k, format)

    def function(a, alpha, bias, **options):
        return getattr(fp4aot, name)(a, weight, alpha, bias, out_dtype=dtype, **options)

    def op(a, alpha, bias):
        return getattr(OPS, name)(a, data, n, k, dtype, alpha, bias)

    expected = function(a, alpha, bias)
    given = {"a": a, "alpha": alpha, "bias": bias}
    given[wanted].requires_grad_()
    for call in (function, op):
        out = call(**given)
        assert torch.equal(out, expected)
        with pytest.raises(RuntimeError, match=rf"{name} has no backward.*no_grad\(\)"):
            out.float().sum().backward()
        assert given[wanted].grad is None
        with torch.no_grad():
            assert not call(**given).requires_grad
    torch.compiler.reset()
    with pytest.raises(RuntimeError, match="has no backward"):
        torch.compile(function, fullgraph=True, backend="aot_eager")(**given).float().sum().backward()
    out = torch.zeros_like(expected)
    with pytest.raises(RuntimeError, match=rf"{name}: an argument .* requires grad.*no_grad\(\)"):
        function(**given, out=out)
    assert not out.any()
    with torch.no_grad():
        assert torch.equal(function(**given, out=out), expected)


def bad_calls(device):
    """name: (call, text); the op and its fake refuse each."""

    def new(*shape, dtype=torch.uint8, on=device):
        return torch.zeros(shape, dtype=dtype, device=on)

    other = "cpu" if device == "meta" else "meta"
    x, codes, scales, prepared = new(4, 64, dtype=BF16), new(16, 32), new(128, 4), new(576)
    return {
        "codes": (lambda: OPS.prepare_w4a16_nvfp4(x, scales), "codes .*torch.uint8"),
        "rank": (lambda: OPS.prepare_w4a16_nvfp4(codes[None], scales), r"two dimensions, \[N, K/2\]; it has 3"),
        "n of codes": (lambda: OPS.prepare_w4a16_nvfp4(codes[:12], scales), "n = 12 .*multiple of 8"),
        "k of codes": (lambda: OPS.prepare_w4a16_mxfp4(codes[:, :24], scales), "k = 48 .*multiple of 32"),
        "linear": (lambda: OPS.prepare_w4a16_nvfp4(codes, scales[:, :3], 1), "scales .*linear scales are"),
        "few rows": (lambda: OPS.prepare_w4a16_nvfp4(codes, scales[:15], 1), "scales .*linear scales are"),
        "other scales": (
            lambda: OPS.prepare_w4a16_mxfp4(codes, scales.view(torch.float8_e4m3fn)),
            "scales is torch.float8_e4m3fn",
        ),
        "restore": (lambda: OPS.restore_w4a16_nvfp4(prepared, 24, 64), "576 bytes; .*N = 24, K = 64 have 1152"),
        "restore k": (lambda: OPS.restore_w4a16_nvfp4(prepared, 16, 40), "k = 40 .*multiple of 16"),
        "a": (lambda: OPS.gemm_w4a16_nvfp4(x.float(), prepared, 16, 64, BF16), "a is torch.float32; allowed are"),
        "a columns": (lambda: OPS.gemm_w4a16_nvfp4(x, prepared, 16, 48, BF16), r"a has 64 columns and b .*K = 48"),
        "n": (lambda: OPS.gemm_w4a16_nvfp4(x, prepared, 12, 64, BF16), "n = 12 .*multiple of 8"),
        "prepared": (lambda: OPS.gemm_w4a16_nvfp4(x, prepared[:500], 16, 64, BF16), "b has 500 bytes"),
        "prepared dtype": (lambda: OPS.gemm_w4a16_nvfp4(x, x, 16, 64, BF16), "b .*torch.uint8"),
        "out dtype": (lambda: OPS.gemm_w4a16_nvfp4(x, prepared, 16, 64, torch.int8), "out_dtype is torch.int8"),
        "bias": (
            lambda: OPS.gemm_w4a16_nvfp4(x, prepared, 16, 64, BF16, None, x[0, :8]),
            r"bias has shape \[8\].*\[16\]",
        ),
        "out shape": (
            lambda: OPS.gemm_w4a16_nvfp4_out(x[:, :8], x, prepared, 16, 64),
            r"has shape \[4, 8\].*\[4, 16\]",
        ),
        "device": (
            lambda: OPS.gemm_w4a16_nvfp4(x, new(576, on=other), 16, 64, BF16),
            f"b is on {other}.*first tensor is on {device}",
        ),
    }


@pytest.mark.parametrize("name", bad_calls("cpu"))
def test_a_fake_refuses_what_the_op_refuses(name):
    for device in ("cpu", "meta"):
        call, text = bad_calls(device)[name]
        with pytest.raises(ValueError, match=text):
            call()
