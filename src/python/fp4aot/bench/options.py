"""What to measure: the options of ``fp4aot bench``, looked at before anything slow is loaded."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

SUITES = ("w4a16", "w4a4", "chain", "host")
FORMATS = ("nvfp4", "mxfp4")
TURNS, QUICK_TURNS = 15, 7

Shape = tuple[int, int]  # n, k

_GPU_SHAPES = ((4096, 7168), (7168, 7168), (14336, 4096), (6656, 19968), (19968, 6656), (7168, 2048))
_GPU_ROWS = tuple(1 << i for i in range(13))
_QUICK_SHAPES, _QUICK_ROWS = ((4096, 7168), (6656, 19968)), (1, 8, 32, 128, 1024, 4096)
_CHAIN_SHAPES, _CHAIN_ROWS = ((4096, 4096), (7168, 7168), (14336, 4096)), (1, 4, 8, 16, 32, 64, 128)
_CPU_SHAPES, _CPU_ROWS = ((1536, 384), (1024, 1024), (4096, 4096)), (1, 8, 64, 256, 1024)
_CPU_QUICK_SHAPES, _CPU_QUICK_ROWS = ((1024, 1024),), (1, 8, 64)

DESCRIPTION = """\
Suites: w4a16 and w4a4 time products of a shape beside what is installed of cuBLAS in bf16 (through torch), Humming
(W4A16) and the fastest of several kernels that only read the same bytes (needs Triton), all in turns in one run: CUDA
graphs, events straight around each, L2 flushed by reading 256 MB, medians. On the CPU: torch's fp32 and bf16 products,
plain timers. chain times W4A16 products that follow each other, each of the last one's result ([M, K] by N x K, and
back), launched as usual and with pdl=True, on a GPU: a product's share. host times what the CPU spends on a call before
it can queue the next.

Results are printed as they come, and FILEs are complete after each: a run that is stopped loses nothing."""


@dataclass(frozen=True)
class Plan:
    """One run. ``shapes`` and ``rows`` None are the device's default."""

    suite: str
    device: str = "auto"
    formats: tuple[str, ...] = FORMATS
    shapes: tuple[Shape, ...] | None = None
    rows: tuple[int, ...] | None = None
    tactics: bool = False
    check: bool = False
    peers: bool = True
    quick: bool = False
    json: Path | None = None
    markdown: Path | str | None = None  # "-": print it at the end
    command: str = "fp4aot bench"

    @property
    def turns(self) -> int:
        return QUICK_TURNS if self.quick else TURNS

    def shapes_on(self, device: str) -> tuple[Shape, ...]:
        """The shapes (N, K) for "cuda" or "cpu"."""
        if self.shapes is not None:
            return self.shapes
        if self.suite == "chain":
            return _CHAIN_SHAPES[:1] if self.quick else _CHAIN_SHAPES
        if device == "cpu":
            return _CPU_QUICK_SHAPES if self.quick else _CPU_SHAPES
        return _QUICK_SHAPES if self.quick else _GPU_SHAPES

    def rows_on(self, device: str) -> tuple[int, ...]:
        """The numbers of rows (M) for "cuda" or "cpu"."""
        if self.rows is not None:
            return self.rows
        if self.suite == "chain":
            return _CHAIN_ROWS
        if device == "cpu":
            return _CPU_QUICK_ROWS if self.quick else _CPU_ROWS
        return _QUICK_ROWS if self.quick else _GPU_ROWS


def _distinct(values: list[str]) -> list[str]:
    return list(dict.fromkeys(value.strip() for value in values))


