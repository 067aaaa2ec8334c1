"""The kernels of the Blackwell images as a table: docs/kernels.md.

    python tests/static/kernel_table.py           writes docs/kernels.md from the installed package
    python tests/static/kernel_table.py --check   fails if it is stale

Numbers are read from the machine code (cuobjdump), so they belong to the toolkit that cmake/toolchain.py pins.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "static")]

import installed  # noqa: E402
import sass  # noqa: E402

DOCUMENT = TESTS.parent / "docs" / "kernels.md"
IMAGES = ("sm100a", "sm103a", "sm120a")
TENSOR = ("UTCOMMA", "UTCQMMA", "UTCHMMA", "OMMA", "QMMA", "HMMA")
OUTPUTS = {"13__nv_bfloat16": "bf16", "6__half": "fp16", "f": "fp32"}
STORES = {"0": "elements", "1": "TMA", "2": "32 bytes"}
_FORMAT = r"LNS_6FormatE(?P<format>[01])E"
_TCGEN05 = re.compile(
    rf"Tcgen05GemmI{_FORMAT}Li(?P<rows>\d+)ELi(?P<columns>\d+)ELb(?P<ultra>[01])ELb(?P<swapped>[01])E"
    r"LNS_5StoreE(?P<store>\d)E(?P<output>13__nv_bfloat16|6__half|f)EELi(?P<shared>\d+)E"
)
_MMA_SYNC = re.compile(
    rf"MmaSyncGemmI{_FORMAT}Li(?P<rows>\d+)ELi(?P<columns>\d+)ELi(?P<step>\d+)ELb(?P<ping_pong>[01])E"
    r"Lb(?P<swapped>[01])E(?P<output>13__nv_bfloat16|6__half|f)EELi(?P<shared>\d+)E"
)

_W4A16_TCGEN05 = re.compile(
    rf"w4a16_tcgen05_kernel\S*W4a16Tcgen05ConfigI{_FORMAT}Lb(?P<bf16>[01])ELi(?P<tokens>\d+)ELb(?P<fp32>[01])E"
)
_W4A16_TILE = re.compile(
    rf"w4a16_mma_sync_tile_kernel\S*W4a16TileConfigI{_FORMAT}Lb(?P<bf16>[01])ELi(?P<row_tiles>\d+)ELi(?P<tokens>\d+)E"
    r"Lb(?P<fp32>[01])E"
)


@dataclass
class Product:
    """A matrix product's kernel, from its mangled name."""

    format: str
    tile: str  # rows x columns x values along k
    form: str
    store: str
    output: str
    shared: int  # bytes of dynamic shared memory
    ultra: bool


def product(name: str) -> Product | None:
    for pattern in (_TCGEN05, _MMA_SYNC):
        if found := pattern.search(name):
            part = found.groupdict()
            ultra = part.get("ultra") == "1"
            step = part.get("step") or ("768" if ultra else "256")
            words = ["tcgen05, two SMs" if part["rows"] == "256" else "tcgen05"] if "ultra" in part else ["mma.sync"]
            words += ["ultra"] if ultra else []
            words += ["ping-pong"] if part.get("ping_pong") == "1" else []
            words += ["swapped"] if part["swapped"] == "1" else []
            store = part.get("store") or ("0" if part["swapped"] == "1" else "1")
            return Product(
                "mxfp4" if part["format"] == "1" else "nvfp4",
                f"{part['rows']}x{part['columns']}x{step}",
                ", ".join(words),
                STORES[store],
                OUTPUTS[part["output"]],
                int(part["shared"]),
                ultra,
            )
    return None


@dataclass
class W4a16Product:
    """A kernel of gemm_w4a16_* in tiles, from its mangled name."""

    format: str
    bf16: bool  # operands, else fp16
    rows: int  # of weights
    tokens: int
    fp32: bool  # has what fp32 results need

    @property
    def blocks(self) -> bool:
        """Scales go to the sums of blocks, which serves any results."""
        return self.format == "mxfp4" and not self.bf16


