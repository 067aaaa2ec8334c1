"""One kernel by hand.

    python -m tests.ptxsim list                              images that were built, their ops and tactics
    python -m tests.ptxsim run --image sm90a --op gemm_nvfp4 --m 33 --n 264 --k 352 --tactic 3
    python -m tests.ptxsim run --image sm90a --op quantize_nvfp4 --rows 33 --k 96 --dtype fp16 --kind special

Run from the root of the repository; FP4AOT_BUILD_DIR says where the images were built, if not in the newest folder of
build/ (build.py). `run` takes every field of the op's problem (problems.py, quantize_problems.py, gemm_problems.py,
w4a16_problems.py) as an option, and prints JSON: whether the result is right, findings, and counts of each launch.
--ptx FILE runs that file in place of the image's unit of the same name; --completion says when asynchronous copies and
products complete: as late as they may (lazy), at once (eager; arrivals at a cluster's barrier wait for all others then,
as under compute-sanitizer), or at random (from --schedule-seed).
"""

import argparse
import dataclasses
import json
import re
import sys
import tempfile
import typing
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "abi")]

import reference  # noqa: E402  (through the line above)

from ptxsim import build, estimate, gemm_problems, problems, quantize_problems, w4a16_problems  # noqa: E402  (through the line above)
from ptxsim.session import DTYPES  # noqa: E402
from ptxsim.worker import Report, Worker  # noqa: E402

PROBLEMS = {
    "quantize_nvfp4": quantize_problems.Quantize,
    "quantize_mxfp4": quantize_problems.Quantize,
    "silu_mul_quantize_nvfp4": quantize_problems.Quantize,
    "silu_mul_quantize_mxfp4": quantize_problems.Quantize,
    "rmsnorm_quantize_nvfp4": quantize_problems.Quantize,
    "dequantize_nvfp4": quantize_problems.Dequantize,
    "dequantize_mxfp4": quantize_problems.Dequantize,
    "nvfp4_global_scale": problems.GlobalScale,
    "swizzle_scales": problems.ScaleLayout,
    "unswizzle_scales": problems.ScaleLayout,
    "gemm_nvfp4": gemm_problems.Gemm,
    "gemm_mxfp4": gemm_problems.Gemm,
    "gemm_w4a16_nvfp4": w4a16_problems.W4a16,
    "gemm_w4a16_mxfp4": w4a16_problems.W4a16,
    "prepare_w4a16_nvfp4": w4a16_problems.W4a16Weights,
    "prepare_w4a16_mxfp4": w4a16_problems.W4a16Weights,
    "restore_w4a16_nvfp4": w4a16_problems.W4a16Weights,
    "restore_w4a16_mxfp4": w4a16_problems.W4a16Weights,
}
CHOICES = {
    "dtype": tuple(DTYPES),
    "bias": tuple(DTYPES),
    "a_dtype": ("bf16", "fp16"),
    "kind": ("normal", "wide", "special"),
    "layout": ("swizzled", "linear"),
    "rounding": ("ceil", "floor"),
}
SIZES = ("rows", "columns", "m", "n", "k")
NOT_READY = 2  # the exit code when nothing could be run


def whole(minimum: int, multiple: int = 1, bits: int = 64) -> Callable[[str], int]:
    """Reads integers from minimum on that a signed field of so many bits holds."""

    def read(text: str) -> int:
        value = int(text)
        if value < minimum or value % multiple:
            kind = "a positive multiple" if multiple > 1 else f"an integer >= {minimum}"
            raise argparse.ArgumentTypeError(f"{value} is not {kind}{f' of {multiple}' if multiple > 1 else ''}")
        if value >= 1 << (bits - 1):
            raise argparse.ArgumentTypeError(f"{value} is beyond {bits} bits")
        return value

    read.__name__ = "int"  # argparse's word for what it cannot read
    return read


def pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
    return text


def reader(op: str, name: str, types: tuple[type, ...]) -> Callable:
    """What reads the field's value. Whatever else the library refuses, it says so itself."""
    if name == "only":
        return pattern
    if name == "k" and op != "nvfp4_global_scale":
        return whole(1, 32 if op in ("gemm_nvfp4", "gemm_mxfp4") else reference.VECTOR[problems.format_of(op)])
    if int in types:
        return whole(1 if name in SIZES else 0, bits=32 if name == "tactic" else 64)
    return float if float in types else str


