"""What the tests run on every image, and the processes that run it.

Every kernel of an image must be reached by these problems (test_inventory_sim.py), every tactic by the products.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace

from . import build
from .gemm_problems import Chain, Gemm
from .problems import GlobalScale, ScaleLayout
from .quantize_problems import Dequantize, EdgeCases, Quantize
from .w4a16_suite import FORMATS, in_other_schedules, more_w4a16_problems, w4a16_problems
from .worker import Report, Worker

DTYPES = ("bf16", "fp16", "fp32")
SECONDS = 900  # for one problem: beyond it something is stuck


@dataclass(frozen=True)
class Case:
    image: str
    problem: object
    keep_outputs: bool = False  # in the report
    completion: str = "lazy"  # of asynchronous operations: also "eager", "random"

    def __str__(self) -> str:
        """image-op-what differs from the problem's defaults."""
        words = [self.image, self.problem.op] + ([] if self.completion == "lazy" else [self.completion])
        for field in fields(self.problem):
            value = getattr(self.problem, field.name)
            if field.name in ("op", "only") or value == field.default:
                continue
            short = field.name in ("rows", "columns", "m", "n", "k", "seed", "tactic")
            words.append(f"{field.name}{value}" if short else field.name if value is True else f"{field.name}_{value}")
        return "-".join(words)


def quantize_problems() -> Iterable[object]:
    for op in ("quantize_nvfp4", "quantize_mxfp4"):
        yield EdgeCases(op)
        floor = "floor" if "mx" in op else "ceil"
        for dtype in DTYPES:
            # Aligned and not; whole atoms and parts; few blocks and many (several to a thread).
            yield Quantize(op, 130, 96, dtype, "special", codes_gap=8, global_scale=3.5 if "nv" in op else None)
            yield Quantize(op, 37, 160, dtype, "wide", layout="linear", gap=3, lead=1, rounding=floor)
            yield Quantize(op, 6020, 160, dtype, "wide", seed=1)
        yield Quantize(op, 1, 32, seed=2)
        yield Quantize(op, 300, 1056, kind="special", layout="linear", rounding=floor, seed=3)
        yield Quantize(op, 128, 256, kind="special", lead=8, gap=8, pdl=True, seed=4)
    for op in ("silu_mul_quantize_nvfp4", "silu_mul_quantize_mxfp4"):
        scale = 50.0 if "nv" in op else None
        for dtype in DTYPES:
            yield Quantize(op, 33, 96, dtype, global_scale=scale, codes_gap=16)
            yield Quantize(op, 20, 160, dtype, layout="linear", gap=5, lead=1, global_scale=scale)
            yield Quantize(op, 6020, 160, dtype, global_scale=scale, seed=1)
        yield Quantize(op, 129, 512, pdl=True, seed=2)
    op = "rmsnorm_quantize_nvfp4"
    for dtype in DTYPES:
        yield Quantize(op, 33, 208, dtype, global_scale=12.0, residual=True)
        yield Quantize(op, 5, 112, dtype, layout="linear", gap=3, lead=1, residual=True, seed=1)
        # Rows of 4 and 8 small CTAs, then of larger ones.
        for rows, k in ((9, 1072), (9, 2080), (3, 4128), (50, 2064), (24, 4128), (190, 1040), (96, 4128)):
            yield Quantize(op, rows, k, dtype, residual=True, codes_gap=8, global_scale=12.0, seed=5)
        for rows, k in ((1, 8192), (1, 16384), (1, 32784)):
            yield Quantize(op, rows, k, dtype, layout="linear", global_scale=12.0, seed=2)
        for rows, k in ((380, 208), (380, 2064), (190, 4112), (50, 8208)):  # not small: 1 to 8 blocks a thread
            yield Quantize(op, rows, k, dtype, layout="linear", global_scale=12.0, residual=k == 208, seed=6)
        yield Quantize(op, 2, 32784, dtype, layout="linear", residual=True, seed=3)
    yield Quantize(op, 516, 512, global_scale=12.0, pdl=True, seed=4)


def layout_problems() -> Iterable[object]:
    for op in ("dequantize_nvfp4", "dequantize_mxfp4"):
        scale = 0.3 if "nv" in op else None
        for dtype in DTYPES:
            yield Dequantize(op, 133, 96, dtype, global_scale=scale, gap=16)
            yield Dequantize(op, 9, 160, dtype, layout="linear", gap=3)
        yield Dequantize(op, 300, 1056, pdl=True, seed=1)
    for dtype in DTYPES:
        yield GlobalScale("nvfp4_global_scale", 33, 96, dtype)
        yield GlobalScale("nvfp4_global_scale", 130, 1000, dtype, gap=1, lead=1, seed=1)
        yield GlobalScale("nvfp4_global_scale", 200, 1040, dtype, "wide", pdl=True, seed=2)
    for op in ("swizzle_scales", "unswizzle_scales"):
        yield ScaleLayout(op, 1, 1)
        yield ScaleLayout(op, 131, 8)
        yield ScaleLayout(op, 300, 33, gap=3, lead=1, pdl=True)


