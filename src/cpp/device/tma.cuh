// Bulk asynchronous copies between global and shared memory (TMA), sm_90 and later. Loads complete on an mbarrier.
// Loads name the CTA's own shared memory as such where they can: for a place in the cluster's the compiler adds a call for
// other CTAs on chips without such copies (sm_120), which costs registers and setmaxnreg besides.
#ifndef FP4AOT_DEVICE_TMA_CUH_
#define FP4AOT_DEVICE_TMA_CUH_

#include <cuda.h>

#include <cstdint>

namespace fp4aot {

// A box of a 2-D tensor map: `column`, `row` of its first element. Elements outside of the tensor arrive as zero.
__device__ __forceinline__ void tma_load_2d(uint32_t destination, CUtensorMap const* map, int32_t column, int32_t row,
                                            uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          destination),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// `bytes`, a multiple of 16, from and to multiples of 16 bytes.
__device__ __forceinline__ void bulk_load(uint32_t destination, void const* source, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
               "l"(source), "r"(bytes), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void tma_load_3d(uint32_t destination, CUtensorMap const* map, int32_t x, int32_t y,
                                            int32_t z, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
          destination),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

// To the same place in the shared memory of every CTA of the cluster whose bit (1 << rank) is set in `ctas`; the bytes
// complete on each one's barrier at the place of `barrier`.
__device__ __forceinline__ void tma_load_2d_multicast(uint32_t destination, CUtensorMap const* map, int32_t column,
                                                      int32_t row, uint32_t barrier, uint32_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(destination),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(static_cast<uint16_t>(ctas))
      : "memory");
}

// From shared memory to a box of a 2-D tensor map; what lies outside of the tensor is dropped. Part of the thread's open
// group of stores. Ordinary writes of `source` come before it by fence_async_shared() and a barrier.
__device__ __forceinline__ void tma_store_2d(CUtensorMap const* map, int32_t column, int32_t row, uint32_t source) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(column),
               "r"(row), "r"(source)
               : "memory");
}

__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until the shared memory of all this thread's stores has been read and may be overwritten.
__device__ __forceinline__ void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// A box to L2.
__device__ __forceinline__ void tma_prefetch_2d(CUtensorMap const* map, int32_t column, int32_t row) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map), "r"(column), "r"(row)
               : "memory");
}
__device__ __forceinline__ void tma_prefetch_3d(CUtensorMap const* map, int32_t x, int32_t y, int32_t z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y), "r"(z)
               : "memory");
}

__device__ __forceinline__ void tma_prefetch_map(CUtensorMap const* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

}  // namespace fp4aot

#endif
