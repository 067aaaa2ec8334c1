"""The suite host: what the CPU spends on one eager call before it can queue the next, and on the import."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

import torch

from .. import products, quantization, scales, w4a16
from .machines import Machine
from .options import Plan
from .report import Output
from .timing import Call

AIM_US, QUANTIZE_AIM_US = 8.0, 6.0
_BATCH, _BATCHES, _WARM_UP = 400, 25, 3  # a batch is shorter than the launch queue


def microseconds(call: Call, synchronize: Call, batches: int = _BATCHES, batch: int = 0) -> float:
    """Of one call, median of batches that are timed before the device is waited for."""
    batch = batch or _BATCH
    times = []
    for _ in range(batches + _WARM_UP):
        synchronize()
        start = time.perf_counter()
        for _ in range(batch):
            call()
        times.append((time.perf_counter() - start) / batch * 1e6)
    synchronize()
    return statistics.median(times[_WARM_UP:])


def import_milliseconds(statement: str, repeats: int = 5) -> float:
    """Of a statement in fresh interpreters that have torch already, median."""
    code = f"import time, torch; t = time.perf_counter(); {statement}; print((time.perf_counter() - t) * 1e3)"
    command = [sys.executable, "-c", code]
    return statistics.median(float(subprocess.check_output(command, text=True)) for _ in range(repeats))


def calls(device: str) -> dict[str, tuple[Call, float | None]]:
    """What is timed and its aim, by name. Shapes are so small that a CPU's product does not count."""
    m, n, k = (4, 128, 256) if device == "cuda" else (1, 16, 64)
    x = torch.randn(m, k, dtype=torch.bfloat16, device=device)
    w = torch.randn(n, k, dtype=torch.bfloat16, device=device)
    out = torch.empty(m, n, dtype=torch.bfloat16, device=device)
    scale = scales.nvfp4_global_scale(x)
    a, a_scales = quantization.quantize_nvfp4(x, scale)
    b, b_scales = quantization.quantize_nvfp4(w, scale)
    alpha = 1 / scale / scale
    nvfp4 = w4a16.prepare_w4a16_weights(b, b_scales)
    mxfp4 = w4a16.prepare_w4a16_weights(*quantization.quantize_mxfp4(w), format="mxfp4")
    quantize, gemm = quantization.quantize_nvfp4, products.gemm_nvfp4
    gemm_w4a16, gemm_w4a16_mxfp4 = w4a16.gemm_w4a16_nvfp4, w4a16.gemm_w4a16_mxfp4
    return {
        "torch.mm (bf16), for comparison": (lambda: torch.mm(x, w.T), None),
        "quantize_nvfp4": (lambda: quantize(x, scale), QUANTIZE_AIM_US),
        "quantize_nvfp4, out=": (lambda: quantize(x, scale, out=(a, a_scales)), QUANTIZE_AIM_US),
        "gemm_nvfp4": (lambda: gemm(a, b, a_scales, b_scales, alpha), AIM_US),
        "gemm_nvfp4, out=": (lambda: gemm(a, b, a_scales, b_scales, alpha, out=out), AIM_US),
        "gemm_w4a16_nvfp4": (lambda: gemm_w4a16(x, nvfp4, alpha), AIM_US),
        "gemm_w4a16_nvfp4, out=": (lambda: gemm_w4a16(x, nvfp4, alpha, out=out), AIM_US),
        "gemm_w4a16_mxfp4": (lambda: gemm_w4a16_mxfp4(x, mxfp4), AIM_US),
        "gemm_w4a16_mxfp4, out=": (lambda: gemm_w4a16_mxfp4(x, mxfp4, out=out), AIM_US),
        "nvfp4_global_scale": (lambda: scales.nvfp4_global_scale(x), None),
    }


def measure(plan: Plan, machine: Machine, output: Output) -> int:
    """Runs the suite; nothing can be wrong."""
    synchronize: Call = torch.cuda.synchronize if machine.device == "cuda" else lambda: None
    batches = 7 if plan.quick else _BATCHES

    def row(call: str, value: float, unit: str, aim: float | None) -> dict[str, Any]:
        return {"call": call, "value": value, "unit": unit, "aim": aim}

    for name, (call, aim) in calls(machine.device).items():
        output.add(row(name, microseconds(call, synchronize, batches), "us", aim))
    milliseconds = import_milliseconds("import fp4aot", 1 if plan.quick else 5)
    output.add(row("import fp4aot after torch", milliseconds, "ms", None))
    return 0
