"""The fast path and the process: memory, threads, streams, and a torch or a build that has it not."""

import contextlib
import gc
import os
import sys
import threading
from pathlib import Path

import installed
import pytest
import torch
from fast_calls import DISPATCHED, Dispatches, bind, bound, gemm_arguments, needed, outcome, slow, values
from fp4aot import _fast_path

pytestmark = needed


def resident() -> int:
    """Bytes of memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("kind", ["taken", "dispatched", "refused"])
def test_nothing_leaks(kind):
    arguments = gemm_arguments(leading=(1,), n=8, k=32)
    x, scale = values((1, 32)), torch.ones(())
    out, outputs = bound("gemm_nvfp4")(*arguments), bound("quantize_nvfp4")(x, scale)
    if kind == "dispatched":
        arguments[7] = True  # a bool for a number: torch's parser decides
    if kind == "refused":
        arguments[5] = torch.ones(3)
    gemm = bind("gemm_nvfp4", slow("gemm_nvfp4").default._op)
    held = [*arguments[:4], *arguments[5:7], x, scale, out, *outputs]
    counts = [sys.getrefcount(tensor) for tensor in held]

    def call():
        if kind == "taken":
            y = gemm(*arguments)
            assert sys.getrefcount(y) == 2
            bound_out(out, *arguments[:4], *arguments[5:])
            quantize(x, scale)
            quantize_out(*outputs, x, scale)
        else:
            outcome(gemm, arguments)

    bound_out, quantize, quantize_out = map(bound, ("gemm_nvfp4_out", "quantize_nvfp4", "quantize_nvfp4_out"))
    for _ in range(2000):
        call()
    gc.collect()
    before = resident()
    for _ in range(25000 if kind == "taken" else 5000):
        call()
    gc.collect()
    assert resident() - before < 2 << 20, "less than a tensor in ten calls"
    assert [sys.getrefcount(tensor) for tensor in held] == counts


def test_bound_functions_are_released():
    class Callable:
        def __call__(self, *arguments):
            return DISPATCHED

    target = Callable()
    count = sys.getrefcount(target)
    for name in ("gemm_nvfp4", "quantize_mxfp4_out", "no_such_op"):
        for _ in range(10):
            function = bind(name, target)
            assert function() is DISPATCHED
        del function
    assert sys.getrefcount(target) == count
    assert bind("dequantize_nvfp4", target) is target, "an op without a fast function"


def test_threads(device):
    arguments = gemm_arguments(device=device, leading=(16,), n=64, k=256)
    expected = slow("gemm_nvfp4")(*arguments[:4], torch.bfloat16, *arguments[5:])
    wrong, call = [], bound("gemm_nvfp4")

    def work():
        for _ in range(200):
            y = call(*arguments)
            if y is DISPATCHED or not torch.equal(y, expected):
                wrong.append(y)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    with Dispatches():  # one thread's mode is not the others'
        assert call(*arguments) is DISPATCHED
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.cuda
def test_cuda_streams_graphs_and_allocator():
    arguments = gemm_arguments(device="cuda", n=32)
    call = bound("gemm_nvfp4")
    expected = call(*arguments)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        y = call(*arguments)  # on this stream: after the wait
        assert not side.query()
    side.synchronize()
    assert torch.equal(y, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = call(*arguments)
        codes, _ = bound("quantize_nvfp4")(y)
    assert y is not DISPATCHED
    y.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, expected)
    assert torch.equal(codes, slow("quantize_nvfp4")(expected)[0])
    # The allocator knows the outputs as its own, so that record_stream holds a block until the other stream is done.
    y = call(*arguments)
    address = y.data_ptr()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
    y.record_stream(side)
    del y
    held = [torch.empty_like(expected) for _ in range(50)]
    assert all(tensor.data_ptr() != address for tensor in held)


# --- where it is not there ---


def test_without_the_module_everything_works():
    output = installed.python("""
import sys, torch
sys.modules["fp4aot._torch_fast"] = None  # as where its import fails
import fp4aot
print(fp4aot.quantize_nvfp4(torch.full((1, 16), 6.0))[0].tolist())
from fp4aot import torch_ops
print(torch_ops.fast_path_is_on)
""").stdout.splitlines()
    assert output[0] == str([[0x77] * 8]), "6 is e2m1's largest"
    assert output[1] == "False"


def test_when_it_is_not_used(monkeypatch):
    def is_off(patch) -> bool:
        with monkeypatch.context() as context:
            patch(context)
            return _fast_path.load() is None

    assert not is_off(lambda context: None)
    assert is_off(lambda context: context.setenv("FP4AOT_FAST_PATH", "0"))
    assert is_off(lambda context: context.delattr(torch._C, "_increment_version"))
    # Modes that the module does not see, as in a torch that keeps them elsewhere.
    for mode in ("TorchFunctionMode", "TorchDispatchMode"):
        assert is_off(lambda context, mode=mode: context.setattr(_fast_path, mode, contextlib.nullcontext)), mode
    with Dispatches():
        assert _fast_path.load() is None, "imported under a mode: nothing can be tried"
    assert _fast_path.load() is not None


class NotATensor:
    """A class whose objects hold no tensor."""


@pytest.mark.parametrize("tensor", [object, NotATensor, int, torch.nn.Parameter])
def test_objects_that_do_not_hold_a_tensor_are_not_read(tensor):
    """As in a torch whose Python objects keep it elsewhere. (A new tensor is no torch.nn.Parameter.)"""
    from fp4aot._torch_fast import set_up

    with pytest.raises(NotImplementedError):
        set_up(tensor, torch.nn.Parameter, torch._C._increment_version)
    assert bound("gemm_nvfp4")(*gemm_arguments()) is not DISPATCHED, "what was set up stays"
