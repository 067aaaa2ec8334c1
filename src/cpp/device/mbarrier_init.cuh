// Visibility of new mbarrier objects without a fence of memory, sm_90 and later.
#ifndef FP4AOT_DEVICE_MBARRIER_INIT_CUH_
#define FP4AOT_DEVICE_MBARRIER_INIT_CUH_

namespace fp4aot {

// Makes barriers that this thread initialised visible to the cluster and to copies that complete on them. mbarrier_init_fence
// (mbarrier.cuh) has a fence of the proxies besides, which becomes a MEMBAR: it waits for all of the thread's accesses.
__device__ __forceinline__ void mbarrier_init_release() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

}  // namespace fp4aot

#endif
