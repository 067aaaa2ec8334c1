// Thread block clusters: barrier and distributed shared memory, sm_90 and later.
#ifndef FP4AOT_DEVICE_CLUSTER_CUH_
#define FP4AOT_DEVICE_CLUSTER_CUH_

#include <cstdint>

namespace fp4aot {

// All threads of all CTAs of the cluster; orders their memory accesses before and after.
__device__ __forceinline__ void cluster_sync() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address of the same place in the shared memory of the CTA with this rank.
__device__ __forceinline__ uint32_t cluster_address(uint32_t own_address, uint32_t rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own_address), "r"(rank));
  return address;
}

__device__ __forceinline__ float4 cluster_load(uint32_t address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

}  // namespace fp4aot

#endif
