// Matrix product for few rows of A on the CPU: each code of B is decoded once, in a register, and the products of a
// block are summed exactly in integers (codes are halves of -12..12), before the block's
// scales are applied in fp32.
#ifndef FP4AOT_KERNELS_GEMM_CPU_STREAM_H_
#define FP4AOT_KERNELS_GEMM_CPU_STREAM_H_

#include "fp4aot/formats.h"
#include "images/cpu/kernel_table.h"
#include "images/cpu/vector.h"

namespace fp4aot::cpu {

constexpr int kStreamStep = 32;  // codes of a dot product
constexpr int kStreamLanes = 8;  // room for its partial sums

// Scales of the lanes of dot products of step `step`.
template <class V, Format kFormat>
typename V::Dots lane_scales(float const* scales, int64_t step) {
  if constexpr (kFormat == Format::kNvfp4) {
    return V::pair_scales(scales + 2 * step);
  } else {
    return V::set_dots(scales[step]);
  }
}

template <class V, Format kFormat>
void prepare_stream(Block const& a, int64_t rows, int64_t kc, int8_t* out, float* scales) {
  float row_scales[kStreamKBlock / kVector<kFormat> + kScaleSlack];
  for (int64_t r = 0; r < rows; ++r) {
    decode_scales<V, kFormat>(a.scales + r * a.scale_stride, kc / kVector<kFormat>, row_scales);
    for (int64_t step = 0; step < kc / kStreamStep; ++step) {
      V::store_weights(out, V::weights(a.codes + r * a.stride + step * kStreamStep / 2));
      out += kStreamStep;
      typename V::Dots const lanes = lane_scales<V, kFormat>(row_scales, step);
      __builtin_memcpy(scales, &lanes, sizeof lanes);
      scales += kStreamLanes;
    }
  }
}

template <class V, Format kFormat, int kRows>
void stream(int8_t const* a, float const* a_scales, Block const& b, int64_t columns, int64_t kc, float* d,
            int64_t ldd) {
  using Dots = typename V::Dots;
  constexpr int kVec = kVector<kFormat>;
  constexpr int kGroup =
      kRows <= 4 ? 2 : 1;  // columns at once: two independent sums hide the latency where rows are few
  Dots const largest = V::set_dots(FLT_MAX);
  float scales[kGroup][kStreamKBlock / kVec + kScaleSlack];
  for (int64_t column = 0; column < columns; column += kGroup) {
    uint8_t const* codes = b.codes + column * b.stride;
    for (int g = 0; g < kGroup; ++g) {
      decode_scales<V, kFormat>(b.scales + (column + g) * b.scale_stride, kc / kVec, scales[g]);
    }
    Dots sums[kRows][kGroup] = {};
    for (int64_t step = 0; step < kc / kStreamStep; ++step) {
#pragma GCC unroll 2
      for (int g = 0; g < kGroup; ++g) {
        auto const weights = V::weights(codes + g * b.stride + step * (kStreamStep / 2));
        Dots const scale = lane_scales<V, kFormat>(scales[g], step);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          int64_t const at = r * (kc / kStreamStep) + step;
          Dots a_scale;
          __builtin_memcpy(&a_scale, a_scales + at * kStreamLanes, sizeof a_scale);
          Dots product = a_scale * scale;
          // The scales' product may overflow where all products of codes are zero: infinity would make them NaN.
          if constexpr (kFormat == Format::kMxfp4) product = product > largest ? largest : product;
          sums[r][g] = V::multiply_add(V::dots(weights, a + at * kStreamStep), product, sums[r][g]);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int g = 0; g < kGroup; ++g) d[r * ldd + column + g] += V::sum_dots(sums[r][g]);
    }
  }
}

}  // namespace fp4aot::cpu

#endif
