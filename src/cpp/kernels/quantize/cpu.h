// Quantising and dequantising rows on the CPU, for any instruction set V (images/cpu/vector.h). The rules are those of
// formats.h, done for a vector of blocks at once; tests compare every byte.
#ifndef FP4AOT_KERNELS_QUANTIZE_CPU_H_
#define FP4AOT_KERNELS_QUANTIZE_CPU_H_

#include "fp4aot/formats.h"
#include "images/cpu/kernel_table.h"
#include "images/cpu/vector.h"

namespace fp4aot::cpu {

// Codes of x * r as integers, before r's block has been found poisoned or not: x * r may be anything, NaN included.
template <class V>
typename V::I e2m1_codes(typename V::F scaled) {
  using I = typename V::I;
  using F = typename V::F;
  I const bits = (I)scaled;
  F magnitude = (F)(bits & 0x7FFFFFFF);
  magnitude = magnitude < 6.0f ? magnitude : V::set1(6.0f);
  // The values from 2^e up to 2^(e+1) are spaced by 2^(e-1), and those below 1 as from 1 on. Adding 1.5 * 2^(e+22),
  // whose last place that is, rounds to nearest even; the sum's low bits count the spacings, 0..4, and each e has two
  // codes more.
  I const biased = (I)magnitude >> 23;
  I const exponent = biased > 127 ? biased : Values<V>::set1(127);
  I const magic = (exponent << 23) + ((22 << 23) | 0x400000);
  I const spacings = (I)(magnitude + (F)magic) & 7;
  return (spacings + (exponent << 1) - 254) | (bits >> 28 & 8);
}

// For one vector of blocks: amax as bits (so that a NaN is the largest) -> scale bytes and factors. poisoned: lanes of
// -1 where amax is not finite.
template <class V>
void block_scales_nvfp4(typename V::I amax, float global_scale, typename V::I& byte, typename V::F& r,
                        typename V::I& poisoned) {
  using I = typename V::I;
  using F = typename V::F;
  poisoned = amax >= 0x7F800000;
  F const wanted = global_scale * (F)amax / kE2m1Max;
  // Rebased before it is rounded, so that no lane overflows: not a NaN's, whose result is replaced, either.
  I const bits = ((I)wanted & 0x7FFFFFFF) - (120 << 23);
  I const normal = (bits + 0x7FFFF + (bits >> 20 & 1)) >> 20;
  I const subnormal = (I)(wanted + 0x1p+14f) & 0xFF;  // the last place of 2^14 is the unit of the subnormals, 2^-9
  byte = wanted < 0x1p-6f ? subnormal : normal;
  byte = wanted >= kE4m3Max ? I{} + 0x7E : byte;
  F const subnormal_scale = __builtin_convertvector(byte, F) * 0x1p-9f;
  F const scale = byte < 8 ? subnormal_scale : (F)((byte << 20) + (120 << 23));
  F const quotient = global_scale / scale;
  r = quotient < FLT_MAX ? quotient : V::set1(FLT_MAX);
  r = byte == 0 ? F{} : r;
  byte = poisoned ? I{} + kE4m3Nan : byte;
}

template <class V>
void block_scales_mxfp4(typename V::I amax, bool floor_rounding, typename V::I& byte, typename V::F& r,
                        typename V::I& poisoned) {
  using I = typename V::I;
  using F = typename V::F;
  poisoned = amax >= 0x7F800000;
  I const one_more = floor_rounding ? I{} : ((amax & 0x7FFFFF) > 0x400000) & 1;
  byte = (amax >> 23) - 2 + one_more;
  byte = byte < 0 ? I{} : byte;
  r = (F)((254 - byte) << 23);
  byte = poisoned ? I{} + kUe8m0Nan : byte;
}

template <class V, Format kFormat, class T>
void quantize_elements(T const* x, int64_t k, BlockRule rule, uint8_t* codes, uint8_t* scales) {
  using I = typename V::I;
  using F = typename V::F;
  constexpr int64_t kVec = kVector<kFormat>;
  constexpr int64_t kBatch = V::kWidth;  // blocks whose scales are computed at once
  int64_t const blocks = k / kVec;
  if (kFormat == Format::kNvfp4 && rule.poisoned) {
    for (int64_t i = 0; i < blocks; ++i) scales[i] = kE4m3Nan;
    for (int64_t i = 0; i < k / 2; ++i) codes[i] = 0;
    return;
  }
  for (int64_t first = 0; first < blocks; first += kBatch) {
    int64_t const count = blocks - first < kBatch ? blocks - first : kBatch;
    int32_t amax[kBatch] = {};
    for (int64_t b = 0; b < count; ++b) {
      T const* const block = x + (first + b) * kVec;
      I largest = {};
      for (int64_t i = 0; i < kVec; i += V::kWidth) {
        I const magnitude = Values<V>::bits(Values<V>::load(block + i)) & 0x7FFFFFFF;
        largest = magnitude > largest ? magnitude : largest;
      }
      amax[b] = V::max(largest);
    }
    I amax_bits, byte, poisoned;
    F r;
    __builtin_memcpy(&amax_bits, amax, sizeof amax_bits);
    if constexpr (kFormat == Format::kNvfp4) {
      block_scales_nvfp4<V>(amax_bits, rule.global_scale, byte, r, poisoned);
    } else {
      block_scales_mxfp4<V>(amax_bits, rule.floor_rounding, byte, r, poisoned);
    }
    int32_t bytes[kBatch];
    float factors[kBatch];
    __builtin_memcpy(bytes, &byte, sizeof bytes);
    __builtin_memcpy(factors, &r, sizeof factors);
    for (int64_t b = 0; b < count; ++b) {
      int64_t const at = (first + b) * kVec;
      scales[first + b] = static_cast<uint8_t>(bytes[b]);
      F const factor = V::set1(factors[b]);
      for (int64_t i = 0; i < kVec; i += V::kWidth) {
        V::store_codes(codes + (at + i) / 2, e2m1_codes<V>(Values<V>::load(x + at + i) * factor));
      }
    }
    if (V::max(-poisoned) != 0) {
      for (int64_t b = 0; b < count; ++b) {
        if (amax[b] < 0x7F800000) continue;
        uint8_t* const block_codes = codes + (first + b) * kVec / 2;
        for (int64_t i = 0; i < kVec / 2; ++i) block_codes[i] = 0;
      }
    }
  }
}

template <class V, Format kFormat, class T>
void quantize(void const* x, int64_t k, BlockRule rule, uint8_t* codes, uint8_t* scales) {
  quantize_elements<V, kFormat>(static_cast<T const*>(x), k, rule, codes, scales);
}

template <class V, Format kFormat, class T>
void dequantize(uint8_t const* codes, uint8_t const* scales, int64_t k, float global_scale, void* out) {
  using F = typename V::F;
  constexpr int64_t kVec = kVector<kFormat>;
  T* const elements = static_cast<T*>(out);
  F const divisor = V::set1(global_scale);
  float decoded[kColumnChunk / kVec + kScaleSlack];
  decode_scales<V, kFormat>(scales, k / kVec, decoded);
  for (int64_t block = 0; block < k / kVec; ++block) {
    F const scale = V::set1(decoded[block]);
    for (int64_t i = block * kVec; i < (block + 1) * kVec; i += V::kWidth) {
      F value = V::decode(codes + i / 2) * scale;
      value = kFormat == Format::kNvfp4 ? value / divisor : value * 4.0f;  // decode_scales gave a quarter
      Values<V>::store(elements + i, value);
    }
  }
}

template <class V, class T>
int32_t finite_amax_bits(void const* x, int64_t k) {
  using I = typename V::I;
  T const* const elements = static_cast<T const*>(x);
  I largest = {};
  auto const include = [&largest](typename V::F v) {
    I const magnitude = Values<V>::bits(v) & 0x7FFFFFFF;
    I const counts = magnitude < 0x7F800000 ? magnitude : I{};
    largest = counts > largest ? counts : largest;
  };
  int64_t i = 0;
  for (; i + V::kWidth <= k; i += V::kWidth) include(Values<V>::load(elements + i));
  if (i < k) include(load_part<V>(elements + i, k - i));
  return V::max(largest);
}

}  // namespace fp4aot::cpu

#endif
