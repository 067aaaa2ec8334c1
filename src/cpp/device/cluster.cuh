// Thread block clusters, sm_90 and later.
#ifndef FP4AOT_DEVICE_CLUSTER_CUH_
#define FP4AOT_DEVICE_CLUSTER_CUH_

#include <cstdint>

namespace fp4aot {

// Waits until all threads of all CTAs of the cluster have come here. It orders no memory accesses but those that a fence
// of their own makes visible to the cluster (mbarrier_init_fence).
__device__ __forceinline__ void cluster_sync() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address of the same place in the shared memory of the CTA with this rank.
__device__ __forceinline__ uint32_t cluster_address(uint32_t own_address, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own_address), "r"(rank));
  return address;
}

}  // namespace fp4aot

#endif