def w4a16_product(name: str) -> W4a16Product | None:
    for pattern in (_W4A16_TCGEN05, _W4A16_TILE):
        if found := pattern.search(name):
            part = found.groupdict()
            format = "mxfp4" if part["format"] == "1" else "nvfp4"
            rows = 8 * 16 * int(part.get("row_tiles") or 1)
            return W4a16Product(format, part["bf16"] == "1", rows, int(part["tokens"]), part["fp32"] == "1")
    return None


def tensor_instructions(kernel: sass.Kernel) -> str:
    counts: dict[str, int] = defaultdict(int)
    for instruction in kernel.all(*TENSOR):
        counts[instruction.opcode] += 1
    return ", ".join(f"{count} {opcode}" for opcode, count in sorted(counts.items()))


def function(name: str) -> str:
    """ "quantize_rows_kernel" of its mangled name: the last of the identifiers that it begins with."""
    rest, last = name.removeprefix("_ZN"), name
    while found := re.match(r"\d+", rest):
        end = found.end() + int(found[0])
        rest, last = rest[end:], rest[found.end() : end]
    return last


def stack(kernel: sass.Kernel) -> int:
    return kernel.resources["STACK"] + kernel.resources["LOCAL"]


def section(image: str, kernels: list[sass.Kernel]) -> list[str]:
    products = [(found, kernel) for kernel in kernels if (found := product(kernel.name))]
    lines = [f"## {image}", ""]
    lines += [
        "| product | tile | form | D stored by | D | registers | spilled bytes | dynamic shared memory "
        "| tensor instructions |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for found, kernel in sorted(products, key=lambda pair: (pair[0].format, pair[0].form, pair[0].tile, pair[0].store)):
        lines.append(
            f"| gemm_{found.format} | {found.tile} | {found.form} | {found.store} | {found.output} "
            f"| {kernel.resources['REG']} | {stack(kernel)} | {found.shared} | {tensor_instructions(kernel)} |"
        )
    w4a16 = [(found, kernel) for kernel in kernels if (found := w4a16_product(kernel.name))]
    if w4a16:
        lines += [
            "",
            "| product in tiles | tile | operands | D | registers | spilled bytes | tensor instructions |",
            "|---|---|---|---|---|---|---|",
        ]
    for found, kernel in sorted(
        w4a16, key=lambda pair: (pair[0].format, not pair[0].bf16, pair[0].rows, pair[0].tokens, pair[0].fp32)
    ):
        results = "all" if found.blocks else "fp32" if found.fp32 else "bf16, fp16"
        lines.append(
            f"| gemm_w4a16_{found.format} | {found.rows}x{found.tokens}x64 | {'bf16' if found.bf16 else 'fp16'} "
            f"| {results} | {kernel.resources['REG']} | {stack(kernel)} "
            f"| {tensor_instructions(kernel)} |"
        )
    groups: dict[str, list[sass.Kernel]] = defaultdict(list)
    for kernel in kernels:
        if not product(kernel.name) and not w4a16_product(kernel.name):
            groups[function(kernel.name)].append(kernel)
    lines += ["", "| other kernels | forms | registers, at most | spilled bytes | static shared memory, at most |"]
    lines += ["|---|---|---|---|---|"]
    for name, group in sorted(groups.items()):
        lines.append(
            f"| {name} | {len(group)} | {max(k.resources['REG'] for k in group)} | {max(map(stack, group))} "
            f"| {max(k.resources['SHARED'] for k in group)} |"
        )
    return [*lines, ""]


def document() -> str:
    lines = [
        "# Kernels of the Blackwell images",
        "",
        "Written by `python tests/static/kernel_table.py` from the machine code of the images, compiled by the toolkit",
        "that `cmake/toolchain.py` pins; a test fails when it is stale. Tiles are rows x columns of the kernel's D x",
        "values along k. Swapped: the kernel's A is our B, so that few rows of A go where a tile is narrow. Ultra: the",
        "K = 96 instructions. Static shared memory includes the 1 KiB that the system takes.",
        "",
    ]
    for image in IMAGES:
        lines += section(image, sass.kernels(installed.image_library(image)))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if docs/kernels.md is stale; write nothing")
    check = parser.parse_args().check
    text = document()
    if check:
        if DOCUMENT.read_text() != text:
            print(f"{DOCUMENT} is stale: python {Path(__file__).relative_to(TESTS.parent)}", file=sys.stderr)
            return 1
        return 0
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
