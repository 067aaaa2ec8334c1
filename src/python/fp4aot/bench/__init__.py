"""``fp4aot bench``: products against cuBLAS, Humming and reading the operands; chains of them; host time of calls."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .options import Plan


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM (a time limit) ends a run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run(plan: Plan, machine: Any = None) -> int:
    """Measures, prints and writes what the plan names; the console script's exit status. Needs torch.

    ``machine`` stands for the device (tests). What has been measured when a run is stopped is printed and written.
    """
    from .. import torch_ops  # noqa: F401  (says what is wrong with torch)
    from . import chain, host, machines, products, report

    if machine is None:
        machine = machines.choose(plan.device)
        if plan.suite == "chain" and machine.device == "cpu":
            raise ValueError("--suite chain needs a GPU that an image serves; `fp4aot info` says what there is.")
    output = report.Output(plan, report.environment(machine))
    output.begin()
    failures, state = 0, "finished"
    with _terminable():
        try:
            suites = {"chain": chain.measure, "host": host.measure}
            failures = suites.get(plan.suite, products.measure)(plan, machine, output)
        except KeyboardInterrupt:
            state = "stopped"
            print("fp4aot bench: stopped; the results so far are kept.", file=sys.stderr)
        except BaseException:
            output.end("failed")
            raise
    output.end(state)
    return 130 if state == "stopped" else 1 if failures else 0
