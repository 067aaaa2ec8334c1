// What the kernels take from the CUDA compiler: keywords, the built-in variables, a few intrinsics.
#ifndef FP4AOT_TESTS_EMULATION_CUDA_LANGUAGE_H_
#define FP4AOT_TESTS_EMULATION_CUDA_LANGUAGE_H_

// These headers define the keywords for the host compiler: include them before ours replace them.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>

#include "machine.h"

#undef __device__
#undef __host__
#undef __global__
#undef __forceinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

#define threadIdx (machine::current->thread)
#define blockIdx (machine::current->cta->index)
#define blockDim (machine::block_dim)
#define gridDim (machine::grid_dim)

inline void __syncwarp() { machine::synchronise(machine::current_warp().barrier, 32); }
inline void __syncthreads() { machine::synchronise(machine::current->cta->all, static_cast<int>(blockDim.x)); }

inline bool __all_sync(uint32_t, bool predicate) {
  machine::Warp& warp = machine::current_warp();
  warp.b[threadIdx.x % 32][0] = predicate;
  __syncwarp();
  bool all = true;
  for (auto const& b : warp.b) all = all && b[0] != 0;
  __syncwarp();
  return all;
}

inline uint32_t __shfl_sync(uint32_t, uint32_t value, int lane) {
  machine::Warp& warp = machine::current_warp();
  warp.b[threadIdx.x % 32][0] = value;
  __syncwarp();
  uint32_t const other = warp.b[lane][0];
  __syncwarp();
  return other;
}

inline float __shfl_xor_sync(uint32_t mask, float value, int lanes) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = __shfl_sync(mask, bits, threadIdx.x % 32 ^ lanes);
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

inline bool __any_sync(uint32_t mask, bool predicate) { return !__all_sync(mask, !predicate); }

inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector) {
  uint64_t const bytes = uint64_t{y} << 32 | x;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t const choice = selector >> 4 * i & 15;
    if (choice & 8) machine::fail("__byte_perm: sign replication is not emulated");
    result |= static_cast<uint32_t>(bytes >> 8 * choice & 255) << 8 * i;
  }
  return result;
}

inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t count) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (count & 31));
}

inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

inline int min(int a, int b) { return a < b ? a : b; }
inline uint32_t max(uint32_t a, uint32_t b) { return a < b ? b : a; }

namespace machine {

inline float bf16_to_float(uint32_t bits) {
  uint32_t const wide = bits << 16;
  float x;
  std::memcpy(&x, &wide, sizeof x);
  return x;
}

inline float f16_to_float(uint32_t bits) {
  __half_raw raw;
  raw.x = static_cast<unsigned short>(bits);
  return __half2float(__half(raw));
}

// mul.rn.bf16. The product is exact in fp32 unless it falls below 2^-149, where the kernels have none: rounded once.
// The canonical NaN is 0x7FFF.
inline uint32_t multiply_bf16(uint32_t a, uint32_t b) {
  float const product = bf16_to_float(a) * bf16_to_float(b);
  if (product != product) return 0x7FFF;
  uint32_t bits;
  std::memcpy(&bits, &product, sizeof bits);
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

inline uint32_t multiply_bf16x2(uint32_t a, uint32_t b) {
  return multiply_bf16(a & 0xFFFF, b & 0xFFFF) | multiply_bf16(a >> 16, b >> 16) << 16;
}

// a + b; the kernels' sums are exact in fp32, or what they add is less than half of its last place.
inline uint32_t add_bf16(uint32_t a, uint32_t b) {
  float const sum = bf16_to_float(a) + bf16_to_float(b);
  if (sum != sum) return 0x7FFF;
  uint32_t bits;
  std::memcpy(&bits, &sum, sizeof bits);
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

inline uint32_t add_bf16x2(uint32_t a, uint32_t b) {
  return add_bf16(a & 0xFFFF, b & 0xFFFF) | add_bf16(a >> 16, b >> 16) << 16;
}

// Of values that are not negative.
inline uint32_t max_bf16x2(uint32_t a, uint32_t b) {
  uint32_t const low = a & 0xFFFF, high = a >> 16;
  return (low < (b & 0xFFFF) ? b & 0xFFFF : low) | (high < b >> 16 ? b >> 16 : high) << 16;
}

// The product is exact in fp32.
inline uint32_t multiply_f16(uint32_t a, uint32_t b) {
  return __half_raw(__float2half_rn(f16_to_float(a) * f16_to_float(b))).x;
}

inline uint32_t multiply_f16x2(uint32_t a, uint32_t b) {
  return multiply_f16(a & 0xFFFF, b & 0xFFFF) | multiply_f16(a >> 16, b >> 16) << 16;
}

}  // namespace machine

#endif