def parse_rows(text: str) -> tuple[int, ...]:
    """ "1,8,16" -> (1, 8, 16)."""
    for value in (values := _distinct(text.split(","))):
        if not re.fullmatch(r"[1-9][0-9]{0,8}", value):
            raise argparse.ArgumentTypeError(
                f"{value!r} is no number of rows (M); give positive integers separated by commas: 1,8,16"
            )
    return tuple(map(int, values))


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """ "4096x7168,7168x2048" -> ((4096, 7168), (7168, 2048))."""
    shapes = []
    for value in _distinct(text.split(",")):
        match = re.fullmatch(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", value)
        if match is None:
            raise argparse.ArgumentTypeError(
                f"{value!r} is no shape; give NxK, separated by commas: 4096x7168,7168x2048"
            )
        shapes.append((int(match[1]), int(match[2])))
    return tuple(shapes)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, for the console script."""
    parser.description, parser.formatter_class = DESCRIPTION, argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--suite", choices=SUITES, default="w4a16", help="default: %(default)s")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: a GPU that an image serves, else cpu")
    add("--format", choices=["both", *FORMATS], default="both", help="default: both")
    add("--shapes", type=parse_shapes, metavar="NxK,...", help="default: some of known models, by suite and device")
    add("--rows", type=parse_rows, metavar="M,...", help="default: 1 to 4096 (chain 128, CPU 1024), by powers of two")
    add("--tactics", action="store_true", help="time every tactic that is valid for a shape, and rank them")
    add("--check", action="store_true", help="compare each result with fp64 of the dequantised operands")
    add("--no-peers", action="store_true", help="leave cuBLAS, torch and Humming out")
    add("--quick", action="store_true", help="fewer shapes and numbers of rows, 7 turns instead of 15")
    add("--json", type=Path, metavar="FILE", help="write everything measured, and the versions, to FILE")
    add("--markdown", nargs="?", const="-", metavar="FILE", help="write tables to FILE, or print them at the end")


def _check_file(option: str, path: Path) -> None:
    if path.is_dir() or not path.absolute().parent.is_dir():
        what = "is a folder" if path.is_dir() else f"is in a folder that does not exist ({path.absolute().parent})"
        raise ValueError(f"{option} {path} {what}. Give the path of a file.")


def _check_shape(suite: str, format: str, n: int, k: int) -> None:
    multiple = 16 if suite != "w4a4" and format == "nvfp4" else 32
    if suite == "chain" and (n % multiple or k % multiple):
        raise ValueError(
            f"--shapes {n}x{k} (N x K): a chain goes back from N to K, so {format} weights have both a multiple of "
            f"{multiple}."
        )
    if n % 8 or k % multiple:
        raise ValueError(
            f"--shapes {n}x{k} (N x K): {format} weights of {suite} have N a multiple of 8 and K of {multiple}."
        )


def make_plan(options: argparse.Namespace, arguments: list[str]) -> Plan:
    """The run that parsed options name; ValueError for what does not go together."""
    what = {"chain": "times default tactics, without peers,", "host": "times calls of one small shape"}
    if options.suite in what:
        given = {"--tactics": options.tactics, "--check": options.check, "--no-peers": options.no_peers}
        if options.suite == "host":
            given |= {"--shapes": options.shapes, "--rows": options.rows, "--format": options.format != "both"}
        unused = [name for name, value in given.items() if value]
        if unused:
            raise ValueError(f"--suite {options.suite} {what[options.suite]} and takes no {', '.join(unused)}.")
    formats = FORMATS if options.format == "both" else (options.format,)
    for n, k in options.shapes or ():
        for format in formats:
            _check_shape(options.suite, format, n, k)
    markdown = options.markdown if options.markdown in (None, "-") else Path(options.markdown)
    for option, path in (("--json", options.json), ("--markdown", markdown)):
        if isinstance(path, Path):
            _check_file(option, path)
    return Plan(
        suite=options.suite,
        device=options.device,
        formats=formats,
        shapes=options.shapes,
        rows=options.rows,
        tactics=options.tactics,
        check=options.check,
        peers=not options.no_peers,
        quick=options.quick,
        json=options.json,
        markdown=markdown,
        command=command_line(arguments),
    )


def command_line(arguments: list[str]) -> str:
    """The command that does this again."""
    # An empty variable is one that is not set.
    given = [(name, value) for name, value in sorted(os.environ.items()) if name.startswith("FP4AOT_") and value]
    variables = [f"{name}={value}" for name, value in given]
    return shlex.join([*variables, "python", "-m", "fp4aot", *arguments])
