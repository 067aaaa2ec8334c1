// Prepared weights of gemm_w4a16_*: one layout for every image and the CPU, so that a prepared tensor may be saved on one
// device and used on another. prepare_w4a16_* makes it from canonical weights [n, k], restore_w4a16_* takes it apart.
//
// Rows (n) are padded to 16 and k to 64 with codes 0 and scale bytes 0. A tile is 16 rows x 64 k; tiles are ordered
// [row tile][k tile], each contiguous: 512 bytes of codes, then the scales, 64 bytes (NVFP4) or 32 (MXFP4). All words are
// 32 bits, little endian.
//
// Codes: with g = lane / 4 and t = lane % 4 of a warp, word 32 * step + 4 * (g ^ 2 * step) + t of a tile holds the eight
// codes of k 16 * step .. 16 * step + 15 that the lane needs for the A operand of mma.m16n8k16 (and of wgmma with A in
// registers). Its four registers hold, an even k in the low half and the next in the high half (one byte of canonical
// codes each):
//   register   0: row g, k = 2t, 2t + 1   1: row g + 8, the same k   2: row g, k = 2t + 8, 2t + 9   3: row g + 8, those k
// Four words, 16 bytes, are rows g and g + 8 of one NVFP4 block. A kernel that is free to order k as it likes loads those
// of block t in lane 4g + t, all it needs for four products with one scale a row; others load word t of block `step`. The
// exclusive or keeps both from hitting a bank of shared memory twice.
// Which bit of the word each bit of the four bytes becomes is kW4a16CodeBit: chosen so that few instructions make
// bfloat16 pairs. A bfloat16 whose sign is a code's bit 3 and whose bits 8..6 are the code's bits 2..0 is its value times
// 2^-126. So it stands for register 0 in the word, for 1 in the word shifted left by 6, for 2 in the word rotated right
// by 4; for 3 in the word shifted left by 2, but bit 8, which is in the word shifted right by 6.
//
// Scales: byte (row % 8) * 2 * blocks + 2 * block + row / 8, of the 4 (NVFP4) or 2 (MXFP4) blocks of a row.
//   NVFP4   a byte is the e4m3 scale re-encoded with 5 exponent bits (bias 22) and 3 of mantissa, all normal:
//           2^(e - 22) * (1 + m / 8), 0x00 = zero, 0xFF = NaN. In bits 11..4 of a bfloat16 with 111 above: scale * 2^119
//           (and zero as 2^97); in bits 14..7 of a half-precision number: scale * 2^7.
//   MXFP4   the ue8m0 bytes as they are.
#ifndef FP4AOT_W4A16_LAYOUT_H_
#define FP4AOT_W4A16_LAYOUT_H_

#include <cstdint>

#include "fp4aot/formats.h"

