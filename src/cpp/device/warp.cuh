// A warp's elected lane, and values that stay in registers; sm_90 and later.
#ifndef FP4AOT_DEVICE_WARP_CUH_
#define FP4AOT_DEVICE_WARP_CUH_

#include <cstdint>

namespace fp4aot {

// True in one lane of a whole warp. The compiler knows that there is one: bulk copies need no loop over lanes.
__device__ __forceinline__ bool elected() {
  uint32_t is;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xFFFFFFFF;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(is)::"memory");
  return is != 0;
}

// x, which the compiler keeps and does not compute again.
__device__ __forceinline__ uint32_t kept(uint32_t x) {
  uint32_t y;
  asm volatile("mov.b32 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

}  // namespace fp4aot

#endif
