// Bulk asynchronous copies from global to shared memory (TMA), sm_90 and later. All complete on an mbarrier.
#ifndef FP4AOT_DEVICE_TMA_CUH_
#define FP4AOT_DEVICE_TMA_CUH_

#include <cuda.h>

#include <cstdint>

namespace fp4aot {

// A box of a 2-D tensor map: `column`, `row` of its first element. Elements outside of the tensor arrive as zero.
__device__ __forceinline__ void tma_load_2d(uint32_t destination, CUtensorMap const* map, int32_t column, int32_t row,
                                            uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          destination),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void tma_load_3d(uint32_t destination, CUtensorMap const* map, int32_t x, int32_t y,
                                            int32_t z, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
          "r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void tma_prefetch_map(CUtensorMap const* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

}  // namespace fp4aot

#endif
