"""What a run prints and writes, as it comes."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import runtime, torch_ops
from .options import Plan
from .tables import CALL_SUITES, extremes, markdown_tables, row_line

if TYPE_CHECKING:
    from .machines import Machine

SCHEMA = 1  # of the JSON file; raised when a key changes its meaning

_PACKAGES = ("fp4aot", "torch", "triton", "humming-kernels", "numpy")


def _version(package: str) -> str | None:
    if package == "torch" and "torch" in sys.modules:  # its metadata may leave out what it was built for: +cu130
        return str(sys.modules["torch"].__version__)
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def environment(machine: Machine) -> dict[str, Any]:
    """The versions and the hardware that numbers belong to."""
    info = runtime.info()
    image = runtime.image_name(machine.device)
    toolkits = {entry["name"]: entry["cuda_toolkit"] for entry in info["images"]}
    packages = {name: version for name in _PACKAGES if (version := _version(name)) is not None}
    packages["fp4aot"] = info["version"]
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "device": machine.device,
        "hardware": machine.name(),
        "driver": info["driver"]["version"] if machine.device == "cuda" else None,
        "image": image,
        "image_cuda_toolkit": toolkits.get(image) or None,
        "packages": packages,
        "python": platform.python_version(),
        "fast_path": torch_ops.fast_path_is_on,
    }


def heading(environment: Mapping[str, Any], command: str) -> str:
    """The environment in three lines."""
    driver = f", driver {environment['driver']}" if environment["driver"] else ""
    toolkit = environment["image_cuda_toolkit"]
    built = f" (CUDA {toolkit // 1000}.{toolkit % 1000 // 10})" if toolkit else ""
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    fast = "" if environment["fast_path"] else ", fast path off"
    return (
        f"{environment['date']}, {environment['hardware']}{driver}\n"
        f"{packages}, Python {environment['python']}, image {environment['image']}{built}{fast}\n"
        f"$ {command}"
    )


def write(path: Path, text: str) -> None:
    """Replaces a file at once, so that it is whole whenever the run stops."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


class Output:
    """Prints rows and keeps the files of --json and --markdown up to date."""

    def __init__(self, plan: Plan, environment: dict[str, Any]) -> None:
        self.plan, self.environment = plan, environment
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._start = time.perf_counter()
        self._state = "running"

    def begin(self) -> None:
        print(heading(self.environment, self.plan.command), flush=True)
        self._write()  # an unwritable file shows now

    def progress(self, index: int, count: int, what: str, seconds: float) -> None:
        """One line a shape: what follows, how long its set-up took, and the time since the start."""
        elapsed = time.perf_counter() - self._start
        print(f"\n[{index + 1}/{count}] {what} (set up in {seconds:.1f} s; {elapsed:.0f} s since start)", flush=True)

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(f"note: {text}", flush=True)
        self._write()

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        print(row_line(self.plan.suite, row), flush=True)
        self._write()

    def end(self, state: str) -> None:
        """``state``: "finished", "stopped" or "failed"."""
        self._state = state
        self._write()
        if self.plan.suite not in CALL_SUITES and self.rows:
            print("\nWorst ratios (a peer's time over ours, ours over the read):")
            print("\n".join(extremes(self.rows)), flush=True)
        if self.plan.markdown == "-" and self.rows:
            print("\n" + self._markdown(), flush=True)
        print(f"\n{len(self.rows)} results, {time.perf_counter() - self._start:.0f} s, {state}", flush=True)

    def as_json(self) -> dict[str, Any]:
        """What --json writes. Times are microseconds; README, "Numbers", explains the ratios."""
        return {
            "schema": SCHEMA,
            "suite": self.plan.suite,
            "command": self.plan.command,
            "state": self._state,
            "seconds": round(time.perf_counter() - self._start, 1),
            "turns": self.plan.turns,
            "environment": self.environment,
            "notes": self.notes,
            "results": self.rows,
        }

    def _markdown(self) -> str:
        return markdown_tables(self.plan.suite, self.rows, heading(self.environment, self.plan.command))

    def _write(self) -> None:
        if self.plan.json is not None:
            write(self.plan.json, json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n")
        if isinstance(self.plan.markdown, Path):
            write(self.plan.markdown, self._markdown())
