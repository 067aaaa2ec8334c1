"""Dequantisation and products in fp64, and the tolerances that every GEMM of the library must meet."""

import numpy as np

from .formats import decode_e2m1, decode_e4m3, decode_ue8m0
from .quantize import VECTOR

NORM_TOLERANCE = {"bf16": 2e-3, "fp16": 3e-4, "fp32": 1e-6}
UNIT = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-23}
SMALLEST = {"bf16": 2.0**-133, "fp16": 2.0**-24, "fp32": 2.0**-149}  # spacing of the subnormals


def dequantize(codes: np.ndarray, scales: np.ndarray, format: str, global_scale: float = 1.0) -> np.ndarray:
    """Codes [rows, k] (not packed) and linear scales [rows, k/vec] -> fp64 values; a NaN scale makes its block NaN."""
    decode = decode_e4m3 if format == "nvfp4" else decode_ue8m0
    return decode_e2m1(codes) * np.repeat(decode(scales), VECTOR[format], axis=1) / np.float64(global_scale)


def product(a, b, alpha: float = 1.0, bias=None) -> tuple[np.ndarray, np.ndarray]:
    """alpha * a @ b.T + bias in fp64, and the sum of the magnitudes of its terms, which bounds rounding errors."""
    with np.errstate(invalid="ignore"):
        result = alpha * (a @ b.T)
        magnitude = abs(alpha) * (np.abs(a) @ np.abs(b).T)
    if bias is not None:
        result = result + np.asarray(bias, np.float64)
        magnitude = magnitude + np.abs(np.asarray(bias, np.float64))
    return result, magnitude


def assert_product(out, expected: tuple[np.ndarray, np.ndarray], k: int, dtype: str, norm: bool = True) -> None:
    """out (any float array) equals product()'s result within the tolerances, by element and (zero-mean inputs) by norm.

    NaN must be where the reference has NaN, and nowhere else.
    """
    result, magnitude = expected
    out = np.asarray(out, np.float64)
    assert out.shape == result.shape, f"shape {out.shape}, expected {result.shape}"
    nan = np.isnan(result)
    misplaced = np.isnan(out) != nan
    assert not misplaced.any(), f"NaN wrong at {np.argwhere(misplaced)[:4].tolist()}, {misplaced.sum()} places"
    out, result, magnitude = np.where(nan, 0, out), np.where(nan, 0, result), np.where(nan, 0, magnitude)
    error = np.abs(out - result)
    allowed = UNIT[dtype] * np.abs(result) + (k / 16 + 4) * 2.0**-23 * magnitude + SMALLEST[dtype]
    bad = ~(error <= allowed)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise AssertionError(
            f"{bad.sum()} of {bad.size} elements out of tolerance, first at [{row}, {column}]: "
            f"{out[row, column]!r}, expected {result[row, column]!r} +- {allowed[row, column]:.3g}"
        )
    # A mean over roundings: few elements may all be unlucky (one rounding to bf16 may cost 3.9e-3).
    if norm and result.size >= 1000 and np.linalg.norm(result) > 0:
        relative = np.linalg.norm(out - result) / np.linalg.norm(result)
        limit = NORM_TOLERANCE[dtype] * (max(1.0, k / 4096) if dtype == "fp32" else 1.0)
        assert relative <= limit, f"relative error in norm {relative:.3g} > {limit:.3g}"
