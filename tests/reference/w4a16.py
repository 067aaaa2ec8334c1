"""The prepared weights of gemm_w4a16_* as w4a16_layout.h describes them, bit by bit."""

import numpy as np

from .formats import E4M3
from .quantize import VECTOR

# Bits of a 32-bit word for the two codes of each of the four registers: (bits of the even k's code from its bit 0 up,
# those of the odd k's code).
CODE_BITS = [
    ((6, 7, 8, 15), (22, 23, 24, 31)),
    ((0, 1, 2, 9), (16, 17, 18, 25)),
    ((10, 11, 12, 19), (26, 27, 28, 3)),
    ((4, 5, 14, 13), (20, 21, 30, 29)),
]


def prepared_shape(n: int, k: int, format: str) -> tuple[int, int, int]:
    """Tiles down, tiles along k, and bytes of a tile of 16 rows x 64 k."""
    return -(-n // 16), -(-k // 64), 16 * 64 // 2 + 16 * 64 // VECTOR[format]


def encode_scale(byte: int, format: str) -> int:
    """The byte that stands for a canonical scale byte."""
    if format == "mxfp4" or byte == 0:
        return byte
    if byte >= 0x7F:  # NaN, and what has bit 7 set
        return 0xFF
    exponent = int(np.floor(np.log2(E4M3[byte])))
    eighths = E4M3[byte] / 2.0**exponent * 8 - 8
    assert eighths == int(eighths)
    return (exponent + 22) * 8 + int(eighths)


def scale_byte(row: int, block: int, format: str) -> int:
    """Which byte of a tile's scales is that of (row, block): pairs of rows g and g + 8, block after block."""
    blocks = 64 // VECTOR[format]
    return (row % 8) * 2 * blocks + 2 * block + row // 8


def prepare(codes: np.ndarray, scales: np.ndarray, format: str) -> np.ndarray:
    """Codes [n, k] (one each) and linear scales [n, k/vec] -> prepared bytes."""
    n, k = codes.shape
    rows, columns, size = prepared_shape(n, k, format)
    padded = np.zeros((rows * 16, columns * 64), np.uint32)
    padded[:n, :k] = codes
    encoded = np.zeros((rows * 16, columns * 64 // VECTOR[format]), np.uint32)
    encoded[:n, : scales.shape[1]] = np.array([encode_scale(byte, format) for byte in range(256)])[scales]
    words = np.zeros((rows, columns, size // 4), np.uint32)
    for row in range(16):
        for column in range(64):
            step = column // 16
            word = 32 * step + 4 * (row % 8 ^ 2 * step) + column % 8 // 2
            register = (row >= 8) + 2 * (column % 16 >= 8)
            for bit, to in enumerate(CODE_BITS[register][column % 2]):
                words[:, :, word] |= (padded[row::16, column::64] >> bit & 1) << to
        for block in range(64 // VECTOR[format]):
            at = scale_byte(row, block, format)
            byte = encoded[row::16, block :: 64 // VECTOR[format]]
            words[:, :, 128 + at // 4] |= byte << 8 * (at % 4)
    return words.astype("<u4").view(np.uint8).reshape(-1)
