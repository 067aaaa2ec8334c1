"""What is wrong with the scales of W4A16 weights."""

from __future__ import annotations

import math
from typing import Any

from ._backend import LAYOUTS, Tensor, numpy_backend, torch_backend


def refuse_negative(op: str, b: Any, b_scales: Any, layout: int) -> None:
    """Raises ValueError if an e4m3 scale has bit 7 set. Waits for the device."""
    n, columns = b.shape[0], b.shape[1] * 2 // 16
    tensors = isinstance(b, Tensor)
    if layout == LAYOUTS["swizzled"]:
        if tensors:
            linear = torch_backend().unswizzle_scales(b_scales, n, columns, False)
        else:
            linear = numpy_backend(b).unswizzle_scales(b_scales, n, columns, None)
    elif b_scales.ndim == 1:
        linear = b_scales[: n * columns]
    else:
        linear = b_scales.reshape(-1, columns)[:n]
    if tensors:
        import torch

        linear = linear.view(torch.uint8)
    else:
        linear = linear.view("uint8")
    negative = linear >= 0x80
    count = int(negative.sum())
    if count:
        flat = linear.reshape(-1)
        where = negative.reshape(-1)
        first = int((where.byte() if tensors else where).argmax())
        row, block = divmod(first, columns)
        raise ValueError(
            f"{op}: b_scales has {count} e4m3 byte(s) with bit 7 set, which are no scales (NVFP4's are not negative), "
            f"first 0x{int(flat[first]):02X} at row {row}, block {block} (K {16 * block}..{16 * block + 15}). Check "
            f"that they are e4m3 scales in the layout {'swizzled' if layout == 0 else 'linear'!r}."
        )


def _are_linear(b: Any, b_scales: Any, vector: int) -> bool:
    """Whether scales that are too small for swizzled ones have the size of linear ones."""
    n, columns = b.shape[0], b.shape[1] * 2 // vector
    shape = tuple(b_scales.shape)
    size = math.prod(shape)
    too_small = size < -(-n // 128) * 128 * (-(-columns // 4) * 4)
    return too_small and (size == n * columns or (len(shape) == 2 and shape[0] >= n and shape[1] == columns))


def refused_swizzled(error: ValueError, b: Any, b_scales: Any, vector: int) -> ValueError:
    """``error``, which refused swizzled scales; it names the other layout if they have the size of that."""
    if b_scales is None or b.ndim != 2 or not _are_linear(b, b_scales, vector):
        return error
    return ValueError(
        f"{error} These {tuple(b_scales.shape)} have the size of linear ones, [N, K/block], as checkpoints hold them: "
        'if that is what they are, pass scale_layout="linear".'
    )


def refuse_swizzled_as_linear(op: str, b: Any, b_scales: Any, vector: int) -> None:
    """Raises ValueError for linear scales that have the shape of swizzled ones, and not that of linear ones."""
    if getattr(b, "ndim", 0) != 2 or getattr(b_scales, "ndim", 0) != 2:
        return
    n, columns = b.shape[0], b.shape[1] * 2 // vector
    if n % 128 and columns % 4 == 0 and tuple(b_scales.shape) == (-(-n // 128) * 128, columns):
        raise ValueError(
            f"{op}: b_scales has shape {tuple(b_scales.shape)}, which is that of swizzled scales; linear ones are "
            f'{(n, columns)}. If they are swizzled, leave out scale_layout="linear"; if not, pass b_scales[:{n}].'
        )
