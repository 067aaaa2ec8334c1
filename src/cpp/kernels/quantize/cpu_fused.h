// Fused quantisation on the CPU: silu(gate) * up and RMS norm. The intermediate is computed in fp32, rounded to the
// input type, and quantised as in cpu.h. No fused multiply-adds and a fixed order of summation: all instruction sets
// agree.
#ifndef FP4AOT_KERNELS_QUANTIZE_CPU_FUSED_H_
#define FP4AOT_KERNELS_QUANTIZE_CPU_FUSED_H_

#include "kernels/quantize/cpu.h"

namespace fp4aot::cpu {

constexpr int64_t kFusedChunk = 512;  // elements of the intermediate kept in L1; a multiple of both scale vectors

// exp(x), within 2 units in the last place; infinite from 88.73 on, and never below 2^-126.
template <class V>
typename V::F exp_above_tiny(typename V::F x) {
  using I = typename V::I;
  using F = typename V::F;
  x = x < 89.0f ? x : V::set1(89.0f);
  x = x > -87.0f ? x : V::set1(-87.0f);
  F const magic = V::set1(0x1.8p+23f);
  F const shifted = x * 0x1.715476p+0f + magic;  // log2(e)
  I const n = (I)shifted - (I)magic;
  F const whole = shifted - magic;
  F const rest = (x - whole * 0x1.62e4p-1f) - whole * -0x1.7f7d1cp-20f;  // ln 2 in two parts, the first product exact
  F p = V::set1(1.0f / 5040.0f);  // Taylor: |rest| <= 0.35, the next term is 2^-28
  p = p * rest + 1.0f / 720.0f;
  p = p * rest + 1.0f / 120.0f;
  p = p * rest + 1.0f / 24.0f;
  p = p * rest + 1.0f / 6.0f;
  p = p * rest + 0.5f;
  p = p * rest * rest + rest + 1.0f;
  return p * (F)((n + 126) << 23) * 2.0f;  // in two steps, because n may be 128
}

template <class V, Format kFormat, class T>
void silu_mul_quantize(void const* gate, void const* up, int64_t k, BlockRule rule, uint8_t* codes, uint8_t* scales) {
  using F = typename V::F;
  T const* const gates = static_cast<T const*>(gate);
  T const* const ups = static_cast<T const*>(up);
  float chunk[kFusedChunk];
  for (int64_t first = 0; first < k; first += kFusedChunk) {
    int64_t const count = k - first < kFusedChunk ? k - first : kFusedChunk;
    for (int64_t i = 0; i < count; i += V::kWidth) {
      F const g = Values<V>::load(gates + first + i);
      F const silu = g / (1.0f + exp_above_tiny<V>(-g));
      F const product = silu * Values<V>::load(ups + first + i);
      Values<V>::store(chunk + i, Values<V>::round_to(gates, product));
    }
    quantize_elements<V, kFormat>(chunk, count, rule, codes + first / 2, scales + first / kVector<kFormat>);
  }
}

template <class V, class T>
double square_sum(void const* input, void* residual, int64_t k) {
  using F = typename V::F;
  constexpr int kLanes = 16;  // partial sums, whatever V's width; k is a multiple
  constexpr int kVectors = kLanes / V::kWidth;
  T const* const inputs = static_cast<T const*>(input);
  T* const residuals = static_cast<T*>(residual);
  double total = 0.0;
  for (int64_t first = 0; first < k; first += kColumnChunk) {  // short sums in fp32, their sum in fp64
    int64_t const end = k - first < kColumnChunk ? k : first + kColumnChunk;
    F partial[kVectors] = {};
    for (int64_t i = first; i < end; i += kLanes) {
      for (int v = 0; v < kVectors; ++v) {
        int64_t const at = i + v * V::kWidth;
        F x = Values<V>::load(inputs + at);
        if (residuals != nullptr) {
          x = Values<V>::round_to(inputs, x + Values<V>::load(residuals + at));
          Values<V>::store(residuals + at, x);
        }
        partial[v] += x * x;
      }
    }
    float lanes[kLanes];
    __builtin_memcpy(lanes, partial, sizeof lanes);
    for (float const lane : lanes) total += static_cast<double>(lane);
  }
  return total;
}

template <class V, class T>
void scale_quantize(void const* x, void const* weight, float root, int64_t k, BlockRule rule, uint8_t* codes,
                    uint8_t* scales) {
  using F = typename V::F;
  T const* const elements = static_cast<T const*>(x);
  T const* const weights = static_cast<T const*>(weight);
  F const divisor = V::set1(root);
  float chunk[kFusedChunk];
  for (int64_t first = 0; first < k; first += kFusedChunk) {
    int64_t const count = k - first < kFusedChunk ? k - first : kFusedChunk;
    for (int64_t i = 0; i < count; i += V::kWidth) {
      F const normed = Values<V>::load(elements + first + i) / divisor * Values<V>::load(weights + first + i);
      Values<V>::store(chunk + i, Values<V>::round_to(elements, normed));
    }
    quantize_elements<V, Format::kNvfp4>(chunk, count, rule, codes + first / 2, scales + first / kNvfp4Vector);
  }
}

}  // namespace fp4aot::cpu

#endif
