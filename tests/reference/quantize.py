"""Quantisation to NVFP4 and MXFP4, block by block, in the arithmetic the specification names (IEEE fp32)."""

import numpy as np

from .formats import E4M3, UE8M0, encode_e2m1, encode_e4m3, round_to

VECTOR = {"nvfp4": 16, "mxfp4": 32}
FLT_MAX = np.finfo(np.float32).max


def _nvfp4_blocks(blocks: np.ndarray, global_scale: np.float32) -> tuple[np.ndarray, np.ndarray]:
    amax = np.abs(blocks).max(axis=1)
    scales = encode_e4m3((global_scale * amax) / np.float32(6))
    decoded = np.append(E4M3, np.nan).astype(np.float32)[scales]
    factors = np.where(scales == 0, np.float32(0), np.minimum(global_scale / decoded, FLT_MAX))
    return scales, encode_e2m1(blocks * factors[:, None])


def _mxfp4_blocks(blocks: np.ndarray, rounding: str) -> tuple[np.ndarray, np.ndarray]:
    amax = np.abs(blocks).max(axis=1).astype(np.float64)
    if rounding == "ceil":
        exponents = np.searchsorted(6.0 * UE8M0, amax) - 127  # the first power of two that covers amax / 6
    else:
        floor_log2 = np.frexp(amax)[1] - 1  # frexp: amax = m * 2^e with m in [0.5, 1)
        exponents = np.where(amax == 0, -127, np.maximum(floor_log2 - 2, -127))
    return (exponents + 127).astype(np.uint8), encode_e2m1(np.ldexp(blocks.astype(np.float64), -exponents[:, None]))


def quantize(values, format: str, global_scale=1.0, rounding: str = "ceil") -> tuple[np.ndarray, np.ndarray]:
    """[rows, k] float32 -> codes [rows, k] (not packed) and linear scales [rows, k/vec], both uint8."""
    values = np.asarray(values, np.float32)
    global_scale = np.float32(global_scale)
    rows, k = values.shape
    vector = VECTOR[format]
    assert k % vector == 0
    blocks = values.reshape(-1, vector)
    poisoned = ~np.isfinite(blocks).all(axis=1)
    if format == "nvfp4" and not (np.isfinite(global_scale) and global_scale > 0):
        poisoned[:] = True
        global_scale = np.float32(1)
    usable = np.where(poisoned[:, None], np.float32(0), blocks)
    with np.errstate(all="ignore"):
        if format == "nvfp4":
            scales, codes = _nvfp4_blocks(usable, global_scale)
        else:
            scales, codes = _mxfp4_blocks(usable, rounding)
    scales[poisoned] = 0x7F if format == "nvfp4" else 0xFF
    codes[poisoned] = 0
    return codes.reshape(rows, k), scales.reshape(rows, k // vector)


def nvfp4_global_scale(values) -> np.float32:
    """448 * 6 / amax over the finite values, in fp32, clamped to [2^-100, 2^100]; 1 if there is no finite non-zero."""
    values = np.asarray(values, np.float32)
    finite = np.abs(values[np.isfinite(values)])
    if finite.size == 0 or finite.max() == 0:
        return np.float32(1)
    with np.errstate(over="ignore"):
        scale = np.float32(2688) / finite.max()
    return np.float32(min(max(scale, np.float32(2.0**-100)), np.float32(2.0**100)))


def silu_mul(values, dtype: str) -> np.ndarray:
    """[rows, 2k], gate first -> silu(gate) * up in fp64, rounded once to dtype, as float32 [rows, k]."""
    gate, up = np.split(np.asarray(values, np.float64), 2, axis=1)
    with np.errstate(all="ignore"):
        return round_to(gate / (1.0 + np.exp(-gate)) * up, dtype)


def rmsnorm(values, weight, epsilon: float, dtype: str, residual=None) -> tuple[np.ndarray, np.ndarray]:
    """Normalised and weighted rows, and the sum that is written back to residual (values itself without one)."""
    summed = np.asarray(values, np.float32)
    if residual is not None:
        summed = round_to(summed.astype(np.float64) + np.asarray(residual, np.float64), dtype)
    wide = summed.astype(np.float64)
    with np.errstate(all="ignore"):
        mean_square = (wide * wide).mean(axis=1, keepdims=True)
        return round_to(wide / np.sqrt(mean_square + epsilon) * np.asarray(weight, np.float64), dtype), summed


# Codes on the number line.
_ORDER = np.array([0, 1, 2, 3, 4, 5, 6, 7, 0, -1, -2, -3, -4, -5, -6, -7])


def assert_codes_close(codes, scales, wanted_codes, wanted_scales) -> None:
    """What fused forms may differ in: codes [rows, k] (not packed) and linear scales agree but for 1e-4 of them, which
    are one step away."""
    vector = codes.shape[1] // scales.shape[1]
    different_scale = scales != wanted_scales
    steps = np.abs(scales.astype(int) - wanted_scales.astype(int))
    assert steps.max(initial=0) <= 1, "a scale is more than one step away"
    assert different_scale.sum() <= max(1, 1e-4 * scales.size), (
        f"{different_scale.sum()} of {scales.size} scales differ"
    )
    comparable = ~np.repeat(different_scale, vector, axis=1)
    distance = np.abs(_ORDER[codes] - _ORDER[wanted_codes])[comparable]
    assert distance.max(initial=0) <= 1, "a code is more than one step away"
    assert (distance > 0).sum() <= max(1, 1e-4 * codes.size), f"{(distance > 0).sum()} of {codes.size} codes differ"
