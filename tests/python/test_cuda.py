"""What only a GPU has: graphs, streams, programmatic launches, other devices' contexts, large tensors."""

import re
from pathlib import Path

import fp4aot
import installed
import numpy as np
import pytest
import reference
import torch
from c_abi import LAUNCH_FAILED
from operands import Operand, bytes_of, floats_of, random_rows

pytestmark = pytest.mark.cuda

BF16 = torch.bfloat16


@pytest.fixture
def weights():
    w = torch.randn(512, 1024, generator=torch.Generator().manual_seed(0)).to(BF16).cuda()
    w_global = fp4aot.nvfp4_global_scale(w)
    return (*fp4aot.quantize_nvfp4(w, w_global), w_global)


def layer(x, weights, pdl=False):
    """Five of our kernels in a row, each reading what the one before wrote."""
    w, w_scales, w_global = weights
    x_global = fp4aot.nvfp4_global_scale(x, pdl=pdl)
    codes, scales = fp4aot.quantize_nvfp4(x, x_global, pdl=pdl)
    y = fp4aot.gemm_nvfp4(codes, w, scales, w_scales, 1 / (x_global * w_global), pdl=pdl)
    codes, scales = fp4aot.silu_mul_quantize_mxfp4(y, pdl=pdl)
    return fp4aot.dequantize_mxfp4(codes, scales, dtype=torch.float32, pdl=pdl)


@pytest.mark.parametrize("rows", [1, 48, 700])
def test_graph_capture_and_replay(weights, rows):
    fp4aot.preload("cuda")
    x = torch.zeros(rows, 1024, dtype=BF16, device="cuda")
    with torch.no_grad():
        layer(x, weights)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = layer(x, weights)
        for seed in range(3):
            x.copy_(torch.randn(rows, 1024, generator=torch.Generator().manual_seed(seed)).to(BF16))
            graph.replay()
            assert torch.equal(out, layer(x, weights)), seed


CAPTURE_FIRST = """
import torch, fp4aot
fp4aot.preload("cuda")
x = torch.randn(64, 256, device="cuda")
b = torch.zeros(64, 128, dtype=torch.uint8, device="cuda")
s = torch.zeros(128, 16, dtype=torch.uint8, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    codes, scales = fp4aot.quantize_nvfp4(x)
    d = fp4aot.gemm_nvfp4(codes, codes, scales, scales)
graph.replay()
torch.cuda.synchronize()
expected = fp4aot.quantize_nvfp4(x)
assert torch.equal(codes, expected[0])
print("done")
"""


def test_capture_as_the_first_use_after_preload():
    """preload loads every kernel, so that a capture may be the first use."""
    assert "done" in installed.python(CAPTURE_FIRST).stdout


@pytest.mark.parametrize("rows", [1, 16, 333])
def test_pdl(weights, rows):
    """Chains of programmatic launches give what ordinary ones give, over and over."""
    with torch.no_grad():
        for seed in range(20):
            x = torch.randn(rows, 1024, generator=torch.Generator().manual_seed(seed)).to(BF16).cuda()
            expected = layer(x, weights)
            for _ in range(5):
                assert torch.equal(layer(x, weights, pdl=True), expected), seed


def test_pdl_overwrites_only_after_its_predecessor_has_read(weights):
    """Outputs of one launch are inputs of the one before: a kernel that writes before it waits corrupts them."""
    w, w_scales, w_global = weights
    first = torch.randn(2048, 1024, generator=torch.Generator().manual_seed(0)).to(BF16).cuda()
    second = torch.randn(2048, 1024, generator=torch.Generator().manual_seed(1)).to(BF16).cuda()
    scale = torch.tensor(300.0, device="cuda")
    codes, scales = fp4aot.quantize_nvfp4(first, scale)
    expected = fp4aot.gemm_nvfp4(codes, w, scales, w_scales, w_global)
    for _ in range(30):
        fp4aot.quantize_nvfp4(first, scale, out=(codes, scales), pdl=True)
        got = fp4aot.gemm_nvfp4(codes, w, scales, w_scales, w_global, pdl=True)
        fp4aot.quantize_nvfp4(second, scale, out=(codes, scales), pdl=True)  # overwrites what the product reads
        assert torch.equal(got, expected)


