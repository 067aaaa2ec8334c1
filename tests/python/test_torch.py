"""torch.ops.fp4aot.*: torch.compile, opcheck, fakes, schemas."""

import fp4aot
import installed
import numpy as np
import pytest
import torch
from operands import Operand

NAMES = [
    "quantize_nvfp4",
    "quantize_mxfp4",
    "silu_mul_quantize_nvfp4",
    "silu_mul_quantize_mxfp4",
    "rmsnorm_quantize_nvfp4",
    "dequantize_nvfp4",
    "dequantize_mxfp4",
    "nvfp4_global_scale",
    "swizzle_scales",
    "unswizzle_scales",
    "gemm_nvfp4",
    "gemm_mxfp4",
]
BF16 = torch.bfloat16


def arguments(name: str, device: str) -> tuple:
    """Positional arguments of the functional op `name`."""
    rng = np.random.default_rng(0)
    format = "mxfp4" if "mxfp4" in name else "nvfp4"
    x = torch.randn(6, 64, dtype=torch.float32, generator=torch.Generator().manual_seed(0)).to(BF16).to(device)
    scale = torch.tensor([3.0], device=device)
    a, b = Operand(rng, 6, 64, format, device), Operand(rng, 16, 64, format, device)
    return {
        "quantize_nvfp4": (x, scale),
        "quantize_mxfp4": (x, 1, 1),
        "silu_mul_quantize_nvfp4": (x, scale),
        "silu_mul_quantize_mxfp4": (x,),
        "rmsnorm_quantize_nvfp4": (x, torch.ones(64, dtype=BF16, device=device), scale, 1e-6, x.clone()),
        "dequantize_nvfp4": (a.packed, a.swizzled(), scale, torch.float32),
        "dequantize_mxfp4": (a.packed, a.swizzled(), BF16),
        "nvfp4_global_scale": (x,),
        "swizzle_scales": (torch.from_numpy(a.scales).to(device),),
        "unswizzle_scales": (a.swizzled(), 6, 64 // (32 if format == "mxfp4" else 16)),
        "gemm_nvfp4": (
            a.packed,
            b.packed,
            a.swizzled(),
            b.swizzled(),
            torch.float16,
            scale,
            torch.ones(16, device=device),
        ),
        "gemm_mxfp4": (a.packed, b.packed, a.swizzled(), b.swizzled(), torch.float32),
    }[name]


def out_arguments(name: str, device: str) -> tuple:
    """Positional arguments of `name`_out: its outputs, then the rest without a dtype or a size."""
    given = arguments(name, device)
    results = getattr(torch.ops.fp4aot, name)(*given)
    results = results if isinstance(results, tuple) else (results,)
    rest = [value for value in given if not isinstance(value, torch.dtype)]
    if name == "unswizzle_scales":
        rest = rest[:1]
    return (*(torch.zeros_like(result) for result in results), *rest)


def as_uint8(values: tuple) -> tuple:
    """Scales as uint8: opcheck does arithmetic on its inputs, which torch cannot do in the 8-bit float types."""
    small = (torch.float8_e4m3fn, torch.float8_e8m0fnu)
    return tuple(v.view(torch.uint8) if isinstance(v, torch.Tensor) and v.dtype in small else v for v in values)


def test_every_op_is_registered_and_fakes_exist():
    import fp4aot.torch_ops

    registered = {
        name.partition("::")[2] for name in torch._C._dispatch_get_all_op_names() if name.startswith("fp4aot::")
    }
    assert registered >= {name + suffix for name in NAMES for suffix in ("", "_out")}
    for name in NAMES:
        assert hasattr(fp4aot, name), name


@pytest.mark.parametrize("name", NAMES)
def test_opcheck(device, name):
    fp4aot.image_name(device)
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(getattr(torch.ops.fp4aot, name).default, as_uint8(arguments(name, device)), test_utils=tests)


@pytest.mark.parametrize("name", NAMES)
def test_opcheck_out(device, name):
    fp4aot.image_name(device)
    tests = ("test_schema", "test_faketensor")
    op = getattr(torch.ops.fp4aot, f"{name}_out").default
    torch.library.opcheck(op, as_uint8(out_arguments(name, device)), test_utils=tests)


@pytest.mark.parametrize("name", NAMES)
def test_schema_says_what_is_mutated(name):
    assert hasattr(fp4aot, name)
    functional = getattr(torch.ops.fp4aot, name).default._schema
    mutated = [
        argument.name for argument in functional.arguments if argument.alias_info and argument.alias_info.is_write
    ]
    assert mutated == (["residual"] if name.startswith("rmsnorm") else [])
    out = getattr(torch.ops.fp4aot, f"{name}_out").default._schema
    mutated = [argument.name for argument in out.arguments if argument.alias_info and argument.alias_info.is_write]
    expected = {"quantize": ["codes", "scales"]}.get(name.split("_")[-2])
    if expected is None:
        assert len(mutated) == 1
    else:
        assert mutated[:2] == expected
        assert mutated[2:] == (["residual"] if name.startswith("rmsnorm") else [])


def layer(x, weight, w_codes, w_scales, w_global, bias):
    x_global = fp4aot.nvfp4_global_scale(x)
    codes, scales = fp4aot.quantize_nvfp4(x, x_global)
    y = fp4aot.gemm_nvfp4(codes, w_codes, scales, w_scales, 1 / (x_global * w_global), bias, out_dtype=torch.bfloat16)
    codes, scales = fp4aot.silu_mul_quantize_mxfp4(y)
    y = fp4aot.dequantize_mxfp4(codes, scales, dtype=torch.float32)
    codes, scales = fp4aot.rmsnorm_quantize_nvfp4(y, weight)
    return fp4aot.dequantize_nvfp4(codes, scales, dtype=torch.float32) + 1


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile_fullgraph(device, dynamic, backend):
    if backend == "inductor":
        installed.compiler()  # inductor needs one
    torch.compiler.reset()
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(128, 64, generator=generator).to(BF16).to(device)
    w_global = fp4aot.nvfp4_global_scale(w)
    w_codes, w_scales = fp4aot.quantize_nvfp4(w, w_global)
    bias, weight = torch.randn(128, generator=generator).to(device), torch.ones(64, device=device)
    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend=backend)
    for rows in (5, 130) if dynamic else (5,):
        x = torch.randn(rows, 64, generator=generator).to(BF16).to(device)
        with torch.no_grad():
            expected = layer(x, weight, w_codes, w_scales, w_global, bias)
            got = compiled(x, weight, w_codes, w_scales, w_global, bias)
        if backend == "aot_eager":
            assert torch.equal(got, expected)
        else:  # its own kernels divide with another rounding, which FP4 may make one step of
            assert torch.linalg.norm(got - expected) <= 0.03 * torch.linalg.norm(expected)