namespace fp4aot {

constexpr int kW4a16TileRows = 16;
constexpr int kW4a16TileK = 64;
constexpr int kW4a16StepK = 16;
constexpr int kW4a16CodeBytes = kW4a16TileRows * kW4a16TileK / 2;
constexpr uint8_t kW4a16ScaleNan = 0xFF;  // NVFP4

FP4AOT_HOST_DEVICE constexpr int w4a16_vector(Format format) {
  return format == Format::kNvfp4 ? kNvfp4Vector : kMxfp4Vector;
}

FP4AOT_HOST_DEVICE constexpr int w4a16_scale_bytes(Format format) {
  return kW4a16TileRows * kW4a16TileK / w4a16_vector(format);
}

FP4AOT_HOST_DEVICE constexpr int w4a16_tile_bytes(Format format) { return kW4a16CodeBytes + w4a16_scale_bytes(format); }

FP4AOT_HOST_DEVICE constexpr int64_t w4a16_row_tiles(int64_t n) { return (n + kW4a16TileRows - 1) / kW4a16TileRows; }
FP4AOT_HOST_DEVICE constexpr int64_t w4a16_k_tiles(int64_t k) { return (k + kW4a16TileK - 1) / kW4a16TileK; }

// Where a tile begins in the prepared bytes of weights [n, k].
FP4AOT_HOST_DEVICE constexpr int64_t w4a16_tile_offset(Format format, int64_t row_tile, int64_t k_tile, int64_t k) {
  return (row_tile * w4a16_k_tiles(k) + k_tile) * w4a16_tile_bytes(format);
}

// Bytes of prepared weights [n, k].
FP4AOT_HOST_DEVICE constexpr int64_t w4a16_prepared_bytes(Format format, int64_t n, int64_t k) {
  return w4a16_tile_offset(format, w4a16_row_tiles(n), 0, k);
}

// Codes ---------------------------------------------------------------------------------------------------------

// The word of a tile's codes that has (row, k), and which of its four bytes of canonical codes; row 0..15, k 0..63.
FP4AOT_HOST_DEVICE constexpr int w4a16_code_word(int row, int k) {
  int const step = k / kW4a16StepK;
  return 32 * step + 4 * (row % 8 ^ 2 * step) + k % 8 / 2;
}
FP4AOT_HOST_DEVICE constexpr int w4a16_code_register(int row, int k) { return row / 8 + k % kW4a16StepK / 8 * 2; }

// [register][bit of its byte of canonical codes, low nibble = even k] -> bit of the word.
inline constexpr uint8_t kW4a16CodeBit[4][8] = {
    {6, 7, 8, 15, 22, 23, 24, 31},
    {0, 1, 2, 9, 16, 17, 18, 25},
    {10, 11, 12, 19, 26, 27, 28, 3},
    {4, 5, 14, 13, 20, 21, 30, 29},
};

// The bits of the four bytes (register 0 lowest) that packing moves left by `distance`, which may be negative.
constexpr uint32_t w4a16_bits_moved(int distance) {
  uint32_t bits = 0;
  for (int from = 0; from < 32; ++from) {
    if (kW4a16CodeBit[from / 8][from % 8] == from + distance) bits |= 1u << from;
  }
  return bits;
}

// Word: uint32_t, or a vector of them. packed: the four bytes -> the word; else back.
template <bool kPacked, int kDistance = -31, class Word>
FP4AOT_HOST_DEVICE Word w4a16_permute(Word x) {
  if constexpr (kDistance > 31) {
    return x ^ x;
  } else {
    constexpr uint32_t kFrom = w4a16_bits_moved(kDistance);
    constexpr int kLeft = kPacked ? kDistance : -kDistance;
    constexpr uint32_t kMask = kPacked          ? kFrom
                               : kDistance >= 0 ? kFrom << (kDistance & 31)
                                                : kFrom >> (-kDistance & 31);
    Word const others = w4a16_permute<kPacked, kDistance + 1>(x);
    if constexpr (kMask == 0) {
      return others;
    } else if constexpr (kLeft >= 0) {
      return others | (x & kMask) << kLeft;
    } else {
      return others | (x & kMask) >> -kLeft;
    }
  }
}

// Four bytes of canonical codes, register 0's lowest, as the word of a tile; and back.
template <class Word>
FP4AOT_HOST_DEVICE Word w4a16_pack_codes(Word bytes) {
  return w4a16_permute<true>(bytes);
}
template <class Word>
FP4AOT_HOST_DEVICE Word w4a16_unpack_codes(Word word) {
  return w4a16_permute<false>(word);
}

// Scales --------------------------------------------------------------------------------------------------------

// The byte of a tile's scales for (row, block); row 0..15, block 0..3 (NVFP4) or 0..1 (MXFP4).
FP4AOT_HOST_DEVICE constexpr int w4a16_scale_byte(Format format, int row, int block) {
  int const blocks = kW4a16TileK / w4a16_vector(format);
  return row % 8 * 2 * blocks + 2 * block + row / 8;
}

// e4m3 -> the prepared byte. A byte with bit 7 set is no scale and becomes NaN.
FP4AOT_HOST_DEVICE constexpr uint8_t w4a16_encode_e4m3(uint8_t byte) {
  if (byte >= kE4m3Nan) return kW4a16ScaleNan;
  if (byte >= 8) return static_cast<uint8_t>(byte + (15 << 3));
  if (byte == 0) return 0;
  int const shift = byte >= 4 ? 1 : byte >= 2 ? 2 : 3;  // a subnormal, byte * 2^-9: its leading bit moves to bit 3
  return static_cast<uint8_t>(((16 - shift) << 3) | ((byte << shift) & 7));
}

// The inverse.
FP4AOT_HOST_DEVICE constexpr uint8_t w4a16_decode_e4m3(uint8_t byte) {
  if (byte == kW4a16ScaleNan) return kE4m3Nan;
  if (byte >= 16 << 3) return static_cast<uint8_t>(byte - (15 << 3));
  int const exponent = byte >> 3;
  return exponent < 13 ? uint8_t{0} : static_cast<uint8_t>((8 | (byte & 7)) >> (16 - exponent));
}

FP4AOT_HOST_DEVICE constexpr uint8_t w4a16_encode_scale(Format format, uint8_t byte) {
  return format == Format::kNvfp4 ? w4a16_encode_e4m3(byte) : byte;
}
FP4AOT_HOST_DEVICE constexpr uint8_t w4a16_decode_scale(Format format, uint8_t byte) {
  return format == Format::kNvfp4 ? w4a16_decode_e4m3(byte) : byte;
}

}  // namespace fp4aot

#endif
