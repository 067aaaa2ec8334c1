"""e2m1, e4m3 and ue8m0 as tables of values, and rounding as a search for the nearest entry."""

import numpy as np

# The non-negative e2m1 values by code; code + 8 is the negative.
E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])

# The e4m3 values 0..0x7E: 8 subnormals m/512, then (8 + m) * 2^(e - 10) for exponent fields e = 1..15. 0x7F is NaN.
E4M3 = np.array([m / 512 for m in range(8)] + [(8 + m) * 2.0 ** (e - 10) for e in range(1, 16) for m in range(8)][:-1])

# The ue8m0 values 0..0xFE; 0xFF is NaN.
UE8M0 = np.array([2.0 ** (byte - 127) for byte in range(255)])


def _nearest_even(table: np.ndarray, magnitudes: np.ndarray) -> np.ndarray:
    """Index of the table entry nearest to each value; a tie goes to the even index, values above go to the last."""
    capped = np.minimum(np.asarray(magnitudes, np.float64), table[-1])
    above = np.searchsorted(table, capped)  # table[above - 1] < value <= table[above]
    below = np.maximum(above - 1, 0)
    to_below, to_above = capped - table[below], table[above] - capped
    even = np.where(below % 2 == 0, below, above)
    return np.where(to_below < to_above, below, np.where(to_above < to_below, above, even)).astype(np.uint8)


def encode_e2m1(values: np.ndarray) -> np.ndarray:
    """uint8 codes of finite or infinite values; the sign of zero is kept."""
    values = np.asarray(values)
    assert not np.isnan(values).any()
    return _nearest_even(E2M1, np.abs(values)) | np.where(np.signbit(values), 8, 0).astype(np.uint8)


def encode_e4m3(values: np.ndarray) -> np.ndarray:
    """uint8 bytes of values >= 0 or NaN, saturating at 448."""
    values = np.asarray(values)
    return np.where(np.isnan(values), 0x7F, _nearest_even(E4M3, np.where(np.isnan(values), 0, values))).astype(np.uint8)


def decode_e2m1(codes: np.ndarray) -> np.ndarray:
    """fp64 values of codes 0..15; code 8 is -0."""
    codes = np.asarray(codes)
    return np.where(codes & 8, -E2M1[codes & 7], E2M1[codes & 7])


def decode_e4m3(scales: np.ndarray) -> np.ndarray:
    """fp64 values of bytes 0..0x7F."""
    scales = np.asarray(scales)
    assert (scales < 0x80).all()
    return np.append(E4M3, np.nan)[scales]


def decode_ue8m0(scales: np.ndarray) -> np.ndarray:
    """fp64 values of bytes 0..0xFF."""
    return np.append(UE8M0, np.nan)[np.asarray(scales)]


def pack_codes(codes: np.ndarray) -> np.ndarray:
    """[rows, k] codes -> [rows, k/2] bytes, the low nibble is the even k."""
    return (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)


def unpack_codes(packed: np.ndarray) -> np.ndarray:
    """[rows, k/2] bytes -> [rows, k] codes."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)


def round_to(values: np.ndarray, dtype: str) -> np.ndarray:
    """Values rounded once (nearest even) to "bf16", "fp16" or "fp32", as float32. Overflow gives infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(values).astype(np.float64)
        if dtype == "fp32":
            return values.astype(np.float32)
        if dtype == "fp16":
            return values.astype(np.float16).astype(np.float32)
    assert dtype == "bf16"
    mantissa, exponent = np.frexp(values)  # |mantissa| in [0.5, 1)
    bits = np.minimum(8, 8 + exponent + 125)  # subnormals (below 2^-126) have fewer
    rounded = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
    rounded = np.where(np.isfinite(values), rounded, values)
    return np.where(np.abs(rounded) >= 2.0**128, np.copysign(np.inf, values), rounded).astype(np.float32)
