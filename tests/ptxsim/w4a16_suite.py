"""What the tests run of gemm_w4a16_*: the shapes that every kernel gets, and a table of the kernels.

Every tactic runs with whole tiles (the first problem), and with partial ones along m, n and k and every type of output
(the next three); `some` of a kernel's tactics run everything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .w4a16_problems import W4a16, W4a16Chain, W4a16Weights

FORMATS = ("nvfp4", "mxfp4")


@dataclass(frozen=True)
class Kernel:
    """A kernel's tactics: regular expressions that are looked for in their names. They must match no other kernel's."""

    some: str  # with every tile, and with every way of sharing k, once
    fp32: str  # two or so of them: results of fp32, whose bound is narrow
    chains: str  # the first one runs in a chain of programmatic launches; empty: only the default tactic's does
    # m, n, k and tactics: what the shapes of all kernels do not reach, such as more tiles than CTAs run at a time, a
    # ring that is filled anew, a split of k.
    shapes: tuple[tuple[int, int, int, str], ...] = ()


# A new kernel: its line here, and nothing else.
KERNELS = (
    Kernel(
        some="mma_sync_(16x8_cluster[14]|16x16_cluster2|32x32_cluster8)$",
        fp32="mma_sync_(16x8|16x16|32x32)_cluster2$",
        chains="mma_sync_16x8_cluster4$",
        shapes=(
            (12, 320, 2112, "mma_sync_(16|32)x.*_cluster[12]$"),
            (9, 80, 544, "mma_sync_(16|32)x.*_cluster8$"),
            (9, 136, 10752, "mma_sync_16x(8|16)_cluster4$"),  # long parts, which take chunks of k in turn
            # buffers used again beside warps without rows
            (33, 200, 10752, "mma_sync_(16x(8|16)_cluster1|32x32_cluster2)$"),
        ),
    ),
    Kernel(
        some="wgmma_128x(64|192_cut|256|128_cluster2)$",
        fp32="wgmma_128x(64|128)(_cut)?$",
        chains="wgmma_.*_cut$",
        shapes=(
            (300, 1040, 192, "wgmma_128x(64|256)(_cluster2)?$"),
            (9, 80, 1536, "wgmma_.*_cut$"),
            (70, 264, 1056, "wgmma_128x.*_cluster2$"),  # rings filled anew; clusters of two and of four
            (300, 264, 352, "wgmma_128x.*_along_n$"),  # which a single tile of rows has not
            # Clusters that help with a tile, have whole ones and own another; ranges of more than a tile.
            (330, 272, 1440, "wgmma_128x(64|256)_cut$"),
            (580, 272, 1056, "wgmma_128x128_cut_along_n$"),
        ),
    ),
    Kernel(
        some="tcgen05_128x(64|128|256|128_cluster2)$",
        fp32="tcgen05_128x(64|128|64_cluster4)$",
        chains="tcgen05_128x64$",
        shapes=(
            (300, 520, 192, "tcgen05_128x(64|256)$"),
            (260, 264, 96, "tcgen05_.*_along_n$"),
            (70, 136, 1088, "tcgen05_128x(64|(64|128)_cluster[248])$"),
        ),
    ),
    Kernel(
        some="mma_sync_(256x128|128x128_along_n|128x64|128x64_cluster4)$",
        fp32="mma_sync_(128x128|128x64_cluster2)$",
        chains="mma_sync_128x64_cluster4$",
        shapes=(
            (300, 520, 192, "mma_sync_(256x128|128x64_along_n)$"),  # more tiles than CTAs
            (150, 136, 608, "mma_sync_(256x128|128x128)$"),  # rings filled anew; two tiles of tokens
            (1090, 136, 32, "mma_sync_128x64$"),  # more tiles along m than a group has, and along n
            (20, 2184, 32, "mma_sync_128x64_along_n$"),
        ),
    ),
    Kernel(
        some="wgmma_64x(8_cluster4|16_cluster2|32_cluster1|64(_groups4)?_cluster2|128_cluster1)$",
        fp32="wgmma_64x(8_cluster2|(64|64_groups4|128)_cluster1)$",
        chains="wgmma_64x8_cluster2$",
        # Rings filled several times; two row blocks in a CTA, with parts of k.
        shapes=(
            (7, 64, 8448, "wgmma_64x(8|16|64|64_groups4|128)_cluster1$"),
            (9, 1992, 544, "wgmma_64x(8|32|64|64_groups4|128)_cluster4$"),
        ),
    ),
)
SOME = "|".join(kernel.some for kernel in KERNELS)
FP32 = "|".join(kernel.fp32 for kernel in KERNELS)


def shapes(op: str, a_dtype: str) -> Iterable[object]:
    for kernel in KERNELS:
        for m, n, k, only in kernel.shapes:
            yield W4a16(op, m, n, k, a_dtype, alpha=0.37, bias="fp32", only=only, seed=7)


def products(op: str) -> Iterable[object]:
    """What reaches every kernel, tactic and type of output."""
    for a_dtype in ("bf16", "fp16"):
        yield W4a16(op, 16, 128, 256, a_dtype)  # one tile, whole along K
        # Parts of tiles in M, N and K; alpha and bias; gaps between all rows. Rows of D at multiples of 16 bytes.
        partial = {"m": 33, "n": 272, "k": 352, "a_dtype": a_dtype, "alpha": 0.37, "a_gap": 8, "d_gap": 16}
        bf16 = a_dtype == "bf16"
        yield W4a16(op, **partial, bias="bf16", only="" if bf16 else SOME)
        yield W4a16(op, **partial, dtype="fp16", bias="fp32", pdl=True, only="" if bf16 else SOME)
        yield W4a16(op, **partial, dtype="fp32", bias="fp16", only="" if bf16 else FP32)
        yield W4a16(op, 9, 80, 1536, a_dtype, alpha=-2.5, only="" if bf16 else SOME, seed=2)  # K is shared
        yield W4a16(op, 5, 24, 160, a_dtype, kind="special", only=SOME, seed=8)
        yield W4a16(op, 1, 8, 32, a_dtype, "fp32", tactic=0, seed=3)
    yield from shapes(op, "bf16")
    if op.endswith("nvfp4"):
        yield W4a16(op, 3, 40, 208, seed=4)  # K is no multiple of 32
    else:  # scales that kernels have a shorter way for
        yield W4a16(op, 12, 312, 2112, kind="small", only="mma_sync_(16|32)x.*_cluster[12]$", seed=9)
        yield W4a16(op, 12, 312, 2112, kind="small", only="wgmma_64x.*_cluster2$", seed=10)


def more_products(op: str) -> Iterable[object]:
    for a_dtype in ("bf16", "fp16"):
        yield W4a16(op, 35, 136, 416, a_dtype, "fp16", a_gap=24, d_gap=3, only=SOME, seed=5)  # rows of D anywhere
        yield W4a16(op, 70, 264, 1056, a_dtype, "fp32", "wide", only=FP32, seed=6)
    yield from shapes(op, "fp16")


def chains(op: str) -> Iterable[object]:
    for a_dtype in ("bf16", "fp16"):
        for seed, only in enumerate(("", *(kernel.chains for kernel in KERNELS if kernel.chains))):
            yield W4a16Chain(op, 70, 136, 320, a_dtype=a_dtype, only=only, seed=seed)


def weights(format: str) -> Iterable[object]:
    for op in (f"prepare_w4a16_{format}", f"restore_w4a16_{format}"):
        yield W4a16Weights(op, 8, 32)
        yield W4a16Weights(op, 136, 1056, gap=8, pdl=True, seed=1)
        yield W4a16Weights(op, 24, 96, "linear", gap=16, seed=2)


def w4a16_problems() -> Iterable[object]:
    for format in FORMATS:
        op = f"gemm_w4a16_{format}"
        yield from products(op)
        yield from chains(op)
        yield from weights(format)


def more_w4a16_problems() -> Iterable[object]:
    """For one of the images that are built from the same sources."""
    for format in FORMATS:
        yield from more_products(f"gemm_w4a16_{format}")


def in_other_schedules() -> Iterable[object]:
    for op in ("gemm_w4a16_nvfp4", "gemm_w4a16_mxfp4"):
        for a_dtype in ("bf16", "fp16"):
            yield W4a16(op, 33, 272, 608, a_dtype, only="" if a_dtype == "bf16" else SOME)
        yield W4a16(op, 330, 272, 1440, only="wgmma_128x(64|256)_cut$")  # parts of tiles
        yield from chains(op)
