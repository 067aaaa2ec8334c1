"""Kernels that read memory and do nothing else, and one that does nothing. Needs Triton."""

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from .timing import Call


@triton.jit
def _read_block(source, words, sink, BLOCK: tl.constexpr) -> None:  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(source + offsets, mask=offsets < words, other=0)
    if tl.xor_sum(x, 0) == 0x12345678:
        tl.store(sink, 1)


@triton.jit
def _read_persistent(source, words, sink, BLOCK: tl.constexpr) -> None:  # type: ignore[no-untyped-def]
    total = tl.zeros([BLOCK], dtype=tl.int32)
    for start in range(tl.program_id(0) * BLOCK, words, tl.num_programs(0) * BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total ^= tl.load(source + offsets, mask=offsets < words, other=0)
    if tl.xor_sum(total, 0) == 0x12345678:
        tl.store(sink, 1)


@triton.jit
def _empty() -> None:
    pass


def empty() -> None:
    """Launches a kernel without work."""
    _empty[(1,)]()


def readers(size: int) -> dict[str, Call]:
    """Launches that read ``size`` bytes, a block a CTA of several sizes or persistent ones, by name."""
    words = -(-size // 64) * 16  # Triton loads 16 bytes a thread only where it knows a multiple of 16
    data = torch.randint(0, 1 << 30, (words,), dtype=torch.int32, device="cuda")
    sink = torch.zeros(1, dtype=torch.int32, device="cuda")
    words, processors = (
        data.numel(),
        torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count,
    )
    calls: dict[str, Call] = {}
    for block, warps in ((4096, 8), (2048, 4), (8192, 16)):
        grid = (triton.cdiv(words, block),)
        calls[f"block {block}"] = partial(_read_block[grid], data, words, sink, BLOCK=block, num_warps=warps)
    for ctas in (1, 2):
        launch = _read_persistent[(ctas * processors,)]
        calls[f"persistent {ctas}"] = partial(launch, data, words, sink, BLOCK=8192, num_warps=16)
    return calls
