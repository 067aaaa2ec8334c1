// Emulates src/cpp/device/mma_sync.cuh.
#ifndef FP4AOT_DEVICE_MMA_SYNC_CUH_
#define FP4AOT_DEVICE_MMA_SYNC_CUH_

#include "cuda_language.h"

namespace fp4aot {

template <class ToFloat>
void warp_product(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1, ToFloat to_float) {
  machine::Warp& warp = machine::current_warp();
  int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  std::memcpy(warp.a[lane], a, sizeof a);
  warp.b[lane][0] = b0;
  warp.b[lane][1] = b1;
  __syncwarp();
  for (int h = 0; h < 2; ++h) {
    for (int e = 0; e < 2; ++e) {
      for (int k = 0; k < 16; ++k) {
        int const quad = k % 8 / 2, high = k / 8, shift = k % 2 * 16;  // where value k of a row lies
        float const x = to_float(warp.a[g * 4 + quad][h + 2 * high] >> shift & 0xFFFF);
        float const y = to_float(warp.b[(2 * t + e) * 4 + quad][high] >> shift & 0xFFFF);
        d[2 * h + e] += x * y;
      }
    }
  }
  __syncwarp();
}

inline void mma_m16n8k16(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  warp_product(d, a, b0, b1, machine::bf16_to_float);
}

inline void mma_m16n8k16_f16(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  warp_product(d, a, b0, b1, machine::f16_to_float);
}

}  // namespace fp4aot

#endif
