// Emulates src/cpp/device/mbarrier.cuh.
#ifndef FP4AOT_DEVICE_MBARRIER_CUH_
#define FP4AOT_DEVICE_MBARRIER_CUH_

#include "cuda_language.h"

namespace fp4aot {

inline uint32_t shared_address(void const* pointer) {
  return machine::own_address(
      static_cast<uint32_t>(static_cast<uint8_t const*>(pointer) - machine::current->cta->shared.data()));
}

inline void mbarrier_init(uint32_t address, uint32_t count) {
  machine::Mbarrier& barrier = machine::mbarrier_at(address);
  if (barrier.initialised) machine::fail("mbarrier %x is initialised twice", address);
  barrier.initialised = true;
  barrier.expected = barrier.pending = static_cast<int>(count);
}

inline void mbarrier_init_fence() {}

inline void mbarrier_arrive_expect(uint32_t address, uint32_t bytes) {
  machine::Mbarrier& barrier = machine::initialised_mbarrier(address);
  barrier.bytes += bytes;
  --barrier.pending;
  barrier.complete_if_done();
}

inline void mbarrier_arrive(uint32_t address) { mbarrier_arrive_expect(address, 0); }

inline void mbarrier_arrive_cluster(uint32_t address) { mbarrier_arrive_expect(address, 0); }

inline void mbarrier_wait(uint32_t address, uint32_t parity) {
  machine::Mbarrier& barrier = machine::initialised_mbarrier(address);
  if ((barrier.phase & 1) == static_cast<long>(parity)) machine::wait_while(barrier.phase, barrier.phase);
}

inline void mbarrier_wait_patiently(uint32_t address, uint32_t parity) { mbarrier_wait(address, parity); }

inline bool mbarrier_test(uint32_t address, uint32_t parity) {
  return (machine::initialised_mbarrier(address).phase & 1) != static_cast<long>(parity);
}

inline void fence_async_shared() {}

}  // namespace fp4aot

#endif
