// Emulates src/cpp/device/global_memory.cuh.
#ifndef FP4AOT_DEVICE_GLOBAL_MEMORY_CUH_
#define FP4AOT_DEVICE_GLOBAL_MEMORY_CUH_

#include "cuda_language.h"

namespace machine {

template <class T>
T* checked(T* p, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(p) % bytes != 0) fail("misaligned address of global memory");
  check_operand(reinterpret_cast<uint8_t const*>(p), bytes);
  return p;
}

}  // namespace machine

namespace fp4aot {

inline uint4 global_load16(void const* p) {
  uint4 v;
  std::memcpy(&v, machine::checked(p, 16), 16);
  return v;
}

inline void global_store16(void* p, uint4 v) { std::memcpy(machine::checked(p, 16), &v, 16); }

inline float4 global_load_shared4(float const* p) {
  float4 v;
  std::memcpy(&v, machine::checked(p, 16), 16);
  return v;
}

inline void global_store_shared4(float* p, float x, float y, float z, float w) {
  float const v[4] = {x, y, z, w};
  std::memcpy(machine::checked(p, 16), v, 16);
}

inline uint32_t global_count(uint32_t* counter) { return (*machine::checked(counter, 4))++; }

// Other clusters do not run meanwhile.
inline bool global_reaches(uint32_t* counter, uint32_t value, int) { return *machine::checked(counter, 4) == value; }

}  // namespace fp4aot

#endif
