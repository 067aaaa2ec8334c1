"""W4A4 products against cuBLAS bf16 and against reading the operands, in microseconds.

    python benchmarks/gemm_w4a4.py [nvfp4|mxfp4] [--tactics]

Each call is a CUDA graph of its one or two kernels, timed by events straight around its launch. The L2 cache is flushed
before by reading 256 MB. All candidates of a shape take turns, median of the turns. `read` is one simple kernel that
reads as many bytes as the operands have, codes and scales (needs Triton); `empty` is a graph with an empty kernel.
Operands are random. --tactics also times every tactic that is valid for a shape and prints them, fastest first.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import fp4aot
import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

SHAPES = [(4096, 7168), (7168, 7168), (14336, 4096), (7168, 2048)]  # n, k
ROWS = [1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]  # m
STREAMING_ROWS = 64  # up to here a product is bound by reading its operands
FLUSH_BYTES = 256 << 20

if triton is not None:

    @triton.jit
    def _read(source, words, sink, BLOCK: tl.constexpr) -> None:
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(source + offsets, mask=offsets < words, other=0)
        if tl.xor_sum(x, 0) == 0x12345678:
            tl.store(sink, 1)

    @triton.jit
    def _empty() -> None:
        pass


@dataclass
class Captured:
    graph: torch.cuda.CUDAGraph
    call: Callable[[], object]  # owns the tensors whose addresses the graph holds


def capture(call: Callable[[], object]) -> Captured:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # set-up of libraries and kernels stays out of the graph
        call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return Captured(graph, call)


def medians(graphs: dict[str, Captured], flush: torch.Tensor, turns: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for turn in range(turns + 1):
        events = []
        for name, captured in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            flush.sum()
            start.record()
            captured.graph.replay()
            end.record()
            events.append((name, start, end))
        torch.cuda.synchronize()
        if turn:
            for name, start, end in events:
                times[name].append(start.elapsed_time(end) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def random_operand(format_: str, rows: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    values = torch.randn(rows, k, dtype=torch.bfloat16, device="cuda")
    if format_ == "mxfp4":
        return fp4aot.quantize_mxfp4(values)
    return fp4aot.quantize_nvfp4(values, fp4aot.nvfp4_global_scale(values))


def reader(size: int) -> Callable[[], object]:
    data = torch.randint(0, 1 << 30, (size // 4,), dtype=torch.int32, device="cuda")
    sink = torch.zeros(1, dtype=torch.int32, device="cuda")
    return lambda: _read[(triton.cdiv(data.numel(), 4096),)](data, data.numel(), sink, BLOCK=4096, num_warps=8)


def measure(format_: str, m: int, n: int, k: int, flush: torch.Tensor, all_tactics: bool) -> str:
    op = f"gemm_{format_}"
    product = getattr(fp4aot, op)
    a, a_scales = random_operand(format_, m, k)
    b, b_scales = random_operand(format_, n, k)
    alpha = torch.full((), 1e-3, device="cuda")
    out = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
    x, w = (torch.randn(rows, k, dtype=torch.bfloat16, device="cuda") for rows in (m, n))
    y = torch.empty_like(out)

    tactics = dict(fp4aot.list_tactics(op, m, n, k, device="cuda", out_dtype=torch.bfloat16))
    chosen = fp4aot.default_tactic(op, m, n, k, device="cuda", out_dtype=torch.bfloat16)
    graphs = {"cublas": capture(lambda: torch.mm(x, w.T, out=y))}
    if m <= STREAMING_ROWS and triton is not None:
        graphs["read"] = capture(reader((m + n) * (k // 2 + k // (32 if format_ == "mxfp4" else 16))))
    for tactic in tactics if all_tactics else [chosen]:
        graphs[tactics[tactic]] = capture(
            lambda tactic=tactic: product(a, b, a_scales, b_scales, alpha=alpha, out=out, tactic=tactic)
        )
    times = medians(graphs, flush, 11 if m < 1024 else 6)
    cublas, read = times.pop("cublas"), times.pop("read", None)
    time = times[tactics[chosen]]
    line = f"{format_} N {n:5} K {k:4} M {m:4}  {tactics[chosen]:24} {time:7.1f}"
    line += f"  cublas {cublas:6.1f} ({cublas / time:4.2f}x)  {2e-6 * m * n * k / time:6.1f} TFLOP/s"
    if read is not None:
        line += f"  read {read:5.1f} ({time / read:4.2f}x)"
    if all_tactics:
        ranking = sorted(times.items(), key=lambda item: item[1])
        line += "\n    " + "  ".join(f"{name} {value:.1f}" for name, value in ranking)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", nargs="?", choices=["nvfp4", "mxfp4"])
    parser.add_argument("--tactics", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("needs a GPU that torch can use")
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    print(subprocess.check_output(query, text=True).splitlines()[0])
    print(f"fp4aot {fp4aot.__version__}, image {fp4aot.image_name('cuda')}, torch {torch.__version__}")
    flush = torch.ones(FLUSH_BYTES // 4, device="cuda")
    if triton is not None:
        print(f"empty {medians({'empty': capture(lambda: _empty[(1,)]())}, flush, 20)['empty']:.1f}")
    for format_ in [options.format] if options.format else ["nvfp4", "mxfp4"]:
        for n, k in SHAPES:
            for m in ROWS:
                print(measure(format_, m, n, k, flush, options.tactics), flush=True)


if __name__ == "__main__":
    main()
