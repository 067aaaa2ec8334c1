// Loads and stores of global memory. Plain ones: under programmatic dependent launch the read-only path (ld.global.nc)
// would be wrong, because the predecessor may write the data while this kernel already runs.
#ifndef FP4AOT_DEVICE_MEMORY_CUH_
#define FP4AOT_DEVICE_MEMORY_CUH_

#include <cstdint>

#include "device/convert.cuh"

namespace fp4aot {

inline bool is_aligned(void const* pointer, size_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

// A base address and a distance between rows that keep `bytes`-byte accesses aligned.
inline bool rows_aligned(void const* pointer, int64_t stride_bytes, size_t bytes) {
  return is_aligned(pointer, bytes) && stride_bytes % static_cast<int64_t>(bytes) == 0;
}

// kWords words from p. kAligned: p is a multiple of 16 bytes, else of the element alone.
template <class T, int kWords, bool kAligned>
__device__ __forceinline__ void load_words(T const* p, uint32_t (&words)[kWords]) {
  if constexpr (kAligned) {
    static_assert(kWords % 4 == 0);
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      uint4 const v = *reinterpret_cast<uint4 const*>(p + i * Element<T>::kPerWord);
      words[i] = v.x;
      words[i + 1] = v.y;
      words[i + 2] = v.z;
      words[i + 3] = v.w;
    }
  } else if constexpr (Element<T>::kPerWord == 1) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = reinterpret_cast<uint32_t const*>(p)[i];
  } else {
    auto const* halves = reinterpret_cast<uint16_t const*>(p);
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = halves[2 * i] | static_cast<uint32_t>(halves[2 * i + 1]) << 16;
  }
}

template <class T, int kWords, bool kAligned>
__device__ __forceinline__ void store_words(T* p, uint32_t const (&words)[kWords]) {
  if constexpr (kAligned) {
    static_assert(kWords % 4 == 0);
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      *reinterpret_cast<uint4*>(p + i * Element<T>::kPerWord) =
          make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]);
    }
  } else if constexpr (Element<T>::kPerWord == 1) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) reinterpret_cast<uint32_t*>(p)[i] = words[i];
  } else {
    auto* halves = reinterpret_cast<uint16_t*>(p);
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      halves[2 * i] = static_cast<uint16_t>(words[i]);
      halves[2 * i + 1] = static_cast<uint16_t>(words[i] >> 16);
    }
  }
}

// Four bytes at any address.
__device__ __forceinline__ uint32_t load_bytes4(uint8_t const* p) {
  return p[0] | p[1] << 8 | p[2] << 16 | static_cast<uint32_t>(p[3]) << 24;
}

__device__ __forceinline__ void store_bytes4(uint8_t* p, uint32_t word) {
#pragma unroll
  for (int i = 0; i < 4; ++i) p[i] = static_cast<uint8_t>(word >> 8 * i);
}

}  // namespace fp4aot

#endif