def parse_problem(op: str, words: list[str]) -> object:
    """The op's problem from --field value words; flags need no value."""
    kind = PROBLEMS[op]
    parser = argparse.ArgumentParser(prog=f"python -m tests.ptxsim run --image IMAGE --op {op}")
    types = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if field.name == "op":
            continue
        option = f"--{field.name.replace('_', '-')}"
        if types[field.name] is bool:
            parser.add_argument(option, dest=field.name, action="store_true")
            continue
        required = field.default is dataclasses.MISSING
        parser.add_argument(
            option, dest=field.name, required=required, default=None if required else field.default,
            type=reader(op, field.name, (types[field.name], *typing.get_args(types[field.name]))),
            choices=CHOICES.get(field.name),
        )  # fmt: skip
    return kind(op=op, **vars(parser.parse_args(words)))


def show(image: str) -> int:
    worker = Worker(image, build.simulated_image(image))
    described = worker.describe()
    worker.close()
    if isinstance(described, Report):
        print(described.error, file=sys.stderr)
        return 1
    print(f"{image}: {len(build.kernels(image))} kernels from {build.build_folder()}")
    for op, tactics in described.items():
        print(f"  {op}")
        for number, name in tactics.items():
            print(f"    {number:3} {name}")
    return 0


def run(image: str, problem: object, ptx: Path | None, completion: str, seed: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        if ptx is None:
            place = build.simulated_image(image)
        else:
            replaced = [path for path in build.ptx_files(image) if path.name == ptx.name]
            if len(replaced) != 1:
                names = ", ".join(path.name for path in build.ptx_files(image))
                raise SystemExit(f"--ptx {ptx}: the image's units are {names}; name the file like one of them")
            place = build.mutated_image(image, {replaced[0]: ptx.read_text()}, Path(folder))
        worker = Worker(image, place)
        report = worker.run(problem, completion=completion, seed=seed)
        worker.close()
    if not report.error and not report.counts:
        report.error = "no kernel was launched, so nothing was checked (a size of 0, or --only that names no tactic)"
    result = {
        "image": image,
        "problem": problems.written_out(problem),
        "seconds": round(report.seconds, 3),
        "right": not report.error,
    }
    result |= {"error": report.error, "findings": report.findings, "launches": report.counts}
    print(json.dumps(result, indent=1))
    return 0 if not report.error else 1


def main(words: list[str]) -> int:
    help_wanted = "-h" in words or "--help" in words
    if not help_wanted and not build.images():
        print("no build folder with an image for GPUs: build the wheel here, or set FP4AOT_BUILD_DIR", file=sys.stderr)
        return NOT_READY
    built = build.images()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     prog="python -m tests.ptxsim")  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="images that were built, their ops and tactics")
    listing.add_argument("--image", choices=built)
    running = commands.add_parser("run", help="one call of an op; with --op and --help, its options", add_help=False)
    running.add_argument("--image", required=not help_wanted, choices=built)
    running.add_argument("--op", required=not help_wanted, choices=list(PROBLEMS))
    running.add_argument("--ptx", type=Path)
    running.add_argument("--completion", choices=("lazy", "eager", "random"), default="lazy")
    running.add_argument("--schedule-seed", type=whole(0), default=0)
    options, rest = parser.parse_known_args(words)
    if options.command == "list":
        parser.parse_args(words)  # nothing may be left over
        return max(show(image) for image in built if options.image in (None, image))
    if options.op is None:
        running.print_help()
        return 0
    problem = parse_problem(options.op, rest)
    if why := estimate.objection(problem):
        raise SystemExit(f"python -m tests.ptxsim: {why}")
    if why := estimate.warning(problem):
        print(f"python -m tests.ptxsim: {why}", file=sys.stderr)
    return run(options.image, problem, options.ptx, options.completion, options.schedule_seed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (AssertionError, OSError, pytest.skip.Exception, pytest.fail.Exception) as failure:
        # What building the simulator or the image needs and did not find or could not write.
        print(f"python -m tests.ptxsim: {failure}", file=sys.stderr)
        sys.exit(NOT_READY)
