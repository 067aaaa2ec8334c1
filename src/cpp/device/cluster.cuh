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

// The two halves of a barrier of the cluster, for work in between; a thread calls them in turn. Like cluster_sync.
__device__ __forceinline__ void cluster_arrive() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// 16 bytes to shared memory of a CTA of the cluster; they complete on its `barrier`. Both are addresses of
// cluster_address.
__device__ __forceinline__ void cluster_store16_async(uint32_t address, float const (&v)[4], uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier)
      : "memory");
}

// cluster_sync, and what each thread wrote to shared memory before is seen by all CTAs after.
__device__ __forceinline__ void cluster_sync_shared() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address of the same place in the shared memory of the CTA with this rank.
__device__ __forceinline__ uint32_t cluster_address(uint32_t own_address, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own_address), "r"(rank));
  return address;
}

}  // namespace fp4aot

#endif
