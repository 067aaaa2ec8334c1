"""The cpu image's products against torch's fp32 matmul of the same sizes, both with all threads of this process.

    python benchmarks/gemm_cpu.py

Milliseconds, medians; the candidates of a shape take turns, so that other load on the machine meets them alike.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

import fp4aot
import torch

SHAPES = [  # m, n, k
    (1, 4096, 4096),
    (8, 4096, 4096),
    (64, 1536, 384),
    (64, 4096, 4096),
    (256, 1024, 4096),
    (1024, 1024, 1024),
    (2000, 1536, 384),
]
TURNS = 15


def medians(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(TURNS + 2):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn >= 2:
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    threads = f"{len(os.sched_getaffinity(0))} CPUs, {torch.get_num_threads()} torch threads"
    print(f"torch {torch.__version__}, fp4aot {fp4aot.__version__}, {threads}")
    for m, n, k in SHAPES:
        x, w = torch.randn(m, k), torch.randn(n, k)
        nvfp4 = [fp4aot.quantize_nvfp4(t) for t in (x, w)]
        mxfp4 = [fp4aot.quantize_mxfp4(t) for t in (x, w)]

        def product(gemm: Callable[..., object], operands: list[tuple[torch.Tensor, torch.Tensor]]) -> object:
            (a, a_scales), (b, b_scales) = operands
            return gemm(a, b, a_scales, b_scales, out_dtype=torch.float32)

        def w4a16(a: torch.Tensor, gemm: Callable[..., object], weight: object) -> object:
            return gemm(a, weight, out_dtype=torch.float32)

        half = x.to(torch.bfloat16)
        prepared = {f: fp4aot.prepare_w4a16_weights(*o[1], format=f) for f, o in (("nvfp4", nvfp4), ("mxfp4", mxfp4))}
        times = medians(
            {
                "torch": lambda x=x, w=w: torch.mm(x, w.T),
                "nvfp4": lambda o=nvfp4: product(fp4aot.gemm_nvfp4, o),
                "mxfp4": lambda o=mxfp4: product(fp4aot.gemm_mxfp4, o),
                "w4a16 nvfp4": lambda a=half, w=prepared["nvfp4"]: w4a16(a, fp4aot.gemm_w4a16_nvfp4, w),
                "w4a16 mxfp4": lambda a=half, w=prepared["mxfp4"]: w4a16(a, fp4aot.gemm_w4a16_mxfp4, w),
            }
        )
        line = f"M {m:4} N {n:4} K {k:4}  torch fp32 {times['torch']:8.2f}"
        for name in list(times)[1:]:
            line += f"  {name} {times[name]:8.2f} ({times[name] / times['torch']:.2f}x)"
        print(line, flush=True)


if __name__ == "__main__":
    main()
