"""Every op and every tactic of the image that serves this machine's GPU under compute-sanitizer.

    python tests/sanitize.py [--tools memcheck,racecheck,synccheck,initcheck] [--ops gemm_w4a16] [--formats nvfp4]
                             [--jobs 8] [--seconds 300]

Needs an installed fp4aot, torch with CUDA, and compute-sanitizer (CUDA toolkit) on PATH or named by COMPUTE_SANITIZER.
Every tool runs a process for each op and format, several at a time. It also compares every result with the dequantised
operands' product, so that a tool that changes timing shows a race by its result too. The memory of inputs and outputs
comes from cudaMalloc, one allocation a tensor, so that nothing behind a tensor is somebody else's. initcheck does not
see what tensor stores (TMA) or kernels of others write, so its runs read no results, inputs are copied from the CPU,
and copies of torch's own int64 results to the host are not counted (`unwatched`). racecheck and initcheck take some ten
times as long as the others: they run the smaller problems. Exits with 1 if a tool reports anything or does not end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import IO

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
OURS = "fp4aot"  # in the mangled names of our kernels; torch's are not looked at
OPS = ("quantize", "gemm", "gemm_w4a16")
FORMATS = ("nvfp4", "mxfp4")
PRODUCTS = [(9, 72, 1120), (33, 136, 352), (1, 72, 1056), (150, 520, 2112)]  # m, n, k
ROWS = [(33, 352), (130, 4096)]
SLOW = {"racecheck": 2, "initcheck": 2}  # how many of PRODUCTS
running: dict[int, tuple[str, IO[bytes]]] = {}  # sessions of tools: what they check, their output
stopping = threading.Event()


def quantisation(format_: str, device: str) -> Iterator[tuple[str, object, object]]:
    """(what, result, expected) of the family that makes and takes codes."""
    import fp4aot
    import torch

    for rows, k in ROWS:
        host = torch.randn(rows, 2 * k).bfloat16()
        both = host.to(device)
        x = both[:, :k]
        for layout in ("swizzled", "linear"):
            codes, scales = getattr(fp4aot, f"quantize_{format_}")(x, scale_layout=layout)
            dequantize = getattr(fp4aot, f"dequantize_{format_}")
            values = dequantize(codes, scales, dtype=torch.float32, scale_layout=layout)
            yield f"quantize_{format_} {rows}x{k} {layout}", values, x
        getattr(fp4aot, f"silu_mul_quantize_{format_}")(both)
        linear = torch.zeros(rows, k // 16, dtype=torch.uint8).to(device)
        swizzled = fp4aot.swizzle_scales(linear)
        yield "swizzle_scales", fp4aot.unswizzle_scales(swizzled, rows, k // 16), linear
        if format_ == "nvfp4":
            fp4aot.nvfp4_global_scale(x)
            weight = torch.ones(k, dtype=x.dtype).to(device)
            for some in (x, x[:4]):  # few rows are several CTAs each
                fp4aot.rmsnorm_quantize_nvfp4(some, weight)
                # From the CPU, not from x: torch's kernels are not watched, and initcheck takes minutes to report all
                # the elements that one of them copies.
                residual = host[: len(some), k:].contiguous().to(device)
                fp4aot.rmsnorm_quantize_nvfp4(some, weight, residual=residual)
                expected = some + host[: len(some), k:].to(device)
                yield f"rmsnorm_quantize_nvfp4 {len(some)}x{k}", residual, expected


def products(op: str, format_: str, device: str, most: int) -> Iterator[tuple[str, object, object]]:
    import fp4aot
    import torch

    quantize = getattr(fp4aot, f"quantize_{format_}")
    dequantize = getattr(fp4aot, f"dequantize_{format_}")
    alpha = torch.tensor(0.5).to(device)
    for m, n, k in PRODUCTS[:most]:
        a, b = (torch.randn(rows, k).bfloat16().to(device) for rows in (m, n))
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
            bias = torch.randn(n).to(device)
            expected = (exact @ weights.T * 0.5 + bias.double()).float()
            for tactic, name in fp4aot.list_tactics(op, m, n, k, device=device, out_dtype=dtype) or [(0, "default")]:
                d = torch.full((m, n), float("nan"), dtype=dtype, device=device)
                getattr(fp4aot, op)(*inputs, alpha=alpha, bias=bias, out=d, tactic=tactic)
                yield f"{op} {m}x{n}x{k} {dtype} {name}", d, expected


def child(ops: list[str], formats: list[str], device: str, most: int, compare: bool) -> int:
    """Runs everything once; the number of results that are wrong."""
    import torch

    torch.manual_seed(0)
    calls, wrong = 0, 0
    for format_, op in product(formats, ops):
        runs = quantisation(format_, device) if op == "quantize" else products(f"{op}_{format_}", format_, device, most)
        for what, result, expected in runs:
            calls += 1
            print(f"{calls} calls, {wrong} wrong: {what}", flush=True)
            if not compare:
                continue
            error = ((result.double() - expected.double()).norm() / (expected.double().norm() + 1e-30)).item()
            if not error < (0.2 if what.startswith("quantize") else 3e-3):
                print(f"WRONG: {what}: relative error {error:.1e}", flush=True)
                wrong += 1
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"{calls} calls, {wrong} wrong, all done", flush=True)
    return wrong


def reports(output: str) -> int:
    """How many errors and hazards a tool counted; -1 of a tool that says nothing, which did not run."""
    found = re.findall(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", output)
    return int(found[-1]) if found else -1


def unwatched(output: str) -> int:
    """How many of initcheck's reports are of an int64 that torch's `item` copies to the host.

    torch's kernels, which wrote it, are not watched (see OURS), and no kernel of ours writes eight bytes to be read so.
    """
    blocks = re.split(r"^========= (?=[A-Z])", output, flags=re.MULTILINE)[1:]
    return sum(
        bool(re.match(r"Host API memory access error at host access to 0x[0-9a-f]+ of size 8 bytes\n", block))
        and "on access by cudaMemcpy source" in block
        and "Host Frame: at::native::_local_scalar_dense_cuda(" in block
        for block in blocks
    )


def findings(output: str) -> str:
    """Each kind of report once, with how often it came, its first lines and the call it came with; else the end."""
    kinds: dict[str, list] = {}
    call, lines = "", output.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"\d+ calls, ", line):
            call = line
        elif re.match(r"========= [A-Z]", line) and "SUMMARY" not in line and "COMPUTE-SANITIZER" not in line:
            kind = re.sub(r"0x[0-9a-f]+|\d+", "#", line)
            known = kinds.setdefault(kind, [0, call, lines[number : number + 12]])
            known[0] += 1
    if not kinds:
        return output[-3000:]
    return "\n".join("\n".join([f"{count} x, first at: {call}", *first]) for count, call, first in kinds.values())


def check(sanitizer: str, tool: str, op: str, format_: str, seconds: float) -> bool:
    """Runs one process under a tool and prints what came out; whether all is well."""
    command = [sanitizer, "--tool", tool, "--kernel-name", f"kns={OURS}", "--print-limit", "20"]
    command += [sys.executable, __file__, "--child", "--ops", op, "--formats", format_]
    command += ["--most", str(SLOW.get(tool, len(PRODUCTS)))]
    if tool == "initcheck":
        command.append("--no-compare")
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    start = time.monotonic()
    what = f"{tool} {op} {format_}"
    with tempfile.TemporaryFile() as file:
        with subprocess.Popen(
            command, env=environment, start_new_session=True, stdout=file, stderr=subprocess.STDOUT
        ) as process:
            running[process.pid] = what, file
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # the tool and the program under it
            process.wait()
            while stopping.is_set():  # `stop` says what there is to say, and ends this process
                time.sleep(1)
            del running[process.pid]
        output = written(file)
    left_out = unwatched(output) if tool == "initcheck" else 0
    count = reports(output) - left_out
    right = process.returncode == 0 and count == 0 and "all done" in output
    if not right:
        print(findings(output))
    counted = f"{count if count >= 0 else 'no'} reports" + (f" but {left_out} of torch" if left_out else "")
    print(f"{what}: {counted}; {last_call(output)}; {time.monotonic() - start:.0f} s", flush=True)
    return right


def last_call(output: str) -> str:
    said = re.findall(r"\d+ calls, \d+ wrong.*", output)
    return said[-1] if said else "nothing ran"


def written(file: IO[bytes]) -> str:
    """All of a tool's output; where it writes next stays, as it shares its place in the file with us."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


