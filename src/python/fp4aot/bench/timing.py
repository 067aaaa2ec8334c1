"""Timing several calls in turns: CUDA graphs with a cold L2 cache, or plain timers on the CPU."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Call = Callable[[], object]
FLUSH_BYTES = 256 << 20  # more than twice the largest L2 cache
_SETTLE_SECONDS = 0.2


class Timer(Protocol):
    """Times calls on one device."""

    def prepare(self, call: Call) -> Any:
        """Does once what is not to be timed; what ``turn`` takes."""

    def turn(self, prepared: Mapping[str, Any]) -> dict[str, float]:
        """Runs each once, in this order; microseconds."""


@dataclass
class Captured:
    graph: Any
    call: Call  # owns the tensors whose addresses the graph holds


class GraphTimer:
    """Each call is a CUDA graph, timed by events straight around its launch, after 256 MB have been read: so the cache
    holds no operand, and no modified line that would have to be written back first."""

    def __init__(self, torch: Any = None) -> None:
        """``torch`` stands for the module (tests)."""
        torch = self._torch = torch or importlib.import_module("torch")
        self._flush = torch.ones(FLUSH_BYTES // 4, device="cuda")
        end = time.perf_counter() + _SETTLE_SECONDS
        while time.perf_counter() < end:  # clocks rise
            for _ in range(50):
                self._flush.sum()
            torch.cuda.synchronize()

    def prepare(self, call: Call) -> Captured:
        cuda = self._torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):  # set-up of libraries and kernels stays out of the graph
            call()
        cuda.current_stream().wait_stream(side)
        cuda.synchronize()
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            call()
        return Captured(graph, call)

    def turn(self, prepared: Mapping[str, Captured]) -> dict[str, float]:
        cuda = self._torch.cuda
        events = []
        for name, captured in prepared.items():
            start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            self._flush.sum()
            start.record()
            captured.graph.replay()
            end.record()
            events.append((name, start, end))
        cuda.synchronize()
        return {name: start.elapsed_time(end) * 1e3 for name, start, end in events}


class PlainTimer:
    """A call's time on the CPU."""

    def prepare(self, call: Call) -> Call:
        call()
        return call

    def turn(self, prepared: Mapping[str, Call]) -> dict[str, float]:
        times = {}
        for name, call in prepared.items():
            start = time.perf_counter()
            call()
            times[name] = (time.perf_counter() - start) * 1e6
        return times


def interleaved(
    timer: Timer, prepared: Mapping[str, Any], turns: int, seconds: float = float("inf"), least: int = 3
) -> dict[str, list[float]]:
    """Microseconds of each call in each of ``turns`` turns, or of fewer (but ``least``) when ``seconds`` are over.

    The first turn is not counted, and every turn starts with another call, so that none always follows the same one.
    """
    names = list(prepared)
    times: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + seconds
    for turn in range(turns + 1):
        first = turn % max(len(names), 1)
        measured = timer.turn({name: prepared[name] for name in names[first:] + names[:first]})
        if turn:
            for name, value in measured.items():
                times[name].append(value)
        if turn >= least and time.perf_counter() > end:
            break
    return times
