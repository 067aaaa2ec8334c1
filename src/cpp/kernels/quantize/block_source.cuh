// Elements of a block from memory, before they are quantised.
#ifndef FP4AOT_KERNELS_QUANTIZE_BLOCK_SOURCE_CUH_
#define FP4AOT_KERNELS_QUANTIZE_BLOCK_SOURCE_CUH_

#include "device/convert.cuh"
#include "device/memory.cuh"

namespace fp4aot {

// A thread's elements of one block; with kSiluMul, silu of them times those at `up_distance` bytes.
template <class T, int kElementsValue, bool kAligned, bool kSiluMul>
struct BlockSource {
  static constexpr int kElements = kElementsValue;
  static constexpr int kPerWord = Element<T>::kPerWord;
  static constexpr int kWords = kElements / kPerWord;
  uint32_t words[kWords];
  uint32_t up[kSiluMul ? kWords : 1];

  __device__ __forceinline__ void load(uint8_t const* p, int64_t up_distance) {
    load_words<T, kWords, kAligned>(reinterpret_cast<T const*>(p), words);
    if constexpr (kSiluMul) load_words<T, kWords, kAligned>(reinterpret_cast<T const*>(p + up_distance), up);
  }

  __device__ __forceinline__ void apply() {
    if constexpr (kSiluMul) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        float gate[kPerWord], factor[kPerWord];
        Element<T>::unpack(words[i], gate);
        Element<T>::unpack(up[i], factor);
#pragma unroll
        for (int j = 0; j < kPerWord; ++j) {
          // The bound keeps the quotient of a finite gate from 0 * infinity; it is -0 there as with infinity. With the
          // inverse unrefined the quotient is still the rounded one but for a few in a million.
          float const divisor = __fadd_rn(1.0f, fminf(expf(-gate[j]), FLT_MAX));
          gate[j] = __fmul_rn(divide_by_inverse(gate[j], divisor, approximate_inverse(divisor)), factor[j]);
        }
        words[i] = Element<T>::pack(gate);
      }
    }
  }
};

}  // namespace fp4aot

#endif
