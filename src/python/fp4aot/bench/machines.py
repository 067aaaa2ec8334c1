"""What is there to measure on: a CUDA device or the CPU, with its timer, peers and readers."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Callable
from typing import Any, Protocol

import torch

from .. import runtime
from . import peers
from .timing import Call, GraphTimer, PlainTimer, Timer


class Machine(Protocol):
    """A device and what is measured beside the products on it."""

    device: str  # "cuda" or "cpu"
    out_dtype: torch.dtype
    timer: Timer
    seconds_a_row: float  # a row's turns end after that
    notes: list[str]  # what is not measured, and why

    def name(self) -> str:
        """Of the hardware."""

    def readers(self, size: int) -> dict[str, Call]:
        """Kernels that read ``size`` bytes, by name."""

    def empty(self) -> Call | None:
        """A kernel without work."""

    def peers(self, suite: str, format: str, dense: torch.Tensor) -> dict[str, peers.Product]:
        """Other libraries' products of these weights, by name."""


class Gpu:
    """torch's current CUDA device."""

    device = "cuda"
    out_dtype = torch.bfloat16
    seconds_a_row = float("inf")

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._triton: Any = None
        try:
            from . import triton_kernels

            self._triton = triton_kernels
        except Exception as error:  # missing or broken
            self.notes.append(
                "Reading the same bytes (the floor) and an empty kernel are not measured: they need Triton (pip "
                f"install triton), and it cannot be imported ({error})."
            )
        if importlib.util.find_spec("humming") is None:
            self.notes.append("Humming is not installed: not measured (pip install humming-kernels).")
        self.timer: Timer = GraphTimer()

    def name(self) -> str:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return f"{properties.name}, {properties.multi_processor_count} SMs"

    def readers(self, size: int) -> dict[str, Call]:
        return self._triton.readers(size) if self._triton is not None else {}

    def empty(self) -> Call | None:
        return self._triton.empty if self._triton is not None else None

    def peers(self, suite: str, format: str, dense: torch.Tensor) -> dict[str, peers.Product]:
        found: dict[str, peers.Product] = {"cuBLAS bf16": peers.matmul(dense)}
        if suite == "w4a16" and importlib.util.find_spec("humming") is not None:
            try:
                found["Humming"] = peers.humming(format, dense)
            except Exception as error:  # a peer's refusal is no reason to stop
                self.notes.append(f"Humming {format} {tuple(dense.shape)}: {type(error).__name__}: {error}")
        return found


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


class Cpu:
    """The CPU, with as many threads as this process has CPUs (torch's number)."""

    device = "cpu"
    out_dtype = torch.float32
    seconds_a_row = 2.0

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.timer: Timer = PlainTimer()

    def name(self) -> str:
        isa = os.environ.get("FP4AOT_CPU_ISA")
        cpus = f"{len(os.sched_getaffinity(0))} CPUs, {torch.get_num_threads()} torch threads"
        return f"{_cpu_name()}, {cpus}" + (f", FP4AOT_CPU_ISA={isa}" if isa else "")

    def readers(self, size: int) -> dict[str, Call]:
        return {}

    def empty(self) -> Call | None:
        return None

    def peers(self, suite: str, format: str, dense: torch.Tensor) -> dict[str, peers.Product]:
        return {"torch fp32": peers.matmul(dense.float()), "torch bf16": peers.matmul(dense)}


def choose(device: str) -> Machine:
    """The machine for --device; an error that says what is missing."""
    if device == "cpu":
        return Cpu()
    make: Callable[[], Machine] = Gpu
    if not torch.cuda.is_available():
        if device == "auto":
            return Cpu()
        built = "was built for CPUs only" if torch.version.cuda is None else f"is built for CUDA {torch.version.cuda}"
        raise ValueError(
            f"--device cuda: torch sees no CUDA device (torch {torch.__version__} {built}). `fp4aot info` says what "
            "there is; --device cpu measures the cpu image."
        )
    if device == "auto" and not runtime.supports("gemm_nvfp4", "cuda"):
        cpu: Machine = Cpu()
        try:
            runtime.image_name("cuda")
        except Exception as error:
            cpu.notes.append(f"The GPU is not measured: {error}")
        return cpu
    runtime.image_name("cuda")  # raises where no image serves it
    return make()
