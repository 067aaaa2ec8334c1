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

// The destination holds junk until the bytes land.
inline void cluster_store16_async(uint32_t address, float const (&v)[4], uint32_t barrier_address) {
  uint8_t* const shared = machine::shared_bytes(address, 16, 16);
  machine::Mbarrier* const barrier = &machine::initialised_mbarrier(barrier_address);
  std::memset(shared, 0xEE, 16);
  float4 const value = {v[0], v[1], v[2], v[3]};
  machine::flying.push_back([=] {
    std::memcpy(shared, &value, 16);
    barrier->bytes -= 16;
    barrier->complete_if_done();
  });
}

inline uint32_t cluster_address(uint32_t own_address, uint32_t rank) { return (own_address & 0xFFFFFF) | rank << 24; }

}  // namespace fp4aot

#endif
