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

// 16 words (four k steps of the lanes of rows g and g + 8) -> 32 bytes of codes of each of the two rows.
template <class V>
void unpack_two_rows(uint8_t const* words, uint8_t* row, uint8_t* row_below) {
  uint8_t unpacked[64];
  for (int i = 0; i < 64; i += 4 * V::kWidth) {
    typename Words<V>::Vector x;
    __builtin_memcpy(&x, words + i, sizeof x);
    x = unpack_words<V>(x);
    __builtin_memcpy(unpacked + i, &x, sizeof x);
  }
  Bytes16 lane[4];  // of each t: [k step][register]
  __builtin_memcpy(lane, unpacked, sizeof lane);
  Bytes16 pairs[4];  // of t 0 and 1, then 2 and 3: [k step, two of them][register][t]
  for (int half = 0; half < 2; ++half) {
    pairs[2 * half] = __builtin_shufflevector(lane[2 * half], lane[2 * half + 1], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5,
                                              21, 6, 22, 7, 23);
    pairs[2 * half + 1] = __builtin_shufflevector(lane[2 * half], lane[2 * half + 1], 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                                  28, 13, 29, 14, 30, 15, 31);
  }
  for (int two = 0; two < 2; ++two) {
    Bytes16 const a = pairs[two], b = pairs[two + 2];
    // [register][t] of one k step and of the next
    Bytes16 const first = __builtin_shufflevector(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
    Bytes16 const second = __builtin_shufflevector(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
    Bytes16 const upper =
        __builtin_shufflevector(first, second, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    Bytes16 const lower =
        __builtin_shufflevector(first, second, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    __builtin_memcpy(row + 16 * two, &upper, sizeof upper);
    __builtin_memcpy(row_below + 16 * two, &lower, sizeof lower);
  }
}

// Where a tile's scales are and what their bytes stand for, as tables.
template <Format kFormat>
struct TileScales {
  static constexpr int kBlocks = kW4a16TileK / kVector<kFormat>;
  uint8_t offset[kW4a16TileRows][kBlocks], rotation[kW4a16TileRows][kBlocks];
  uint8_t decoded[256];
  constexpr TileScales() : offset{}, rotation{}, decoded{} {
    for (int row = 0; row < kW4a16TileRows; ++row) {
      for (int block = 0; block < kBlocks; ++block) {
        offset[row][block] = static_cast<uint8_t>(4 * w4a16_scale_word(kFormat, row, block));
        rotation[row][block] = static_cast<uint8_t>(w4a16_scale_rotation(kFormat, row, block));
      }
    }
    for (int i = 0; i < 256; ++i) decoded[i] = w4a16_decode_scale(kFormat, static_cast<uint8_t>(i));
  }
};

// `count` tiles of a row of tiles, from `tiles` on: 16 rows of codes and of scales.
template <class V, Format kFormat>
void unprepare(uint8_t const* tiles, int64_t count, uint8_t* codes, int64_t stride, uint8_t* scales,
               int64_t scale_stride) {
  static constexpr TileScales<kFormat> kScales;
  constexpr int kBlocks = kScales.kBlocks, kTileBytes = w4a16_tile_bytes(kFormat);
  for (int64_t tile = 0; tile < count; ++tile) {
    uint8_t const* const from = tiles + tile * kTileBytes;
    for (int64_t g = 0; g < 8; ++g) {
      uint8_t* const row = codes + g * stride + tile * (kW4a16TileK / 2);
      unpack_two_rows<V>(from + g * 64, row, row + 8 * stride);
    }
    uint8_t* const to = scales + tile * kBlocks;
    for (int row = 0; row < kW4a16TileRows; ++row) {
      for (int block = 0; block < kBlocks; ++block) {
        uint32_t word;
        __builtin_memcpy(&word, from + kW4a16CodeBytes + kScales.offset[row][block], sizeof word);
        int const rotation = kScales.rotation[row][block];
        to[row * scale_stride + block] = kScales.decoded[(word >> rotation | word << (-rotation & 31)) & 0xFF];
      }
    }
  }
}

}  // namespace fp4aot::cpu

#endif
