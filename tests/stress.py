"""Every tactic of the products many times over, while other kernels keep memory busy: results must be the same bits.

    python tests/stress.py [--device cuda] [--seconds 60] [--repeats 40] [--shapes 6656x19968,7168x2048]

Needs an installed fp4aot and torch. The first result of a tactic is compared with fp64, all others with the first;
half of the launches are programmatic (``pdl=True``). A call that does not end within 20 s is named, and ends the run.
It finds waits that are nearly always long enough, which one run of a test does not. Exits with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

SHAPES = "6656x19968,7168x2048,4096x7168,2048x544,512x7168,200x10752,19968x6656"
ROWS = (1, 3, 9, 16, 31, 33, 64, 97, 200)
PATIENCE = 20  # seconds


class Watch:
    """Ends the process if `now` stays the same for PATIENCE seconds."""

    def __init__(self) -> None:
        self.now = "nothing"
        self.since = time.monotonic()
        threading.Thread(target=self._look, daemon=True).start()

    def begins(self, what: str) -> None:
        self.now, self.since = what, time.monotonic()

    def _look(self) -> None:
        while True:
            time.sleep(1)
            if time.monotonic() - self.since > PATIENCE:
                print(f"HANGS: {self.now}", flush=True)
                os._exit(1)


class Load:
    """Kernels of another stream that write memory meanwhile; none on the CPU."""

    def __init__(self, device: str) -> None:
        import torch

        self.stream = torch.cuda.Stream() if device == "cuda" else None
        self.memory = torch.empty(1 << 28 if self.stream else 1, dtype=torch.uint8, device=device)

    def add(self, i: int) -> None:
        import torch

        if self.stream and i % 4 == 1:
            with torch.cuda.stream(self.stream):
                self.memory[: 1 << (20 + i % 9)].fill_(i)


def repeated(call: Callable[..., Any], load: Load, repeats: int) -> tuple[Any, bool]:
    """The first result, and whether all others are the same."""
    import torch

    first, results = call(), []
    for i in range(repeats):
        load.add(i)
        results.append(call(pdl=i % 4 > 1))
    return first, bool(torch.stack([(result == first).all() for result in results]).all())


def operands(format_: str, a: Any, codes: Any, scales: Any) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """Each product's op, inputs and exact result, of activations a."""
    import fp4aot
    import torch

    quantize, dequantize = (getattr(fp4aot, f"{verb}_{format_}") for verb in ("quantize", "dequantize"))
    weights = dequantize(codes, scales, dtype=torch.float32).double()
    a_codes, a_scales = quantize(a)
    values = dequantize(a_codes, a_scales, dtype=torch.float32).double()
    yield f"gemm_{format_}", (a_codes, codes, a_scales, scales), values @ weights.T
    prepared = fp4aot.prepare_w4a16_weights(codes, scales, format=format_)
    yield f"gemm_w4a16_{format_}", (a, prepared), a.double() @ weights.T


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=60, help="after which no further problem is begun")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--shapes", default=SHAPES, help="N x K, as 4096x7168,512x7168")
    options = parser.parse_args()

    import fp4aot
    import torch

    torch.manual_seed(0)
    start, runs, wrong = time.monotonic(), 0, 0
    watch, load = Watch(), Load(options.device)
    for shape, format_, m in product(options.shapes.split(","), ("nvfp4", "mxfp4"), ROWS):
        n, k = map(int, shape.split("x"))
        if time.monotonic() - start > options.seconds:
            print(f"{runs} calls, {wrong} wrong; the time is over at N {n} K {k} {format_} M {m}")
            return 1 if wrong else 0
        watch.begins(f"operands of N {n} K {k} {format_} M {m}")
        a, b = (torch.randn(rows, k).bfloat16().to(options.device) for rows in (m, n))
        for op, inputs, exact in operands(format_, a, *getattr(fp4aot, f"quantize_{format_}")(b)):
            for dtype, most in ((torch.float32, 2e-5), (torch.bfloat16, 3e-3)):
                tactics = fp4aot.list_tactics(op, m, n, k, device=options.device, out_dtype=dtype)
                for tactic, name in tactics or [(0, "default")]:
                    watch.begins(f"{op} M {m} N {n} K {k} {dtype} {name}")
                    call = partial(getattr(fp4aot, op), *inputs, out_dtype=dtype, tactic=tactic)
                    first, same = repeated(call, load, options.repeats)
                    error = ((first.double() - exact).norm() / exact.norm()).item()
                    runs += 1 + options.repeats
                    if not (same and error < most):
                        wrong += 1
                        print(f"WRONG: {watch.now}: relative error {error:.1e}, repeats alike: {same}", flush=True)
    print(f"{runs} calls, {wrong} wrong, all done in {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
