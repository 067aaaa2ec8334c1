// Groups of bulk stores (tma.cuh) of which some may still run, sm_90 and later.
#ifndef FP4AOT_DEVICE_TMA_GROUPS_CUH_
#define FP4AOT_DEVICE_TMA_GROUPS_CUH_

namespace fp4aot {

// Until the shared memory of all this thread's groups of stores but the newest kGroups has been read.
template <int kGroups>
__device__ __forceinline__ void tma_store_wait_read_but() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kGroups) : "memory");
}

}  // namespace fp4aot

#endif
