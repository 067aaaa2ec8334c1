"""Arguments that an op refuses: the fast path leaves them to the dispatcher, whose errors they get."""

import pytest
import torch
from fast_calls import DISPATCHED, bind, bound, gemm_arguments, needed, outcome, slow, values, w4a16_arguments
from fp4aot import torch_ops

pytestmark = needed


def changed(index: int, value) -> list:
    arguments = gemm_arguments()
    arguments[index] = value(arguments[index]) if callable(value) else value
    return arguments


BAD_PRODUCTS = {
    "other k": lambda: changed(0, lambda a: a[:, :16].contiguous()),
    "float codes": lambda: changed(0, lambda a: a.float()),
    "b of three dimensions": lambda: changed(1, lambda b: b[None]),
    "n not a multiple of 8": lambda: changed(1, lambda b: b[:20]),
    "short scales": lambda: changed(2, lambda scales: scales[:, :1].contiguous()),
    "scales of the other format": lambda: changed(3, lambda s: s.view(torch.float8_e8m0fnu)),
    "strided scales": lambda: changed(3, lambda s: torch.cat([s, s], 1)[:, ::2]),
    "out_dtype": lambda: changed(4, 7),
    "alpha of two": lambda: changed(5, torch.ones(2)),
    "double alpha": lambda: changed(5, torch.ones((), dtype=torch.float64)),
    "bias of another length": lambda: changed(6, torch.ones(23)),
    "int bias": lambda: changed(6, torch.ones(24, dtype=torch.int32)),
    "strided bias": lambda: changed(6, torch.ones(48)[::2]),
    "no such tactic": lambda: changed(7, 12345),
    "a tactic beyond int32": lambda: changed(7, 2**40),
    "a tactic beyond int64": lambda: changed(7, 2**80),
    "a tactic of another type": lambda: changed(7, "1"),
    "pdl of another type": lambda: changed(8, "yes"),
    "one too many": lambda: [*gemm_arguments(), 1],
    "too few": lambda: gemm_arguments()[:3],
    "nothing": lambda: [],
}


@pytest.mark.parametrize("case", BAD_PRODUCTS)
def test_errors_are_the_dispatched_ones(case):
    arguments = BAD_PRODUCTS[case]()
    assert bound("gemm_nvfp4")(*arguments) is DISPATCHED
    dispatched = slow("gemm_nvfp4").default._op
    kind, text = outcome(dispatched, arguments)
    assert kind is not None, "a bad call"
    assert outcome(bind("gemm_nvfp4", dispatched), arguments) == (kind, text)


BAD_W4A16 = {
    "float32 activations": (0, lambda a: a.float()),
    "other k": (0, lambda a: a[:, :32].contiguous()),
    "signed weights": (1, lambda b: b.view(torch.int8)),
    "strided weights": (1, lambda b: b.repeat_interleave(2)[::2]),
    "short weights": (1, lambda b: b[:-1]),
    "larger n": (2, 240),
    "n beyond memory": (2, 2**60),
    "n beyond int64": (2, 2**80),
    "no n": (2, 0),
    "negative n": (2, -24),
    "n of another type": (2, 24.0),
    "no k": (3, 0),
    "negative k": (3, -64),
    "n not a multiple of 8": (2, 20),
    "alpha of two": (5, torch.ones(2)),
    "no such tactic": (7, 12345),
}


@pytest.mark.parametrize("case", BAD_W4A16)
def test_errors_of_w4a16_are_the_dispatched_ones(case):
    index, value = BAD_W4A16[case]
    arguments = w4a16_arguments()
    arguments[index] = value(arguments[index]) if callable(value) else value
    assert bound("gemm_w4a16_nvfp4")(*arguments) is DISPATCHED
    dispatched = slow("gemm_w4a16_nvfp4").default._op
    kind, text = outcome(dispatched, arguments)
    assert outcome(bind("gemm_w4a16_nvfp4", dispatched), arguments) == (kind, text)
    assert kind is not None


BAD_OUTPUTS = {
    "shape": lambda: torch.empty(5, 16, dtype=torch.bfloat16),
    "rank": lambda: torch.empty(1, 5, 24, dtype=torch.bfloat16),
    "dtype": lambda: torch.empty(5, 24, dtype=torch.int32),
    "layout": lambda: torch.empty(24, 5, dtype=torch.bfloat16).t(),
    "overlapping rows": lambda: torch.empty(1, 24, dtype=torch.bfloat16).expand(5, 24),
    "requires grad": lambda: torch.empty(5, 24, requires_grad=True),
}


@pytest.mark.parametrize("case", BAD_OUTPUTS)
def test_output_errors_are_the_dispatched_ones(case):
    arguments = gemm_arguments()
    given = [BAD_OUTPUTS[case](), *arguments[:4], *arguments[5:]]
    assert bound("gemm_nvfp4_out")(*given) is DISPATCHED
    dispatched = torch_ops._writing("gemm_nvfp4", slow("gemm_nvfp4_out").default._op, slice(1))
    kind, text = outcome(dispatched, given)
    assert kind is not None
    assert outcome(bind("gemm_nvfp4_out", dispatched), given) == (kind, text)


def test_quantize_arguments_that_the_dispatcher_must_see():
    x, scale = values((5, 64)), torch.ones(())
    call = bound("quantize_nvfp4")
    assert call(values((5, 56))) is DISPATCHED  # k
    assert call(x, scale.double()) is DISPATCHED
    assert call(x, torch.ones(2)) is DISPATCHED
    assert call(x, scale, 2) is DISPATCHED
    assert call(x, scale, True) is DISPATCHED
    assert call(x, scale, 0, 1) is DISPATCHED
    assert call(x, scale, 0, False, None) is DISPATCHED
    assert bound("quantize_mxfp4")(x, 2) is DISPATCHED
    assert bound("silu_mul_quantize_nvfp4")(values((4, 33))) is DISPATCHED
    norm = bound("rmsnorm_quantize_nvfp4")
    weight, residual = values((64,)), values((5, 64))
    assert norm(x, weight.float(), scale, 1e-6, None) is DISPATCHED
    assert norm(x, weight[:32], scale, 1e-6, None) is DISPATCHED
    assert norm(x, weight, scale, 1, None) is DISPATCHED
    assert norm(x, weight, scale, -1.0, None) is DISPATCHED
    assert norm(x, weight, scale, 1e-6, residual[:4]) is DISPATCHED
    assert norm(x, weight, scale, 1e-6, residual.float()) is DISPATCHED
    assert norm(x, weight, scale, 1e-6, residual) is not DISPATCHED
    codes, scales = slow("quantize_nvfp4")(x)
    write = bound("quantize_nvfp4_out")
    assert write(codes, scales, x) is None
    assert write(codes[:4], scales, x) is DISPATCHED
    assert write(codes, scales[:64], x) is DISPATCHED
    assert write(codes, scales.view(torch.float8_e8m0fnu), x) is DISPATCHED
    assert write(codes.int(), scales, x) is DISPATCHED
    assert write(codes, scales, x, scale, 1) is DISPATCHED