def test_compile_keeps_mutations(device):
    """residual and out= are updated under torch.compile as they are without it."""

    def function(x, weight, residual, codes, scales):
        fp4aot.rmsnorm_quantize_nvfp4(x, weight, residual=residual, out=(codes, scales))
        return residual * 2

    x, weight = torch.randn(4, 32, device=device), torch.ones(32, device=device)
    codes = torch.zeros(4, 16, dtype=torch.uint8, device=device)
    scales = torch.zeros(128, 4, dtype=torch.uint8, device=device).view(torch.float8_e4m3fn)
    eager = [torch.ones(4, 32, device=device), codes.clone(), scales.clone()]
    traced = [torch.ones(4, 32, device=device), codes.clone(), scales.clone()]
    first = function(x, weight, *eager)
    second = torch.compile(function, fullgraph=True, backend="aot_eager")(x, weight, *traced)
    assert torch.equal(first, second)
    assert torch.equal(eager[0], x + 1)
    for one, two in zip(eager, traced, strict=True):
        assert torch.equal(one.view(torch.uint8), two.view(torch.uint8))


def test_meta_tensors():
    codes, scales = fp4aot.quantize_nvfp4(torch.empty(130, 80, device="meta", dtype=BF16))
    assert codes.shape == (130, 40)
    assert codes.dtype == torch.uint8
    assert scales.shape == (256, 8)
    assert scales.dtype == torch.float8_e4m3fn


def test_no_backward_is_said():
    """Gradients do not vanish silently: torch warns that the ops have none."""
    x = torch.randn(4, 32, requires_grad=True)
    codes, scales = fp4aot.quantize_nvfp4(x)
    assert not codes.requires_grad
    out = fp4aot.dequantize_nvfp4(codes, scales)
    if out.requires_grad:
        with pytest.warns(UserWarning, match="autograd kernel was not registered"):
            out.sum().backward()
