"""Host time of one eager call, in microseconds: what the CPU spends before it can queue the next one.

    python benchmarks/host_overhead.py [cuda|cpu]

Small shapes; batches shorter than the launch queue, timed before the synchronisation, median of the batches. The import
is timed in fresh interpreters that have torch already.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import fp4aot
import torch

BATCH, REPEATS = 400, 25


def microseconds(call: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        torch.cuda.synchronize() if torch.cuda.is_available() else None
        start = time.perf_counter()
        for _ in range(BATCH):
            call()
        times.append((time.perf_counter() - start) / BATCH * 1e6)
    return statistics.median(times[3:])


def import_milliseconds(statement: str) -> float:
    code = f"import time, torch; t = time.perf_counter(); {statement}; print((time.perf_counter() - t) * 1e3)"
    command = [sys.executable, "-c", code]
    return statistics.median(float(subprocess.check_output(command, text=True)) for _ in range(5))


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    x = torch.randn(4, 256, dtype=torch.bfloat16, device=device)
    w = torch.randn(128, 256, dtype=torch.bfloat16, device=device)
    scale = fp4aot.nvfp4_global_scale(x)
    a, a_scales = fp4aot.quantize_nvfp4(x, scale)
    b, b_scales = fp4aot.quantize_nvfp4(w, scale)
    alpha = 1 / scale / scale
    out = torch.empty(4, 128, dtype=torch.bfloat16, device=device)
    calls: dict[str, Callable[[], object]] = {
        "torch.mm (bf16), for comparison": lambda: torch.mm(x, w.T),
        "fp4aot.quantize_nvfp4": lambda: fp4aot.quantize_nvfp4(x, scale),
        "fp4aot.gemm_nvfp4": lambda: fp4aot.gemm_nvfp4(a, b, a_scales, b_scales, alpha),
        "fp4aot.gemm_nvfp4, out=": lambda: fp4aot.gemm_nvfp4(a, b, a_scales, b_scales, alpha, out=out),
        "fp4aot.nvfp4_global_scale": lambda: fp4aot.nvfp4_global_scale(x),
    }
    print(f"torch {torch.__version__}, fp4aot {fp4aot.__version__}, device {device}")
    for name, call in calls.items():
        print(f"{name:<34} {microseconds(call):6.2f} us")
    print(f"{'import fp4aot after torch':<34} {import_milliseconds('import fp4aot'):6.1f} ms")


if __name__ == "__main__":
    main()
