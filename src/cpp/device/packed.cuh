// Operations on words of bits and on pairs of 16-bit values, one instruction each, sm_89 and later.
#ifndef FP4AOT_DEVICE_PACKED_CUH_
#define FP4AOT_DEVICE_PACKED_CUH_

#include <cuda_fp16.h>

#include <cstdint>

namespace fp4aot {

// a & mask, and (a | b) & mask: opaque, because the compiler would distribute them over the shifts around them, which
// takes more instructions.
__device__ __forceinline__ uint32_t masked(uint32_t a, uint32_t mask) {
  uint32_t word;
  asm("and.b32 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(mask));
  return word;
}
__device__ __forceinline__ uint32_t masked_either(uint32_t a, uint32_t b, uint32_t mask) {
  uint32_t word;
  asm("lop3.b32 %0, %1, %2, %3, 0xA8;" : "=r"(word) : "r"(a), "r"(b), "r"(mask));
  return word;
}

// Bits of a where the mask has ones, of b elsewhere: opaque for the same reason.
__device__ __forceinline__ uint32_t select_bits(uint32_t a, uint32_t b, uint32_t mask) {
  uint32_t word;
  asm("lop3.b32 %0, %1, %2, %3, 0xE4;" : "=r"(word) : "r"(a), "r"(b), "r"(mask));
  return word;
}

// The e4m3 values in the low two bytes, as fp16; exact.
__device__ __forceinline__ uint32_t e4m3x2_to_f16x2(uint32_t bytes) {
  uint32_t pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(bytes)));
  return pair;
}

// Both halves of `pair` times half kHalf of `factors`, in fp16.
template <int kHalf>
__device__ __forceinline__ uint32_t multiply_f16x2(uint32_t pair, uint32_t factors) {
  __half2 a, f;
  memcpy(&a, &pair, sizeof a);
  memcpy(&f, &factors, sizeof f);
  __half2 const product = __hmul2(a, kHalf == 0 ? __low2half2(f) : __high2half2(f));
  uint32_t word;
  memcpy(&word, &product, sizeof word);
  return word;
}

}  // namespace fp4aot

#endif
