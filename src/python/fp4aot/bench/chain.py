"""The suite chain: W4A16 products one after another, each of the last one's result, as the layers of a model.

They are launched as usual, and with ``pdl=True``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import torch

from .machines import Machine
from .operands import W4a16
from .options import Plan
from .report import Output
from .timing import Call, interleaved

_PAIRS = 8  # of layers, [N, K] and back [K, N]; no weight is read twice


def layers(format: str, n: int, k: int, device: str) -> list[W4a16]:
    """Weights of a chain, by turns N x K and K x N."""
    chain = []
    for rows, columns in [(n, k), (k, n)] * _PAIRS:
        chain.append(W4a16(format, rows, columns, device, torch.bfloat16))
        del chain[-1].dense  # four times the weights, and not needed
    return chain


def product_chain(weights: Sequence[W4a16], x: torch.Tensor, pdl: bool) -> tuple[Call, torch.Tensor]:
    """A call of all products, of ``x`` [M, K] and then of results, and where it leaves the last one.

    The sums are scaled so that they stay of a size.
    """
    buffers = [torch.empty(len(x), weight.n, dtype=x.dtype, device=x.device) for weight in weights[:2]]
    alphas = [weight.factor / weight.k**0.5 for weight in weights]

    def call() -> torch.Tensor:
        a = x
        for i, (weight, alpha) in enumerate(zip(weights, alphas, strict=True)):
            a = weight.multiply(a, alpha, buffers[i % 2], pdl)
        return a

    return call, buffers[(len(weights) - 1) % 2]


def measure(plan: Plan, machine: Machine, output: Output) -> int:
    """Runs the suite; how many chains gave other bits with PDL than without it."""
    wrong = 0
    places = [(format, *shape) for format in plan.formats for shape in plan.shapes_on(machine.device)]
    for index, (format, n, k) in enumerate(places):
        start = time.perf_counter()
        weights: list[W4a16] = []  # the last ones' memory is free before there are others
        weights = layers(format, n, k, machine.device)
        output.progress(index, len(places), f"{format} N {n} K {k} and back", time.perf_counter() - start)
        for m in plan.rows_on(machine.device):
            x = torch.randn(m, k, dtype=torch.bfloat16, device=machine.device)
            chains = {"plain": product_chain(weights, x, False), "pdl": product_chain(weights, x, True)}
            prepared = {name: machine.timer.prepare(call) for name, (call, _) in chains.items()}
            times = interleaved(machine.timer, prepared, plan.turns, machine.seconds_a_row)
            for name, of_turns in times.items():
                microseconds = statistics.median(of_turns) / len(weights)
                call = f"{format} N {n} K {k} M {m}, {name}"
                output.add({"call": call, "value": microseconds, "unit": "us", "aim": None})
            timed = [out.clone() for _, out in chains.values()]  # as the graphs left them
            results = [*timed, *(call() for call, _ in chains.values())]
            if not all(torch.equal(result, results[0]) for result in results):
                wrong += 1
                output.note(f"WRONG: {format} N {n} K {k} M {m}: PDL changes the result")
    return wrong