def test_pdl_alpha_and_bias_of_the_predecessor(weights):
    """alpha and bias may be written by the kernel just before."""
    w, w_scales, _ = weights
    x = torch.randn(64, 1024, generator=torch.Generator().manual_seed(0)).cuda()
    codes, scales = fp4aot.quantize_nvfp4(x)
    alpha = torch.empty((), device="cuda")
    for step in range(50):
        values = torch.full((4096, 1024), 2688.0 / (step + 1), device="cuda")
        fp4aot.nvfp4_global_scale(values, out=alpha, pdl=True)  # alpha = step + 1, up to a rounding
        got = fp4aot.gemm_nvfp4(codes, w, scales, w_scales, alpha, out_dtype=torch.float32, pdl=True)
        expected = fp4aot.gemm_nvfp4(codes, w, scales, w_scales, alpha.clone(), out_dtype=torch.float32)
        assert torch.equal(got, expected), step


def test_streams(weights):
    """Work goes to the caller's current stream: independent chains on several streams do not disturb each other."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    inputs = [torch.randn(200, 1024, generator=torch.Generator().manual_seed(i)).to(BF16).cuda() for i in range(4)]
    with torch.no_grad():
        expected = [layer(x, weights) for x in inputs]
        torch.cuda.synchronize()
        results = [[] for _ in streams]
        for _ in range(10):
            for stream, x, result in zip(streams, inputs, results, strict=True):
                with torch.cuda.stream(stream):
                    result.append(layer(x, weights))
        torch.cuda.synchronize()
    for result, wanted in zip(results, expected, strict=True):
        assert all(torch.equal(got, wanted) for got in result)


def test_the_current_stream_is_used():
    """A launch waits for what its own stream has queued before it."""
    stream = torch.cuda.Stream()
    x = torch.zeros(4096, 4096, dtype=BF16, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.fill_(6.0)
        codes, _ = fp4aot.quantize_nvfp4(x)
    stream.synchronize()
    assert (codes == 0x77).all()


def test_nothing_is_synchronised_or_allocated(weights):
    """The ops queue work and return; with out= they allocate nothing."""
    w, w_scales, w_global = weights
    x = torch.randn(256, 1024, device="cuda")
    codes, scales = fp4aot.quantize_nvfp4(x)
    out = torch.empty(256, 512, dtype=BF16, device="cuda")
    fp4aot.gemm_nvfp4(codes, w, scales, w_scales, w_global, out=out)
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(200_000_000)
        done = torch.cuda.Event()
        fp4aot.quantize_nvfp4(x, out=(codes, scales))
        fp4aot.gemm_nvfp4(codes, w, scales, w_scales, w_global, out=out)
        done.record()
        assert not done.query(), "a call waited for the device"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    workspaces = torch.cuda.memory_stats()["allocation.all.allocated"] - before
    assert workspaces <= 1, "at most the workspace of the product"


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
def test_cpu_and_gpu_give_the_same_bytes(format):
    for kind in ("normal", "wide", "special"):
        values = torch.from_numpy(random_rows(np.random.default_rng(0), 515, 2080, kind))
        for dtype in (BF16, torch.float16, torch.float32):
            x = values.to(dtype)
            function = getattr(fp4aot, f"quantize_{format}")
            for ours, theirs in zip(function(x), function(x.cuda()), strict=True):
                assert np.array_equal(bytes_of(ours), bytes_of(theirs)), (kind, dtype)


def test_two_gpus_in_one_process():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = torch.randn(64, 256)
    expected = bytes_of(fp4aot.quantize_nvfp4(x)[0])
    for index in (1, 0, 1):
        codes, scales = fp4aot.quantize_nvfp4(x.to(f"cuda:{index}"))  # the current device stays 0
        assert torch.cuda.current_device() == 0
        assert np.array_equal(bytes_of(codes), expected)
        out = fp4aot.gemm_nvfp4(codes, codes, scales, scales)
        assert out.device.index == index


AFTER_A_FAULT = """
import ctypes, torch, fp4aot
import c_abi
library = c_abi.load()
x = torch.randn(16, 64, device="cuda")
codes, scales = fp4aot.quantize_nvfp4(x)
params = c_abi.Quantize(
    device=c_abi.CUDA, input_dtype=c_abi.FP32, rows=16, k=64, input=4096, input_stride=64, codes=codes.data_ptr(),
    codes_stride=32, scales=scales.data_ptr(), scales_bytes=scales.numel())
params.struct_size = ctypes.sizeof(params)
print(library.fp4aot_quantize_nvfp4(ctypes.byref(params)))  # queued: the address is looked at on the device
try:
    torch.cuda.synchronize()
except RuntimeError:
    print("faulted")
print(library.fp4aot_quantize_nvfp4(ctypes.byref(params)))
print(c_abi.error(library))
try:
    fp4aot.quantize_nvfp4(x)
except RuntimeError as error:
    print(error)