def gemm_problems() -> Iterable[object]:
    for format in FORMATS:
        op = f"gemm_{format}"
        yield Gemm(op, 16, 128, 256)  # one tile, whole along K
        # Parts of tiles in M, N and K; alpha and bias; gaps between all rows. Rows of D at multiples of 32 bytes, which
        # the widest stores need; then at none.
        partial = {"m": 33, "n": 272, "k": 352, "alpha": 0.37, "a_gap": 16, "b_gap": 48, "d_gap": 16}
        yield Gemm(op, **partial, bias="bf16")
        yield Gemm(op, **partial, dtype="fp16", bias="fp32", pdl=True)
        yield Gemm(op, **partial, dtype="fp32", bias="fp16")
        yield Gemm(op, 35, 136, 352, dtype="fp16", d_gap=3, only="_1sm|mma_sync|wgmma", seed=5)
        yield Gemm(op, 140, 1040, 128, seed=1, only="^((?!cluster).)*$")  # several waves
        yield Gemm(op, 450, 464, 64, seed=4, only="cluster|along")  # tiles in pairs both ways
        # K long enough to be cut into slices.
        yield Gemm(op, 9, 80, 1536, alpha=-2.5, only="^((?!cluster|along).)*$", seed=2)
        yield Gemm(
            op, 9, 80, 6144, only=r"_1sm_128x64_splitk(8|12|16)|mma_sync_128x8_swapped_splitk(8|12|16)", pdl=True
        )
        # Slices with every cluster and order: of two tiles along K and one; of one and two, or of two; of one.
        four = 1280 if format == "nvfp4" else 2048
        for slices, k in ((2, 768), (4, four), (8, 2048)):
            yield Gemm(op, 200, 200, k, only=f"^(?!.*ultra).*_1sm_.*splitk{slices}$", seed=6)
            yield Gemm(op, 200, 456, k, only=f"^(?!.*ultra).*_2sm_.*splitk{slices}$", seed=7)
        yield Gemm(op, 200, 200, 2048, only="ultra_1sm_.*splitk2$", seed=6)  # their tiles are longer
        yield Gemm(op, 200, 456, 2048, only="ultra_2sm_.*splitk2$", seed=7)
        for slices, k in ((2, 768), (4, four), (8, 2048), (16, 4096)):
            yield Gemm(op, 200, 136, k, only=f"mma_sync_128x128_.*splitk{slices}$", seed=8)
            yield Gemm(op, 40, 136, k, only=f"mma_sync_.*swapped.*splitk{slices}$", seed=8)
        yield Gemm(op, 1, 8, 32, tactic=0, dtype="fp32", seed=3)
        yield Chain(op, 70, 136, 320)


def cases(problems: Iterable[object]) -> list[Case]:
    """The problems, on every image that was built and has their op."""
    listed = list(problems)
    return [Case(image, p) for image in build.images() for p in listed if build.has_op(image, p.op)]


def without_twins(listed: list[Case]) -> list[Case]:
    """W4A16 of sm100a and sm103a is built from the same sources: where both are, sm103a's tests are enough of these."""
    return [case for case in listed if case.image != "sm100a" or "sm103a" not in build.images()]


def w4a16_cases() -> list[Case]:
    return cases(w4a16_problems()) + without_twins(cases(more_w4a16_problems()))


def all_cases() -> list[Case]:
    return cases([*quantize_problems(), *layout_problems(), *gemm_problems()]) + w4a16_cases()


def other_schedules() -> list[Case]:
    """Products and chains whose asynchronous operations end at once, or at random, and not as late as they may."""
    listed = [
        problem
        for op in ("gemm_nvfp4", "gemm_mxfp4")
        for problem in (
            Gemm(op, 33, 272, 352, only="^((?!cluster|along).)*$"),
            Gemm(op, 33, 72, 2304, only="wgmma_stream"),  # more than two rounds of its rings
            Gemm(op, 70, 2056, 608, only="^wgmma_stream_.*_cut$"),  # CTAs with parts of two tiles
            Chain(op, 70, 136, 320),
        )
    ]
    found = cases(listed) + without_twins(cases(in_other_schedules()))
    return [replace(case, completion=name) for case in found for name in ("eager", "random")]


class Results:
    """Reports of cases. Those expected are run ahead, several images at a time, in the order given."""

    def __init__(self, expected: Iterable[Case]):
        self._queue = list(dict.fromkeys(expected))
        self._futures: dict[Case, Future] = {case: Future() for case in self._queue}
        self._lock = threading.Lock()
        self._started = False
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begins with what is expected; a report that is not there yet is waited for."""
        with self._lock:
            if self._queue:
                self._start()

    def report(self, case: Case) -> Report:
        with self._lock:
            if case not in self._futures:
                self._futures[case] = Future()
                self._queue.insert(0, case)
            self._start()
        return self._futures[case].result(SECONDS)

    def check(self, case: Case) -> Report:
        report = self.report(case)
        print(f"{report.seconds:.2f} s in the simulator")
        print(report.trace, end="")
        assert not report.error, report.error
        return report

    def close(self) -> None:
        """Leaves undone what nobody waits for any more."""
        with self._lock:
            self._queue.clear()
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        """Threads end when there is nothing to do; a late case starts them again."""
        if self._started:
            return
        self._started = True
        images = {case.image for case in self._queue}
        for image in images:  # one after the other: both write to the same folders
            build.simulated_image(image)
        for _ in range(max(1, int(os.environ.get("PTXSIM_WORKERS", os.cpu_count() or 1)))):
            self._threads.append(threading.Thread(target=self._work, daemon=True))
            self._threads[-1].start()

    def _next(self, image: str | None) -> Case | None:
        """Preferably one of the image whose process runs already."""
        with self._lock:
            if not self._queue:
                self._started = False
                return None
            same = [case for case in self._queue if case.image == image]
            case = same[0] if same else self._queue[0]
            self._queue.remove(case)
            return case

    def _work(self) -> None:
        worker = None
        while case := self._next(worker.image if worker else None):
            if worker is None or worker.image != case.image:
                if worker:
                    worker.close()
                worker = Worker(case.image, build.simulated_image(case.image), threads=1)
            try:
                self._futures[case].set_result(worker.run(case.problem, case.keep_outputs, case.completion, seed=1))
            except Exception as error:
                self._futures[case].set_exception(error)
        if worker:
            worker.close()
