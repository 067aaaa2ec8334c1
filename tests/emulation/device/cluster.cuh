// Emulates src/cpp/device/cluster.cuh.
#ifndef FP4AOT_DEVICE_CLUSTER_CUH_
#define FP4AOT_DEVICE_CLUSTER_CUH_

#include "cuda_language.h"

namespace fp4aot {

inline void cluster_sync() {
  __syncwarp();
  machine::Cluster& cluster = *machine::current->cta->cluster;
  machine::synchronise(cluster.barrier, cluster.threads);
}

inline void cluster_sync_shared() { cluster_sync(); }

inline uint32_t cluster_address(uint32_t own_address, uint32_t rank) { return (own_address & 0xFFFFFF) | rank << 24; }

inline float4 cluster_load16(uint32_t address) {
  float4 v;
  std::memcpy(&v, machine::shared_bytes(address, 16, 16), 16);
  return v;
}

}  // namespace fp4aot

#endif
