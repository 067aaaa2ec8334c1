// Emulates src/cpp/device/shared_memory.cuh.
#ifndef FP4AOT_DEVICE_SHARED_MEMORY_CUH_
#define FP4AOT_DEVICE_SHARED_MEMORY_CUH_

#include "cuda_language.h"

namespace fp4aot {

template <class T>
T shared_load(uint32_t address) {
  T v;
  std::memcpy(&v, machine::shared_bytes(address, sizeof v, sizeof v), sizeof v);
  return v;
}

inline uint32_t shared_load1(uint32_t address) { return shared_load<uint8_t>(address); }
inline uint32_t shared_load2(uint32_t address) { return shared_load<uint16_t>(address); }
inline uint32_t shared_load4(uint32_t address) { return shared_load<uint32_t>(address); }
inline uint2 shared_load8(uint32_t address) { return shared_load<uint2>(address); }
inline uint4 shared_load16(uint32_t address) { return shared_load<uint4>(address); }

inline void shared_store4(uint32_t address, uint32_t x) { std::memcpy(machine::shared_bytes(address, 4, 4), &x, 4); }

inline void shared_store8(uint32_t address, float x, float y) {
  float const v[2] = {x, y};
  std::memcpy(machine::shared_bytes(address, 8, 8), v, 8);
}

inline void shared_store16(uint32_t address, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  uint32_t const v[4] = {x, y, z, w};
  std::memcpy(machine::shared_bytes(address, 16, 16), v, 16);
}

inline void shared_store_matrices_transposed(uint32_t address, uint32_t const (&v)[4]) {
  machine::Warp& warp = machine::current_warp();
  int const lane = threadIdx.x % 32;
  std::memcpy(warp.a[lane], v, sizeof v);
  __syncwarp();
  for (int row = 0; row < 8; ++row) {  // of the matrix and column that this lane has the address of
    uint16_t const element = static_cast<uint16_t>(warp.a[4 * row + lane % 8 / 2][lane / 8] >> lane % 2 * 16);
    std::memcpy(machine::shared_bytes(address, 16, 16) + 2 * row, &element, 2);
  }
  __syncwarp();
}

template <int kThreads>
void barrier_sync(uint32_t barrier) {
  __syncwarp();
  machine::synchronise(machine::current->cta->named[barrier], kThreads);
}

}  // namespace fp4aot

#endif
