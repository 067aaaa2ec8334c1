"""CUTLASS's own block-scaled kernels, plain and grouped, as its builders make them, not by this project's choices: they
give right results, their known faults are reported, and so are faults planted in them."""

import re

import pytest

from . import cutlass_kernels
from .cutlass_problems import CutlassProduct
from .worker import Worker

pytestmark = [pytest.mark.ptxsim, pytest.mark.build]

# Formats of the two kernels in cutlass/<chip>.cu.
PLAIN = {"sm100a": "nvfp4", "sm103a": "nvfp4", "sm120a": "mxfp4"}
GROUPED = {"sm100a": "mxfp4", "sm103a": "nvfp4", "sm120a": "nvfp4"}
ROWS = (130, 0, 1, 40, 300)  # of groups: none, one, parts of a tile and several tiles


def plain(chip: str, m: int, n: int, k: int, **fields) -> CutlassProduct:
    return CutlassProduct("plain", PLAIN[chip], (m,), n, k, **fields)


def grouped(chip: str, rows: tuple[int, ...] = ROWS, n: int = 136, k: int = 352, **fields) -> CutlassProduct:
    return CutlassProduct("grouped", GROUPED[chip], rows, n, k, **fields)


def problems(chip: str) -> list[CutlassProduct]:
    long = 864 if chip == "sm103a" else 608  # more than a tile along k, and not whole ones
    operands = ("a", "b", "a_scales", "b_scales")
    return [
        plain(chip, 256, 256, 768),
        plain(chip, 150, 264, long),
        plain(chip, 1, 8, 32),
        plain(chip, 700, 1040, 64, seed=1),  # several waves
        plain(chip, 150, 264, 352, pdl=True, late=operands, seed=2),
        grouped(chip),
        grouped(chip, (128,), 128, 768, seed=1),
        grouped(chip, (33, 64, 0, 0, 7, 260, 1, 19, 128, 5, 9, 3), n=136, k=long, seed=2),  # more groups than SMs
        grouped(chip, pdl=True, late=(*operands, "alpha"), seed=3),
        grouped(chip, pdl=True, late=("arrays",), seed=4),
    ]


class Workers:
    def __init__(self):
        self.running = {}

    def run(self, chip: str, problem: CutlassProduct, completion: str = "lazy"):
        if chip not in self.running:
            self.running[chip] = Worker(chip, cutlass_kernels.folder(chip))
        return self.running[chip].run(problem, completion=completion, seed=1)


@pytest.fixture(scope="module")
def workers():
    found = Workers()
    yield found
    for worker in found.running.values():
        worker.close()


def cases(of) -> list:
    return [pytest.param(chip, p, id=f"{chip}-{name(p)}") for chip in cutlass_kernels.chips() for p in of(chip)]


def chips(*wanted: str):
    return pytest.mark.parametrize("chip", [chip for chip in cutlass_kernels.chips() if not wanted or chip in wanted])


def name(p: CutlassProduct) -> str:
    rows = "+".join(map(str, p.rows))
    return f"{p.op}-{p.format}-{rows}x{p.n}x{p.k}" + "".join(f"-late_{what}" for what in p.late)


@pytest.mark.parametrize(("chip", "problem"), cases(problems))
def test_right_results(workers, chip, problem):
    report = workers.run(chip, problem)
    print(f"{report.seconds:.2f} s in the simulator")
    assert not report.error, report.error


@pytest.mark.parametrize("completion", ["eager", "random"])
@pytest.mark.parametrize(("chip", "problem"), cases(lambda chip: [plain(chip, 150, 264, 352), grouped(chip)]))
def test_right_results_in_another_schedule(workers, chip, problem, completion):
    report = workers.run(chip, problem, completion)
    assert not report.error, report.error


def reported(report) -> set[str]:
    return {finding["check"] for finding in report.findings}


@chips()
def test_alpha_is_read_before_the_wait(workers, chip):
    """A fault of CUTLASS 4.8.1's default epilogue: alpha may not come from the kernel before. Groups' alphas may."""
    report = workers.run(chip, plain(chip, 150, 264, 352, pdl=True, late=("alpha",)))
    assert reported(report) == {"pdl-before-wait"}, report.error
    assert "deliver_words" in report.error
    report = workers.run(chip, plain(chip, 150, 264, 352, late=("alpha",)))
    assert not report.error, report.error


@chips("sm100a")
def test_automatic_epilogue_tile_overruns_tensor_memory(workers, chip):
    """A fault of CUTLASS 4.8.1: see the comment in cutlass/sm100a.cu."""
    report = workers.run(chip, CutlassProduct("plain_automatic_tile", PLAIN[chip], (256,), 256, 768))
    assert "tensor-memory-unallocated" in reported(report), report.error
    report = workers.run(chip, plain(chip, 256, 256, 768))
    assert not report.error, report.error


# Faults planted in the grouped kernel's PTX: what is edited, to what, and the checks that may report it.
PLANTED = {
    "a changed map is used without an acquire": (
        r"fence\.proxy\.tensormap\S*acquire[^;]*;",
        ";",
        "tensor-map-not-acquired",
    ),
    "a changed map does not reach global memory": (r"tensormap\.cp_fenceproxy[^;]*;", ";", "tensor-map|global"),
    "the address of one group for all": (r"tensormap\.replace\.tile\.global_address[^;]*;", ";", "."),
    "the rows of one group for all": (r"tensormap\.replace\.tile\.global_dim\S+ \[%\w+\], 1, [^;]*;", ";", "."),
    "no wait for the launch before": (r"griddepcontrol\.wait;", ";", "pdl"),
}


@pytest.mark.parametrize("what", PLANTED, ids=lambda what: what.replace(" ", "_"))
@chips()
def test_planted_fault_is_noticed(chip, what, tmp_path):
    pattern, replacement, symptom = PLANTED[what]
    pieces = re.split(r"(?m)^(?=.*\.entry )", cutlass_kernels.ptx_file(chip).read_text())
    places = [i for i, piece in enumerate(pieces) if "tensormap.cp_fenceproxy" in piece]
    assert len(places) == 1, "one of the kernels is grouped"
    pieces[places[0]], edits = re.subn(pattern, replacement, pieces[places[0]])
    assert edits, f"the PTX of {chip} has no {pattern}: the planted fault has to follow"
    worker = Worker(chip, cutlass_kernels.edited(chip, "".join(pieces), tmp_path))
    report = worker.run(grouped(chip, pdl=True, late=("arrays",)))
    worker.close()
    assert report.error, "nothing was noticed"
    assert re.search(symptom, report.error), report.error
    assert "the simulator's process ended" not in report.error
