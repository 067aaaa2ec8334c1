// Loads and stores by shared address (mbarrier.cuh, shared_address), and barriers for a part of a CTA, sm_70 and later.
// Volatile, so that they stay where they are between barriers that the compiler knows nothing about.
#ifndef FP4AOT_DEVICE_SHARED_MEMORY_CUH_
#define FP4AOT_DEVICE_SHARED_MEMORY_CUH_

#include <cstdint>

namespace fp4aot {

__device__ __forceinline__ uint32_t shared_load1(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ uint32_t shared_load2(uint32_t address) {
  uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ uint32_t shared_load4(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ uint2 shared_load8(uint32_t address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ uint4 shared_load16(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

__device__ __forceinline__ void shared_store4(uint32_t address, uint32_t x) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}

__device__ __forceinline__ void shared_store8(uint32_t address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

__device__ __forceinline__ void shared_store16(uint32_t address, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements, transposed: element (row, column) of matrix i, which is half column % 2 of v[i]
// of lane 4 * row + column / 2, goes to the 16 bytes at the address of lane 8 * i + column, as element `row`.
__device__ __forceinline__ void shared_store_matrices_transposed(uint32_t address, uint32_t const (&v)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v[0]),
               "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}

// Waits until kThreads threads, in whole warps, have come to this barrier, 1..15; 0 is __syncthreads.
template <int kThreads>
__device__ __forceinline__ void barrier_sync(uint32_t barrier) {
  static_assert(kThreads % 32 == 0);
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

}  // namespace fp4aot

#endif
