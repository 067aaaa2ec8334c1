"""Calls that must go to torch's dispatcher: what it has to see, and every error."""

import fp4aot
import pytest
import torch
from fast_calls import (
    DISPATCHED,
    Dispatches,
    bound,
    gemm_arguments,
    needed,
    same,
    values,
)
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = needed


class Sub(torch.Tensor):
    pass


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def quiet_after(enter) -> bool:
    """Whether the fast path is taken where `enter` calls what it is given."""
    arguments = gemm_arguments()
    seen = []

    def inside(*_):
        seen.append(bound("gemm_nvfp4")(*arguments) is not DISPATCHED)
        return torch.zeros(3)

    enter(inside)
    assert seen
    assert bound("gemm_nvfp4")(*arguments) is not DISPATCHED, "and again afterwards"
    return any(seen)


def within(manager):
    def enter(inside):
        with manager():
            inside()

    return enter


def pre_dispatch_trace(inside):
    from torch.fx.experimental.proxy_tensor import make_fx

    make_fx(inside, pre_dispatch=True)(torch.zeros(3))


def fx_trace(inside):
    from torch.fx.experimental.proxy_tensor import make_fx

    make_fx(inside)(torch.zeros(3))


def profiled():
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


def fake_mode():
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode()


STATES = {
    "function mode": within(Functions),
    "default device": within(lambda: torch.device("cpu")),
    "dispatch mode": within(Dispatches),
    "fake mode": within(fake_mode),
    "profiler": within(profiled),
    "autograd profiler": within(torch.autograd.profiler.profile),
    "autocast": within(lambda: torch.autocast("cpu")),
    "vmap": lambda inside: torch.func.vmap(inside)(torch.zeros(2, 3)),
    "grad": lambda inside: torch.func.grad(lambda x: (inside(), (x * x).sum())[1])(torch.zeros(3)),
    "jvp": lambda inside: torch.func.jvp(lambda x: (inside(), x)[1], (torch.zeros(3),), (torch.zeros(3),)),
    "functionalize": lambda inside: torch.func.functionalize(inside)(torch.zeros(3)),
    "jit trace": lambda inside: torch.jit.trace(lambda x: (inside(), x + 1)[1], (torch.zeros(3),), check_trace=False),
    "make_fx": fx_trace,
    "pre-dispatch trace": pre_dispatch_trace,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("state", STATES)
def test_states_that_the_dispatcher_must_see(state):
    assert not quiet_after(STATES[state])


def test_a_profiler_names_the_op():
    arguments = gemm_arguments()
    with profiled() as profile:
        fp4aot.gemm_nvfp4(*arguments[:4])
    assert any(event.name == "fp4aot::gemm_nvfp4" for event in profile.events())


def test_a_mode_is_shown_the_op():
    seen = []

    class Sees(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x = values((4, 32))
    with Sees():
        fp4aot.quantize_nvfp4(x)
    assert seen == ["fp4aot.quantize_nvfp4.default"]


def negative(tensor):
    return torch._neg_view(tensor)


def nested(tensor):
    return torch.nested.nested_tensor([tensor.float(), tensor.float()])


UNUSUAL = {
    "subclass": lambda x: x.as_subclass(Sub),
    "parameter's subclass": lambda x: type("P", (torch.nn.Parameter,), {})(x, requires_grad=False),
    "requires grad": lambda x: x.clone().requires_grad_(),
    "meta": lambda x: x.to("meta"),
    "sparse": lambda x: x.to_sparse(),
    "sparse rows": lambda x: x.to_sparse_csr(),
    "mkldnn": lambda x: x.float().to_mkldnn(),
    "quantised": lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8),
    "nested": nested,
    "functional": torch._to_functional_tensor,
    "negative view": lambda x: negative(x.float()),
    "efficient zero": lambda x: torch._efficientzerotensor(x.shape, dtype=x.dtype),
    "empty": lambda x: x[:0],
    "no columns": lambda x: x[:, :0],
    "transposed": lambda x: x.t().contiguous().t(),
    "every second column": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "rows that do not collapse": lambda x: x.reshape(2, 4, 32).transpose(0, 1),
    "scalar": lambda x: x[0, 0],
    "float64": lambda x: x.double(),
    "int32": lambda x: x.int(),
    "complex": lambda x: x.to(torch.complex64),
    "nine dimensions": lambda x: x.reshape(1, 1, 1, 1, 1, 1, 1, 8, 32),
    "None": lambda x: None,
    "list": lambda x: x.tolist(),
    "NumPy": lambda x: x.float().numpy(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", UNUSUAL)
def test_tensors_that_the_dispatcher_must_see(kind):
    x = UNUSUAL[kind](values((8, 32)))
    assert bound("quantize_nvfp4")(x) is DISPATCHED
    assert bound("quantize_mxfp4")(x) is DISPATCHED
    assert bound("silu_mul_quantize_nvfp4")(x) is DISPATCHED
    if kind != "every second column":  # rows of a product may not be reached either as any operand
        for index in (0, 1, 2, 3, 5, 6):
            arguments = gemm_arguments()
            arguments[index] = x if x is not None or index < 4 else ()
            assert bound("gemm_nvfp4")(*arguments) is DISPATCHED, index


def test_an_imaginary_part_is_not_read_with_the_wrong_sign():
    """The imaginary part of a conjugate is a float tensor whose memory holds the other sign."""
    x = values((5, 64))
    scale = torch.tensor(1 - 3j, dtype=torch.complex64).conj().imag
    assert scale.is_neg()
    assert scale.item() == 3
    assert bound("quantize_nvfp4")(x, scale) is DISPATCHED
    assert all(map(same, fp4aot.quantize_nvfp4(x, scale), fp4aot.quantize_nvfp4(x, torch.tensor(3.0))))


@pytest.mark.cuda
def test_devices_that_differ():
    on_cpu, on_cuda = gemm_arguments(device="cpu"), gemm_arguments(device="cuda")
    for index in (1, 2, 3, 5, 6):
        arguments = list(on_cuda)
        arguments[index] = on_cpu[index]
        assert bound("gemm_nvfp4")(*arguments) is DISPATCHED, index
    assert bound("quantize_nvfp4")(values((4, 32), device="cuda"), torch.ones(())) is DISPATCHED
