"""The suites w4a16 and w4a4: products of a list of shapes, each beside its peers."""

from __future__ import annotations

import math
import time
from typing import Any

from .. import runtime
from ..errors import Fp4aotError
from . import operands, summary
from .check import Reference, Verdict
from .machines import Machine
from .options import Plan, Shape
from .report import Output
from .timing import interleaved

_EMPTY = "empty"


class _Weights:
    """One format and shape: what is set up once for all numbers of rows."""

    def __init__(self, plan: Plan, machine: Machine, format: str, shape: Shape) -> None:
        self.plan, self.machine, self.format = plan, machine, format
        self.n, self.k = shape
        self.operands = operands.SUITES[plan.suite](format, self.n, self.k, machine.device, machine.out_dtype)
        self.peers = machine.peers(plan.suite, format, self.operands.dense) if plan.peers else {}
        self._readers: tuple[int, dict[str, Any]] = (0, {})

    def readers(self, size: int) -> dict[str, Any]:
        """Prepared readers of ``size`` bytes; those of the last size are kept."""
        if self._readers[0] != size:
            calls = self.machine.readers(size)
            prepared = {f"read {name}": self.machine.timer.prepare(call) for name, call in calls.items()}
            self._readers = (size, prepared)
        return self._readers[1]

    def tactics(self, m: int) -> tuple[dict[int, str], int]:
        """All valid for m rows, and the one that is chosen by default."""
        given = (self.operands.op, m, self.n, self.k, self.machine.device, self.machine.out_dtype)
        a_dtype = "bfloat16" if self.plan.suite == "w4a16" else None
        tactics = dict(runtime.list_tactics(*given, a_dtype))
        if not tactics:
            return {0: runtime.image_name(self.machine.device)}, 0
        return tactics, runtime.default_tactic(*given, a_dtype)

    def measure(self, m: int, empty: Any, output: Output) -> tuple[dict[str, Any], int]:
        """The row of m rows of activations, and how many results were wrong or failed."""
        self.operands.set_rows(m)
        tactics, chosen = self.tactics(m)
        if not self.plan.tactics:
            tactics = {chosen: tactics[chosen]}
        prepare, failures = self.machine.timer.prepare, 0
        prepared: dict[str, Any] = {}
        for number, name in tactics.items():
            try:
                prepared[name] = prepare(self.operands.product(number))
            except (Fp4aotError, ValueError) as error:
                if number == chosen:
                    raise
                failures += 1
                output.note(f"FAILED: {name}, {self.format} N {self.n} K {self.k} M {m}: {error}")
        ours = list(prepared)
        checked = self.check(m, tactics, ours, output) if self.plan.check else None
        peers = self.add_peers(m, prepared, output)
        streaming = m <= summary.STREAMING_ROWS
        readers = self.readers(self.operands.read_bytes) if streaming else {}
        prepared.update(readers)
        if streaming and empty is not None:
            prepared[_EMPTY] = empty
        times = interleaved(self.machine.timer, prepared, self.plan.turns, self.machine.seconds_a_row)
        row: dict[str, Any] = {"format": self.format, "n": self.n, "k": self.k, "m": m}
        row |= {"tactic": tactics[chosen], "tactic_number": chosen}
        row |= summary.summarise(times, tactics[chosen], peers, list(readers), _EMPTY if _EMPTY in prepared else None)
        row |= summary.rates(row, self.operands.read_bytes)
        if self.plan.tactics:
            row["tactics"] = summary.ranking(times, ours)
        if checked is not None:
            row["check"] = {name: _as_json(verdict) for name, verdict in checked.items()}
            failures += sum(not verdict.is_right for verdict in checked.values())
        return row, failures

    def add_peers(self, m: int, prepared: dict[str, Any], output: Output) -> list[str]:
        """Adds the peers' products; one that refuses is left out for all rows to come."""
        for name, product in list(self.peers.items()):
            try:
                prepared[name] = self.machine.timer.prepare(product(self.operands.x))
            except Exception as error:
                output.note(f"{name}, {self.format} N {self.n} K {self.k} M {m}: {type(error).__name__}: {error}")
                del self.peers[name]
        return list(self.peers)

    def check(self, m: int, tactics: dict[int, str], ours: list[str], output: Output) -> dict[str, Verdict]:
        """Each tactic's result against fp64."""
        a, b = self.operands.values()
        reference = Reference(a, b, self.operands.alpha.item())
        verdicts = {}
        for number, name in tactics.items():
            if name not in ours:
                continue
            self.operands.out.fill_(float("nan"))
            self.operands.product(number)()
            verdict = verdicts[name] = reference.compare(self.operands.out)
            if not verdict.is_right:
                output.note(
                    f"WRONG: {name}, {self.format} N {self.n} K {self.k} M {m}: error {verdict.norm:.1e} (allowed "
                    f"{verdict.norm_bound:.1e}), an element {verdict.element:.2g} times what it may be off"
                )
        return verdicts


def _as_json(verdict: Verdict) -> dict[str, Any]:
    values = {"norm": verdict.norm, "norm_bound": verdict.norm_bound, "element": verdict.element}
    return {"right": verdict.is_right} | {name: x if math.isfinite(x) else None for name, x in values.items()}


def _print_notes(machine: Machine, output: Output) -> None:
    for note in machine.notes:
        output.note(note)
    machine.notes.clear()


def measure(plan: Plan, machine: Machine, output: Output) -> int:
    """Runs a suite of products; how many results were wrong or failed."""
    _print_notes(machine, output)
    call = machine.empty()
    empty = None if call is None else machine.timer.prepare(call)
    shapes, rows = plan.shapes_on(machine.device), plan.rows_on(machine.device)
    work = [(format, shape) for format in plan.formats for shape in shapes]
    failures = 0
    for index, (format, shape) in enumerate(work):
        start = time.perf_counter()
        weights = _Weights(plan, machine, format, shape)
        output.progress(index, len(work), f"{format} N {shape[0]} K {shape[1]}", time.perf_counter() - start)
        _print_notes(machine, output)
        for m in rows:
            row, wrong = weights.measure(m, empty, output)
            failures += wrong
            output.add(row)
    return failures
