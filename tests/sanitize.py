"""Every op and every tactic of the image that serves this machine's GPU under compute-sanitizer.

    python tests/sanitize.py [--tools memcheck,racecheck,synccheck,initcheck] [--ops gemm_w4a16] [--formats nvfp4]

Needs an installed fp4aot, torch with CUDA, and compute-sanitizer (CUDA toolkit) on PATH or named by COMPUTE_SANITIZER.
Each tool runs one process, which also compares every result with the dequantised operands' product, so that a tool that
changes timing shows a race by its result too. The memory of inputs and outputs comes from cudaMalloc, one allocation a
tensor, so that nothing behind a tensor is somebody else's. initcheck does not see what tensor stores (TMA) write, so
its runs do not read results. Exits with 1 if a tool reports anything.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
OURS = "fp4aot"  # in the mangled names of our kernels; torch's are not looked at
FORMATS = ("nvfp4", "mxfp4")
PRODUCTS = [(1, 72, 1056), (33, 272, 352), (150, 520, 2112)]  # m, n, k
ROWS = [(33, 352), (130, 4096)]


def quantisation(format_: str, device: str) -> Iterator[tuple[str, object, object]]:
    """(what, result, expected) of the family that makes and takes codes."""
    import fp4aot
    import torch

    for rows, k in ROWS:
        x = torch.randn(rows, k, dtype=torch.bfloat16, device=device)
        both = torch.cat([x, x], dim=1)
        for layout in ("swizzled", "linear"):
            codes, scales = getattr(fp4aot, f"quantize_{format_}")(x, scale_layout=layout)
            dequantize = getattr(fp4aot, f"dequantize_{format_}")
            values = dequantize(codes, scales, dtype=torch.float32, scale_layout=layout)
            yield f"quantize_{format_} {rows}x{k} {layout}", values, x
        getattr(fp4aot, f"silu_mul_quantize_{format_}")(both)
        linear = torch.zeros(rows, k // 16, dtype=torch.uint8, device=device)
        swizzled = fp4aot.swizzle_scales(linear)
        yield "swizzle_scales", fp4aot.unswizzle_scales(swizzled, rows, k // 16), linear
        if format_ == "nvfp4":
            fp4aot.nvfp4_global_scale(x)
            fp4aot.rmsnorm_quantize_nvfp4(x, torch.ones(k, dtype=x.dtype, device=device), epsilon=1e-6)


def products(op: str, format_: str, device: str) -> Iterator[tuple[str, object, object]]:
    import fp4aot
    import torch

    quantize = getattr(fp4aot, f"quantize_{format_}")
    dequantize = getattr(fp4aot, f"dequantize_{format_}")
    alpha = torch.full((), 0.5, device=device)
    for m, n, k in PRODUCTS:
        a, b = (torch.randn(rows, k, dtype=torch.bfloat16, device=device) for rows in (m, n))
        codes, scales = quantize(b)
        weights = dequantize(codes, scales, dtype=torch.float32).double()
        for dtype in (torch.bfloat16, torch.float32):
            if op.startswith("gemm_w4a16"):
                inputs = [a, fp4aot.prepare_w4a16_weights(codes, scales, format=format_)]
                exact = a.double()
            else:
                a_codes, a_scales = quantize(a)
                inputs = [a_codes, codes, a_scales, scales]
                exact = dequantize(a_codes, a_scales, dtype=torch.float32).double()
            bias = torch.randn(n, device=device)
            expected = (exact @ weights.T * 0.5 + bias.double()).float()
            for tactic, name in fp4aot.list_tactics(op, m, n, k, device=device, out_dtype=dtype) or [(0, "default")]:
                d = torch.full((m, n), float("nan"), dtype=dtype, device=device)
                getattr(fp4aot, op)(*inputs, alpha=alpha, bias=bias, out=d, tactic=tactic)
                yield f"{op} {m}x{n}x{k} {dtype} {name}", d, expected


def child(ops: list[str], formats: list[str], device: str, compare: bool) -> int:
    """Runs everything once; the number of results that are wrong."""
    import torch

    torch.manual_seed(0)
    calls, wrong = 0, 0
    for format_ in formats:
        for op in ops:
            runs = quantisation(format_, device) if op == "quantize" else products(f"{op}_{format_}", format_, device)
            for what, result, expected in runs:
                calls += 1
                if not compare:
                    continue
                error = ((result.double() - expected.double()).norm() / (expected.double().norm() + 1e-30)).item()
                if not error < (0.2 if what.startswith("quantize") else 3e-3):
                    print(f"WRONG: {what}: relative error {error:.1e}", flush=True)
                    wrong += 1
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"{calls} calls, {wrong} wrong", flush=True)
    return wrong


def reports(output: str) -> int:
    """How many errors and hazards a tool counted; a tool that says nothing did not run."""
    found = re.findall(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", output)
    return int(found[-1]) if found else -1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--ops", default="quantize,gemm,gemm_w4a16")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--device", default="cuda", help="cpu: runs the calls without a tool")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--no-compare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    ops, formats, tools = (value.split(",") for value in (options.ops, options.formats, options.tools))
    for name, given, allowed in (
        ("--ops", ops, ("quantize", "gemm", "gemm_w4a16")),
        ("--formats", formats, FORMATS),
        ("--tools", tools, TOOLS),
    ):
        if unknown := [value for value in given if value not in allowed]:
            parser.error(f"{name}: {unknown[0]!r} is not one of {', '.join(allowed)}")
    if options.child or options.device == "cpu":
        return 1 if child(ops, formats, options.device, not options.no_compare) else 0
    sanitizer = os.environ.get("COMPUTE_SANITIZER") or shutil.which("compute-sanitizer")
    if sanitizer is None:
        parser.error("compute-sanitizer is not on PATH; install a CUDA toolkit, or name it by COMPUTE_SANITIZER")
    failed = []
    for tool in tools:
        command = [sanitizer, "--tool", tool, "--kernel-name", f"kns={OURS}", "--print-limit", "20"]
        command += [sys.executable, __file__, "--child", "--ops", options.ops, "--formats", options.formats]
        if tool == "initcheck":
            command.append("--no-compare")
        environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        count = reports(done.stdout)
        if count != 0 or done.returncode != 0:
            failed.append(tool)
            print(done.stdout[-6000:])
        said = re.findall(r"\d+ calls, \d+ wrong", done.stdout)
        print(f"{tool}: {count if count >= 0 else 'no'} reports; {said[-1] if said else 'it did not end'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
