"""W4A16 on a GPU: graphs, programmatic launches, streams, and agreement with the CPU."""

import fp4aot
import numpy as np
import pytest
import torch
from operands import Operand, floats_of
from w4a16_operands import FORMATS, HALVES, activations, gemm, prepare

pytestmark = pytest.mark.cuda

ROWS = [1, 16, 48, 333]


def operands(format: str, m: int, dtype: str = "bf16"):
    rng = np.random.default_rng(m)
    return activations(rng, m, 1024, dtype, "cuda"), prepare(Operand(rng, 512, 1024, format, "cuda"))


def chain(format, a, weight, back, pdl):
    """Four products in a row, each reading what the one before wrote."""
    for _ in range(2):
        hidden = gemm(format, a, weight, pdl=pdl)
        a = gemm(format, hidden, back, torch.full((1,), 2.0**-9, device="cuda"), pdl=pdl)
    return a


def chain_weights(format: str):
    rng = np.random.default_rng(0)
    return prepare(Operand(rng, 512, 1024, format, "cuda")), prepare(Operand(rng, 1024, 512, format, "cuda"))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("m", ROWS)
def test_graph_gives_what_eager_gives(format, m):
    fp4aot.preload("cuda")
    weight, back = chain_weights(format)
    a = torch.zeros(m, 1024, dtype=torch.bfloat16, device="cuda")
    with torch.no_grad():
        chain(format, a, weight, back, pdl=False)
        graphs = []
        for pdl in (False, True):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = chain(format, a, weight, back, pdl)
            graphs.append((graph, out))
        for seed in range(3):
            a.copy_(activations(np.random.default_rng(seed), m, 1024, "bf16", "cuda"))
            wanted = chain(format, a, weight, back, pdl=False)
            assert wanted.any()
            for graph, out in graphs:
                graph.replay()
                assert torch.equal(out, wanted), seed


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("m", ROWS)
def test_pdl(format, m):
    """Chains of programmatic launches give what ordinary ones give, over and over."""
    weight, back = chain_weights(format)
    with torch.no_grad():
        for seed in range(20):
            a = activations(np.random.default_rng(seed), m, 1024, "bf16", "cuda")
            wanted = chain(format, a, weight, back, pdl=False)
            assert torch.equal(chain(format, a, weight, back, pdl=True), wanted)


def test_weights_prepared_on_another_stream():
    """Each op runs on torch's current stream."""
    rng = np.random.default_rng(2)
    b, a = Operand(rng, 512, 1024, "nvfp4", "cuda"), activations(rng, 8, 1024, "bf16", "cuda")
    wanted = gemm("nvfp4", a, prepare(b))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        out = gemm("nvfp4", a, prepare(b))
    stream.synchronize()
    assert torch.equal(out, wanted)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("m", ROWS)
def test_agrees_with_the_cpu(format, m, dtype):
    """The same prepared bytes, and products equal up to the order of summation."""
    a, weight = operands(format, m, dtype)
    here = weight.to("cpu")
    out = floats_of(gemm(format, a, weight, out_dtype=torch.float32)).astype(np.float64)
    cpu = floats_of(gemm(format, a.cpu(), here, out_dtype=torch.float32)).astype(np.float64)
    assert np.linalg.norm(out - cpu) < 2e-6 * np.linalg.norm(cpu)


def test_a_weight_on_another_device_is_refused():
    a, weight = operands("nvfp4", 4)
    with pytest.raises(ValueError, match="b is on cpu, but the first tensor is on cuda"):
        gemm("nvfp4", a, weight.to("cpu"))