def stop(number: int, _: object) -> None:
    """Ends the tools, which are in sessions of their own and would go on, and says how far each had come."""
    stopping.set()
    try:
        tools = list(running.items())
        for session, _what in tools:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session, signal.SIGKILL)
        for _session, (what, file) in tools:
            with contextlib.suppress(OSError, ValueError):  # it had just ended
                output = written(file)
                print(f"{what}: not ended; {last_call(output)}", flush=True)
                if "========= " in output.replace("========= COMPUTE-SANITIZER", ""):
                    print(findings(output), flush=True)
    finally:
        os._exit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--device", default="cuda", help="cpu: runs the calls without a tool")
    parser.add_argument("--jobs", type=int, default=8, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=600, help="that a process may take")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--most", type=int, default=len(PRODUCTS), help=argparse.SUPPRESS)
    parser.add_argument("--no-compare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    ops, formats, tools = (value.split(",") for value in (options.ops, options.formats, options.tools))
    for name, given, allowed in (("--ops", ops, OPS), ("--formats", formats, FORMATS), ("--tools", tools, TOOLS)):
        if unknown := [value for value in given if value not in allowed]:
            parser.error(f"{name}: {unknown[0]!r} is not one of {', '.join(allowed)}")
    if options.child or options.device == "cpu":
        return 1 if child(ops, formats, options.device, options.most, not options.no_compare) else 0
    sanitizer = os.environ.get("COMPUTE_SANITIZER") or shutil.which("compute-sanitizer")
    if sanitizer is None:
        parser.error("compute-sanitizer is not on PATH; install a CUDA toolkit, or name it by COMPUTE_SANITIZER")
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    runs = sorted(product(tools, ops, formats), key=lambda run: run[0] not in SLOW)  # the longest first
    with ThreadPoolExecutor(options.jobs) as pool:
        right = list(pool.map(lambda run: check(sanitizer, *run, options.seconds), runs))
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
