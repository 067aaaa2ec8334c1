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
    constexpr uint32_t kBytes = w4a16_bits_moved(kDistance);  // where they go; they come from kDistance further left
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

// Where a tile's bytes are, and what those of its scales stand for: as tables, for the functions that say so are not
// called here either.
template <Format kFormat>
struct TileTables {
  static constexpr int kSteps = kW4a16TileK / kW4a16StepK, kBlocks = kW4a16TileK / kVector<kFormat>;
  uint16_t codes[8][kSteps];  // of four words: rows g and g + 8, one k step
  uint16_t scales[kW4a16TileRows][kBlocks];
  uint8_t decoded[256];
  constexpr TileTables() : codes{}, scales{}, decoded{} {
    for (int g = 0; g < 8; ++g) {
      for (int step = 0; step < kSteps; ++step) {
        codes[g][step] = static_cast<uint16_t>(4 * w4a16_code_word(g, kW4a16StepK * step));
      }
    }
    for (int row = 0; row < kW4a16TileRows; ++row) {
      for (int block = 0; block < kBlocks; ++block) {
        scales[row][block] = static_cast<uint16_t>(kW4a16CodeBytes + w4a16_scale_byte(kFormat, row, block));
      }
    }
    for (int i = 0; i < 256; ++i) decoded[i] = w4a16_decode_scale(kFormat, static_cast<uint8_t>(i));
  }
};

// The words of rows g and g + 8 of a tile -> 32 bytes of codes of each of the two rows.
template <class V>
void unpack_two_rows(uint8_t const* tile, uint16_t const* places, uint8_t* row, uint8_t* row_below) {
  constexpr int kSteps = kW4a16TileK / kW4a16StepK;
  uint8_t unpacked[16 * kSteps];  // [k step][t][register]
  for (int step = 0; step < kSteps; ++step) {
    __builtin_memcpy(unpacked + 16 * step, tile + places[step], 16);
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

// `count` tiles of a row of tiles, from `tiles` on: 16 rows of codes and of scales.
template <class V, Format kFormat>
void unprepare(uint8_t const* tiles, int64_t count, uint8_t* codes, int64_t stride, uint8_t* scales,
               int64_t scale_stride) {
  static constexpr TileTables<kFormat> kTables;
  constexpr int kBlocks = kW4a16TileK / kVector<kFormat>, kTileBytes = w4a16_tile_bytes(kFormat);
  for (int64_t tile = 0; tile < count; ++tile) {
    uint8_t const* const from = tiles + tile * kTileBytes;
    for (int g = 0; g < 8; ++g) {
      uint8_t* const row = codes + g * stride + tile * (kW4a16TileK / 2);
      unpack_two_rows<V>(from, kTables.codes[g], row, row + 8 * stride);
    }
    uint8_t* const to = scales + tile * kBlocks;
    for (int row = 0; row < kW4a16TileRows; ++row) {
      for (int block = 0; block < kBlocks; ++block) {
        to[row * scale_stride + block] = kTables.decoded[from[kTables.scales[row][block]]];
      }
    }
  }
}

// d[row][0..columns) += a * b^T over kc, for few rows of A: weights are decoded in registers and used at once. a is
// [kRows][kStreamKBlock]; columns even, kc a multiple of 32.
template <class V, Format kFormat, int kRows>
void stream_w4a16(float const* a, Block const& b, int64_t columns, int64_t kc, float* d, int64_t ldd) {
  using F = typename V::F;
  constexpr int kVec = kVector<kFormat>;
  constexpr int kGroup = 2;  // columns at once: independent sums hide the latency
  float scales[kGroup][kStreamKBlock / kVec + kScaleSlack];
  for (int64_t column = 0; column < columns; column += kGroup) {
    uint8_t const* const codes = b.codes + column * b.stride;
    for (int g = 0; g < kGroup; ++g) {
      decode_scales<V, kFormat>(b.scales + (column + g) * b.scale_stride, kc / kVec, scales[g]);
    }
    F sums[kRows][kGroup] = {};
    for (int64_t block = 0; block < kc / kVec; ++block) {
      F scale[kGroup];
#pragma GCC unroll 2
      for (int g = 0; g < kGroup; ++g) scale[g] = V::set1(scales[g][block]);
#pragma GCC unroll 8
      for (int i = 0; i < kVec; i += V::kWidth) {
        int64_t const k = block * kVec + i;
#pragma GCC unroll 2
        for (int g = 0; g < kGroup; ++g) {
          F const weights = V::decode(codes + g * b.stride + k / 2) * scale[g];
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            sums[r][g] = V::fma(Values<V>::load(a + r * kStreamKBlock + k), weights, sums[r][g]);
          }
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int g = 0; g < kGroup; ++g) {
        float lanes[V::kWidth];
        Values<V>::store(lanes, sums[r][g]);
        for (int half = V::kWidth / 2; half > 0; half /= 2) {
          for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
        }
        d[r * ldd + column + g] += lanes[0];
      }
    }
  }
}

}  // namespace fp4aot::cpu

#endif
