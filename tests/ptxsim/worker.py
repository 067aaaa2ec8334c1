"""Runs problems on one virtual GPU, in a process of its own: core and its driver are one a process.

`Worker` starts the process (again after a crash) and asks; `serve` answers: pickled (name of a function here,
arguments) on stdin, pickled results on stdout.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import build

TESTS = Path(__file__).parents[1]


@dataclass
class Report:
    """What became of a problem."""

    seconds: float = 0.0
    error: str = ""  # empty: right results, no findings
    trace: str = ""  # where an exception came from
    findings: list[dict] = field(default_factory=list)
    outputs: dict[str, np.ndarray] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)  # names of the outputs: of a product, its tactics
    counts: list[dict] = field(default_factory=list)
    launched: list[str] = field(default_factory=list)  # mangled names


class Worker:
    def __init__(self, image: str, folder: Path, threads: int = 0):
        """folder: build.simulated_image or build.mutated_image; threads: of the simulator, 0 for the machine's."""
        self.image, self.folder, self.threads = image, folder, threads
        self._process: subprocess.Popen | None = None

    def _start(self) -> subprocess.Popen:
        environment = build.environment(self.image, self.folder)
        paths = [TESTS, TESTS / "abi", *filter(None, [environment.get("PYTHONPATH")])]
        environment["PTXSIM_THREADS"] = str(self.threads)
        # Threads of numpy's products wait in a loop, at the cost of the other workers.
        environment.setdefault("OPENBLAS_NUM_THREADS", "1")
        environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        return subprocess.Popen(
            [sys.executable, "-c", "from ptxsim import worker; worker.serve()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment, cwd="/",
        )  # fmt: skip

    def _ask(self, function: str, *arguments):
        if self._process is None:
            self._process = self._start()
        try:
            pickle.dump((function, arguments), self._process.stdin)
            self._process.stdin.flush()
            return pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError):
            code = self._process.wait()
            self._process = None
            self._errors.seek(0)
            text = self._errors.read().decode(errors="replace")[-3000:]
            return Report(error=f"the simulator's process ended with code {code}:\n{text}")

    def run(self, problem, keep_outputs: bool = False, completion: str = "lazy", seed: int = 0) -> Report:
        return self._ask("run_problem", problem, keep_outputs, completion, seed)

    def describe(self) -> dict | Report:
        return self._ask("describe_image")

    def close(self) -> None:
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None


# The other side.


def run_problem(session, problem, keep_outputs: bool, completion: str, seed: int) -> Report:
    report, start = Report(), time.monotonic()
    session.clear()
    session.set_schedule(completion, seed)
    try:
        outputs = problem.run(session)
        report.ran = list(outputs)
        if keep_outputs:
            report.outputs = outputs
        problem.check(outputs)
    except AssertionError as error:
        report.error = str(error) or f"not so: {traceback.extract_tb(error.__traceback__)[-1].line}"
        report.findings = getattr(error, "findings", [])
    except Exception as error:
        report.error, report.trace = f"{type(error).__name__}: {error}", traceback.format_exc()
    report.counts = session.counts()
    session.clear()
    session.release()
    report.launched = session.launched()
    report.seconds = time.monotonic() - start
    return report


def describe_image(session) -> dict[str, dict[int, str]]:
    """The image's ops, with their tactics for an ordinary product."""
    found = {}
    for op in (op for op in session.ops() if session.supports(op)):
        fields = {"m": 256, "n": 512, "k": 2048, "d_stride": 512, "d_dtype": 1, "bias_dtype": 1}
        if op.startswith("gemm_w4a16"):
            fields |= {"a_stride": 2048, "a_dtype": 1}
        else:
            fields |= {"a_stride": 1024, "b_stride": 1024}
        found[op] = session.tactics(op, **fields) if op.startswith("gemm") else {}
    return found


def serve() -> None:
    from .session import CallFailed, Session

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the answers
    questions = sys.stdin.buffer
    try:
        session = Session()
    except CallFailed as failure:
        sys.exit(str(failure))
    while True:
        try:
            function, arguments = pickle.load(questions)
        except EOFError:
            return
        pickle.dump(globals()[function](session, *arguments), answers)
        answers.flush()
