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

inline uint32_t cluster_address(uint32_t own_address, uint32_t rank) { return (own_address & 0xFFFFFF) | rank << 24; }

}  // namespace fp4aot

#endif
