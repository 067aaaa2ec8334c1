// Vector accesses of global memory past L1, and counters that order them between CTAs, sm_70 and later.
#ifndef FP4AOT_DEVICE_GLOBAL_MEMORY_CUH_
#define FP4AOT_DEVICE_GLOBAL_MEMORY_CUH_

#include <cstdint>

namespace fp4aot {

// 16 bytes, by any path but the read-only one (see memory.cuh).
__device__ __forceinline__ uint4 global_load16(void const* p) { return *static_cast<uint4 const*>(p); }
__device__ __forceinline__ void global_store16(void* p, uint4 v) { *static_cast<uint4*>(p) = v; }

// Past L1, which other CTAs' stores do not reach.
__device__ __forceinline__ float4 global_load_shared4(float const* p) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
__device__ __forceinline__ void global_store_shared4(float* p, float x, float y, float z, float w) {
  asm volatile("st.global.cg.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}

// Adds 1 and returns what was there before. Earlier accesses of this thread, and those that a barrier has ordered before
// it, are seen by every thread whose later call (or barrier after it) follows this one.
__device__ __forceinline__ uint32_t global_count(uint32_t* counter) {
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

// Whether `counter` comes to `value` within so many looks, about 0.5 us each. If so, what its counts are ordered after is
// seen.
__device__ __forceinline__ bool global_reaches(uint32_t const* counter, uint32_t value, int looks) {
#pragma unroll 1
  for (int i = 0; i < looks; ++i) {
    uint32_t now;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    if (now == value) return true;
    asm volatile("nanosleep.u32 100;");
  }
  return false;
}

}  // namespace fp4aot

#endif
