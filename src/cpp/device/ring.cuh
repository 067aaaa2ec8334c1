// A ring of slots in shared memory, each with barriers (mbarrier.cuh) that say when it is full and when empty.
#ifndef FP4AOT_DEVICE_RING_CUH_
#define FP4AOT_DEVICE_RING_CUH_

#include <cstdint>

namespace fp4aot {

// Position in a ring of kSize slots and the parity of its current pass.
template <int kSize>
struct RingPosition {
  uint32_t slot, parity;
  __device__ __forceinline__ void advance(uint32_t by = 1) {  // by <= kSize
    slot += by;
    if (slot >= kSize) {
      slot -= kSize;
      parity ^= 1;
    }
  }
};

}  // namespace fp4aot

#endif
