// Prepared weights (w4a16_layout.h) back to canonical codes and scales on the CPU, for any instruction set V
// (images/cpu/vector.h): what restore writes and the product decodes.
#ifndef FP4AOT_KERNELS_GEMM_CPU_W4A16_H_
#define FP4AOT_KERNELS_GEMM_CPU_W4A16_H_

#include "fp4aot/w4a16_layout.h"
#include "images/cpu/kernel_table.h"
#include "kernels/gemm/cpu.h"

namespace fp4aot::cpu {

template <class V>
struct Words {
  typedef uint32_t Vector __attribute__((vector_size(4 * V::kWidth)));
};

// w4a16_unpack_codes of a vector of words; that function is not called, see images/cpu/vector.h.
template <class V, int kDistance = -31>
typename Words<V>::Vector unpack_words(typename Words<V>::Vector x) {
  if constexpr (kDistance > 31) {
    return typename Words<V>::Vector{};
  } else {
    constexpr uint32_t kBytes =
        w4a16_bits_moved(kDistance);  // where the bits go; they come from kDistance further left
    typename Words<V>::Vector const others = unpack_words<V, kDistance + 1>(x);
    if constexpr (kBytes == 0) {
      return others;
    } else if constexpr (kDistance >= 0) {
      return others | (x >> kDistance & kBytes);
    } else {
      return others | (x << -kDistance & kBytes);
    }
  }
}

// The words of rows g and g + 8 of a tile -> 32 bytes of codes of each of the two rows.
template <class V>
void unpack_two_rows(uint8_t const* tile, int g, uint8_t* row, uint8_t* row_below) {
  constexpr int kSteps = kW4a16TileK / kW4a16StepK;
  uint8_t unpacked[16 * kSteps];  // [k step][t][register]
  for (int step = 0; step < kSteps; ++step) {
    __builtin_memcpy(unpacked + 16 * step, tile + 4 * w4a16_code_word(g, kW4a16StepK * step), 16);
  }
  for (int i = 0; i < 64; i += 4 * V::kWidth) {
    typename Words<V>::Vector x;
    __builtin_memcpy(&x, unpacked + i, sizeof x);
    x = unpack_words<V>(x);
    __builtin_memcpy(unpacked + i, &x, sizeof x);
  }
  Bytes16 step[kSteps];
  __builtin_memcpy(step, unpacked, sizeof step);
  for (int two = 0; two < 2; ++two) {
    Bytes16 const a = step[2 * two], b = step[2 * two + 1];
    Bytes16 const upper = __builtin_shufflevector(a, b, 0, 4, 8, 12, 2, 6, 10, 14, 16, 20, 24, 28, 18, 22, 26, 30);
    Bytes16 const lower = __builtin_shufflevector(a, b, 1, 5, 9, 13, 3, 7, 11, 15, 17, 21, 25, 29, 19, 23, 27, 31);
    __builtin_memcpy(row + 16 * two, &upper, sizeof upper);
    __builtin_memcpy(row_below + 16 * two, &lower, sizeof lower);
  }
}

// What prepared scale bytes stand for, as a table.
template <Format kFormat>
struct TileScales {
  uint8_t decoded[256];
  constexpr TileScales() : decoded{} {
    for (int i = 0; i < 256; ++i) decoded[i] = w4a16_decode_scale(kFormat, static_cast<uint8_t>(i));
  }
};

// `count` tiles of a row of tiles, from `tiles` on: 16 rows of codes and of scales.
template <class V, Format kFormat>
void unprepare(uint8_t const* tiles, int64_t count, uint8_t* codes, int64_t stride, uint8_t* scales,
               int64_t scale_stride) {
  static constexpr TileScales<kFormat> kScales;
  constexpr int kBlocks = kW4a16TileK / kVector<kFormat>, kTileBytes = w4a16_tile_bytes(kFormat);
  for (int64_t tile = 0; tile < count; ++tile) {
    uint8_t const* const from = tiles + tile * kTileBytes;
    for (int g = 0; g < 8; ++g) {
      uint8_t* const row = codes + g * stride + tile * (kW4a16TileK / 2);
      unpack_two_rows<V>(from, g, row, row + 8 * stride);
    }
    uint8_t* const to = scales + tile * kBlocks;
    for (int row = 0; row < kW4a16TileRows; ++row) {
      for (int block = 0; block < kBlocks; ++block) {
        to[row * scale_stride + block] = kScales.decoded[from[kW4a16CodeBytes + w4a16_scale_byte(kFormat, row, block)]];
      }
    }
  }
}

}  // namespace fp4aot::cpu

#endif
