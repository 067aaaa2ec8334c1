"""W4A16 products against reading the weights, cuBLAS bf16 and Humming, in microseconds.

    python benchmarks/gemm_w4a16.py [nvfp4|mxfp4] [--tactics] [--rows 1,8,16] [--check]

Timed as gemm_w4a4.py does it: CUDA graphs, L2 flushed by reading 256 MB, all candidates of a shape in turns, medians.
`read` is the fastest of several kernels that read as many bytes as the prepared weights have, codes and scales (needs
Triton); `empty` is a graph with an empty kernel. Weights are quantised Gaussians for all, activations bf16. Humming
takes part if it is installed. --tactics also times every valid tactic, fastest first; --check compares each result with
a product of the dequantised weights in fp32.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable

import fp4aot
import torch
from gemm_w4a4 import FLUSH_BYTES, Captured, capture, medians, random_operand, triton

if triton is not None:
    import triton.language as tl
    from gemm_w4a4 import _empty, _read

    @triton.jit
    def _read_persistent(source, words, sink, BLOCK: tl.constexpr) -> None:
        total = tl.zeros([BLOCK], dtype=tl.int32)
        for start in range(tl.program_id(0) * BLOCK, words, tl.num_programs(0) * BLOCK):
            offsets = start + tl.arange(0, BLOCK)
            total ^= tl.load(source + offsets, mask=offsets < words, other=0)
        if tl.xor_sum(total, 0) == 0x12345678:
            tl.store(sink, 1)


try:
    from humming.layer import HummingLayer
except ImportError:
    HummingLayer = None

SHAPES = [(4096, 7168), (7168, 7168), (14336, 4096), (6656, 19968), (19968, 6656), (7168, 2048)]  # n, k
ROWS = [1, 2, 4, 8, 16, 32, 64, 128]  # m
HUMMING = {
    "nvfp4": {"dtype": "float4e2m1", "scale_dtype": "float8e4m3", "group_size": 16, "scale_2_type": "tensor"},
    "mxfp4": {"dtype": "float4e2m1", "scale_dtype": "float8e8m0", "group_size": 32},
}


def readers(size: int) -> dict[str, Callable[[], object]]:
    data = torch.randint(0, 1 << 30, (size // 4,), dtype=torch.int32, device="cuda")
    sink = torch.zeros(1, dtype=torch.int32, device="cuda")
    words, sms = data.numel(), torch.cuda.get_device_properties(0).multi_processor_count
    calls: dict[str, Callable[[], object]] = {}
    for block, warps in ((4096, 8), (2048, 4), (8192, 16)):
        calls[f"read {block}"] = lambda block=block, warps=warps: _read[(triton.cdiv(words, block),)](
            data, words, sink, BLOCK=block, num_warps=warps
        )
    calls["read persistent"] = lambda: _read_persistent[(2 * sms,)](data, words, sink, BLOCK=8192, num_warps=16)
    return calls


def humming(format_: str, weights: torch.Tensor) -> Callable[[torch.Tensor, torch.Tensor], object] | None:
    if HummingLayer is None:
        return None
    try:
        n, k = weights.shape
        layer = HummingLayer(shape_n=n, shape_k=k, weight_config=HUMMING[format_], torch_dtype=torch.bfloat16).cuda()
        layer.load_from_unquantized(weights)
        layer.transform()
    except Exception as error:  # a peer's refusal is no reason to stop
        print(f"Humming: {error!r}")
        return None
    return lambda x, out: layer(x, outputs=out)


def measure(format_: str, n: int, k: int, rows: list[int], flush: torch.Tensor, options: argparse.Namespace) -> None:
    op = f"gemm_w4a16_{format_}"
    product = getattr(fp4aot, op)
    codes, scales = random_operand(format_, n, k)
    prepared = fp4aot.prepare_w4a16_weights(codes, scales, format=format_)
    dense = torch.randn(n, k, dtype=torch.bfloat16, device="cuda")
    peer = humming(format_, dense)
    alpha = torch.full((), 1e-3, device="cuda")
    reading = {name: capture(call) for name, call in readers(prepared.nbytes).items()} if triton is not None else {}
    for m in rows:
        x = torch.randn(m, k, dtype=torch.bfloat16, device="cuda")
        out, cublas_out, peer_out = (torch.empty(m, n, dtype=torch.bfloat16, device="cuda") for _ in range(3))
        sizes = {"device": "cuda", "out_dtype": torch.bfloat16}
        tactics = dict(fp4aot.list_tactics(op, m, n, k, **sizes))
        chosen = fp4aot.default_tactic(op, m, n, k, **sizes)
        graphs: dict[str, Captured] = dict(reading)
        graphs["cublas"] = capture(lambda x=x, out=cublas_out: torch.mm(x, dense.T, out=out))
        if peer is not None:
            graphs["humming"] = capture(lambda x=x, out=peer_out: peer(x, out))
        for tactic in tactics if options.tactics else [chosen]:
            graphs[tactics[tactic]] = capture(
                lambda tactic=tactic, x=x, out=out: product(x, prepared, alpha=alpha, out=out, tactic=tactic)
            )
        if options.check:
            values = torch.float32 if format_ == "mxfp4" else torch.bfloat16
            dequantize = getattr(fp4aot, f"dequantize_{format_}")
            w = dequantize(codes, scales, dtype=values).float()
            expected = (x.double() @ w.T.double()) * 1e-3
            for tactic, name in tactics.items():
                got = product(x, prepared, alpha=alpha, tactic=tactic, out_dtype=torch.bfloat16)
                error = ((got.double() - expected).norm() / expected.norm()).item()
                if not error < 2e-3:
                    print(f"WRONG: {name} N {n} K {k} M {m}: {error:.1e}")
        times = medians(graphs, flush, 15)
        read = min((times.pop(name) for name in reading), default=None)
        time, cublas, other = times[tactics[chosen]], times.pop("cublas"), times.pop("humming", None)
        line = f"{format_} N {n:5} K {k:5} M {m:4}  {tactics[chosen]:24} {time:6.1f}"
        line += f"  cublas {cublas:6.1f} ({cublas / time:4.2f}x)"
        if other is not None:
            line += f"  humming {other:6.1f} ({other / time:4.2f}x)"
        if read is not None:
            line += f"  read {read:5.1f} ({time / read:4.2f}x)"
        if options.tactics:
            ranking = sorted(times.items(), key=lambda item: item[1])
            line += "\n    " + "  ".join(f"{name} {value:.1f}" for name, value in ranking)
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", nargs="?", choices=["nvfp4", "mxfp4"])
    parser.add_argument("--tactics", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
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
            measure(format_, n, k, [int(m) for m in options.rows.split(",")], flush, options)


if __name__ == "__main__":
    main()
