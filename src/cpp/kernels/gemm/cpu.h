// Matrix product of FP4 operands on the CPU, for any instruction set V (images/cpu/vector.h): operands are decoded to
// fp32 (exactly: a code times a scale has at most 6 significant bits) and multiplied in fp32.
//
// B is decoded into panels [k][tile columns], A into rows, and a register tile of D runs over them. For few rows of A
// see cpu_stream.h.
#ifndef FP4AOT_KERNELS_GEMM_CPU_H_
#define FP4AOT_KERNELS_GEMM_CPU_H_

#include "fp4aot/formats.h"
#include "images/cpu/kernel_table.h"
#include "images/cpu/vector.h"

namespace fp4aot::cpu {

template <class V, Format kFormat>
void decode_rows(Block const& a, int64_t rows, int64_t kc, float* out, int64_t ld) {
  using F = typename V::F;
  constexpr int kVec = kVector<kFormat>;
  float scales[kKBlock / kVec + kScaleSlack];
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t const* codes = a.codes + r * a.stride;
    decode_scales<V, kFormat>(a.scales + r * a.scale_stride, kc / kVec, scales);
    float* values = out + r * ld;
    for (int64_t block = 0; block < kc / kVec; ++block) {
      F const scale = V::set1(scales[block]);
      for (int i = 0; i < kVec; i += V::kWidth) {
        Values<V>::store(values + i, V::decode(codes) * scale);
        codes += V::kWidth / 2;
      }
      values += kVec;
    }
  }
}

typedef uint8_t Bytes16 __attribute__((vector_size(16)));

// Transposes 16 x 16 bytes in place: four times, rows i and i + 8 interleaved become rows 2i and 2i + 1.
template <class V>
void transpose(Bytes16 (&rows)[16]) {
  for (int round = 0; round < 4; ++round) {
    Bytes16 next[16];
    for (int i = 0; i < 8; ++i) {
      next[2 * i] =
          __builtin_shufflevector(rows[i], rows[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] =
          __builtin_shufflevector(rows[i], rows[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    for (int i = 0; i < 16; ++i) rows[i] = next[i];
  }
}

template <class V, Format kFormat>
void decode_panels(Block const& b, int64_t rows, int64_t kc, float* out) {
  using F = typename V::F;
  constexpr int64_t kVec = kVector<kFormat>;
  constexpr int64_t kColumns = V::kTileVectors * V::kWidth;
  static_assert(kColumns % 16 == 0);
  for (int64_t group = 0; group < rows; group += 16) {  // 16 rows of B become 16 columns of a panel
    int64_t const valid = rows - group < 16 ? rows - group : 16;
    float* const panel = out + group / kColumns * kColumns * kc + group % kColumns;
    uint8_t const* const codes = b.codes + group * b.stride;
    float scales[16][kKBlock / kVec + kScaleSlack];
    for (int64_t r = 0; r < valid; ++r) {
      decode_scales<V, kFormat>(b.scales + (group + r) * b.scale_stride, kc / kVec, scales[r]);
    }
    for (int64_t k = 0; k < kc; k += 32) {  // 16 bytes of each row
      Bytes16 tile[16] = {};
      for (int64_t r = 0; r < valid; ++r) __builtin_memcpy(&tile[r], codes + r * b.stride + k / 2, sizeof tile[r]);
      transpose<V>(tile);
      uint8_t pairs[16][16];  // [pair along k][row of B]
      __builtin_memcpy(pairs, tile, sizeof pairs);
      for (int64_t block = 0; block < 32; block += kVec) {
        float scale_of_row[16] = {};
        for (int64_t r = 0; r < valid; ++r) scale_of_row[r] = scales[r][(k + block) / kVec];
        for (int64_t v = 0; v < 16; v += V::kWidth) {
          F const scale = Values<V>::load(scale_of_row + v);
          for (int64_t i = 0; i < kVec; i += 2) {
            F even, odd;
            V::decode_pairs(pairs[(block + i) / 2] + v, even, odd);
            float* const to = panel + (k + block + i) * kColumns + v;
            Values<V>::store(to, even * scale);
            Values<V>::store(to + kColumns, odd * scale);
          }
        }
      }
    }
    if (group + 16 >= rows && (group + 16) % kColumns != 0) {  // the panel's other columns
      for (int64_t k = 0; k < kc; ++k) {
        for (int64_t i = 16; i < kColumns - group % kColumns; ++i) panel[k * kColumns + i] = 0.0f;
      }
    }
  }
}

template <class V, int kRows>
void multiply_tile(float const* a, float const* panel, int64_t kc, bool first, float* c, int64_t ldc) {
  using F = typename V::F;
  constexpr int kVectors = V::kTileVectors;
  F acc[kRows][kVectors] = {};
  for (int64_t k = 0; k < kc; ++k) {
    F b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) b[v] = Values<V>::load(panel + (k * kVectors + v) * V::kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      F const x = V::set1(a[r * kKBlock + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = V::fma(x, b[v], acc[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c + r * ldc + v * V::kWidth;
      Values<V>::store(to, first ? acc[r][v] : acc[r][v] + Values<V>::load(to));
    }
  }
}

template <class V, int kRows = V::kTileRows - 1>
void multiply_last_rows(int64_t rows, float const* a, float const* panel, int64_t kc, bool first, float* c,
                        int64_t ldc) {
  if (rows == kRows) return multiply_tile<V, kRows>(a, panel, kc, first, c, ldc);
  if constexpr (kRows > 1) multiply_last_rows<V, kRows - 1>(rows, a, panel, kc, first, c, ldc);
}

template <class V>
void multiply(float const* a, int64_t rows, float const* panels, int64_t columns, int64_t kc, bool first, float* c,
              int64_t ldc) {
  constexpr int64_t kColumns = V::kTileVectors * V::kWidth;
  for (int64_t column = 0; column < columns; column += kColumns) {
    float const* const panel = panels + column * kc;
    int64_t row = 0;
    for (; row + V::kTileRows <= rows; row += V::kTileRows) {
      multiply_tile<V, V::kTileRows>(a + row * kKBlock, panel, kc, first, c + row * ldc + column, ldc);
    }
    multiply_last_rows<V>(rows - row, a + row * kKBlock, panel, kc, first, c + row * ldc + column, ldc);
  }
}

template <class V, class T>
void store_row(float const* c, int64_t n, float unscale, float alpha, float const* bias, void* d) {
  using F = typename V::F;
  T* const out = static_cast<T*>(d);
  auto const finish = [=](F sum, F added) { return bias ? sum * unscale * alpha + added : sum * unscale * alpha; };
  int64_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) {
    Values<V>::store(out + i, finish(Values<V>::load(c + i), bias ? Values<V>::load(bias + i) : F{}));
  }
  if (i < n) {
    T last[V::kWidth];
    Values<V>::store(last, finish(load_part<V>(c + i, n - i), bias ? load_part<V>(bias + i, n - i) : F{}));
    for (int64_t j = 0; i + j < n; ++j) out[i + j] = last[j];
  }
}

template <class V, class T>
void load_row(void const* x, int64_t n, float* out) {
  T const* const elements = static_cast<T const*>(x);
  int64_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) Values<V>::store(out + i, Values<V>::load(elements + i));
  if (i < n) {
    float last[V::kWidth];
    Values<V>::store(last, load_part<V>(elements + i, n - i));
    for (int64_t j = 0; i + j < n; ++j) out[i + j] = last[j];
  }
}

}  // namespace fp4aot::cpu

#endif
