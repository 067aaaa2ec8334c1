// Emulates src/cpp/device/packed.cuh.
#ifndef FP4AOT_DEVICE_PACKED_CUH_
#define FP4AOT_DEVICE_PACKED_CUH_

#include "cuda_language.h"
// Not first: it takes the keywords of the CUDA compiler.
#include "fp4aot/formats.h"

namespace fp4aot {

inline uint32_t masked(uint32_t a, uint32_t mask) { return a & mask; }
inline uint32_t masked_either(uint32_t a, uint32_t b, uint32_t mask) { return (a | b) & mask; }
inline uint32_t select_bits(uint32_t a, uint32_t b, uint32_t mask) { return (a & mask) | (b & ~mask); }

inline uint32_t f16_bits(float x) { return __half_raw(__float2half_rn(x)).x; }

inline uint32_t e4m3x2_to_f16x2(uint32_t bytes) {
  return f16_bits(e4m3_to_float(bytes & 0xFF)) | f16_bits(e4m3_to_float(bytes >> 8 & 0xFF)) << 16;
}

template <int kHalf>
uint32_t multiply_f16x2(uint32_t pair, uint32_t factors) {
  float const factor = machine::f16_to_float(factors >> 16 * kHalf & 0xFFFF);
  return f16_bits(machine::f16_to_float(pair & 0xFFFF) * factor) | f16_bits(machine::f16_to_float(pair >> 16) * factor)
                                                                       << 16;
}

}  // namespace fp4aot

#endif