"""


def test_a_launch_that_the_driver_refuses_says_why():
    """A fault of any kernel ends a context; each later launch reports it instead of doing nothing."""
    tests = [str(Path(installed.__file__).parent / "abi")]
    done = installed.python(f"import sys; sys.path[:0] = {tests!r}\n{AFTER_A_FAULT}", check=False)
    lines = done.stdout.splitlines()
    assert lines[:3] == ["0", "faulted", str(LAUNCH_FAILED)], done.stdout + done.stderr
    assert re.search(r"quantize_nvfp4 on .*\(image \w+\).*cudaErrorIllegalAddress", lines[3]), lines
    assert "cudaErrorIllegalAddress" in lines[4] or "illegal memory access" in lines[4], lines


def test_preload_and_info():
    fp4aot.preload("cuda")
    name = fp4aot.image_name("cuda")
    info = fp4aot.info()
    assert name in {image["name"] for image in info["images"]}
    seen = [device for device in info["devices"] if device["image"] == name]
    assert seen or info["driver"]["error"], "NVML sees the device that CUDA uses"


def free_bytes() -> int:
    return torch.cuda.mem_get_info()[0]


@pytest.mark.large
def test_quantize_beyond_2_31_elements():
    """M * K > 2^32 for real: the last rows are as they would be alone."""
    rows, k = (1 << 20) + 129, 4096 + 32
    if free_bytes() < 6 * rows * k:
        pytest.skip("needs about 26 GB of free GPU memory")
    x = torch.zeros(rows, k, dtype=BF16, device="cuda")
    marked = [0, 1, 524_288, (1 << 31) // k, (1 << 31) // k + 1, (1 << 32) // k, (1 << 32) // k + 1, rows - 1]
    pattern = torch.from_numpy(random_rows(np.random.default_rng(0), len(marked), k, "normal")).to(BF16).cuda()
    x[marked] = pattern
    for format in ("nvfp4", "mxfp4"):
        codes, scales = getattr(fp4aot, f"quantize_{format}")(x)
        wanted_codes, wanted_scales = reference.quantize(floats_of(pattern), format)
        assert np.array_equal(bytes_of(codes[marked]), reference.pack_codes(wanted_codes))
        flat, columns = scales.view(torch.uint8).view(-1), k // reference.VECTOR[format]
        for i, row in enumerate(marked):
            places = torch.tensor([reference.offset(row, column, columns) for column in range(columns)], device="cuda")
            assert np.array_equal(flat[places].cpu().numpy(), wanted_scales[i])
        others = codes.view(rows, -1).count_nonzero(dim=1)
        others[marked] = 0
        assert others.count_nonzero() == 0, "rows of zeros stay zeros"
        back = getattr(fp4aot, f"dequantize_{format}")(codes, scales)
        wanted = reference.round_to(reference.dequantize(wanted_codes, wanted_scales, format), "bf16")
        assert np.array_equal(floats_of(back[marked]), wanted)
        del back
        del codes, scales, flat, others
    assert fp4aot.nvfp4_global_scale(x).item() == reference.nvfp4_global_scale(floats_of(pattern))


@pytest.mark.large
@pytest.mark.parametrize(("m", "n", "k"), [((1 << 20) + 65, 4096, 64), (129, (1 << 24) + 8, 512)])
def test_gemm_beyond_2_31_elements(m, n, k):
    """Outputs of more than 2^32 bytes, and weights of more than 2^32: rows and columns from everywhere."""
    needed = 2 * m * n + (m + n) * k
    if free_bytes() < 1.3 * needed:
        pytest.skip(f"needs {needed >> 30} GB of free GPU memory")
    rng = np.random.default_rng(0)
    a, b = Operand(rng, m, k, "nvfp4", "cuda"), Operand(rng, min(n, 4096), k, "nvfp4", "cuda")
    repeats = -(-n // 4096)
    b_codes = b.packed.repeat(repeats, 1)[:n].contiguous()
    b_scales = fp4aot.swizzle_scales(torch.from_numpy(b.scales).cuda().repeat(repeats, 1)[:n].contiguous())
    out = fp4aot.gemm_nvfp4(a.packed, b_codes, a.swizzled(), b_scales)
    rows = np.unique(
        np.clip([0, 1, m // 2, (1 << 31) // n, (1 << 31) // n + 1, (1 << 32) // n + 1, m - 2, m - 1], 0, m - 1)
    )
    columns = np.unique(np.clip([0, 7, n // 2, (1 << 31) // k, (1 << 32) // k, n - 4096, n - 2, n - 1], 0, n - 1))
    expected = reference.product(a.values[rows], b.values[columns % 4096])
    got = out[torch.from_numpy(rows).cuda()][:, torch.from_numpy(columns).cuda()]
    reference.assert_product(floats_of(got), expected, k, "bf16", norm=False)
