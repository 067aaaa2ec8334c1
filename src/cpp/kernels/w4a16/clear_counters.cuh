// Counters of shared tiles (kernels/gemm/wgmma.cuh) must be zero when the product begins, and a workspace may hold anything.
#ifndef FP4AOT_KERNELS_W4A16_CLEAR_COUNTERS_CUH_
#define FP4AOT_KERNELS_W4A16_CLEAR_COUNTERS_CUH_

#include <cstdint>

#include "device/pdl.cuh"
#include "fp4aot/formats.h"

namespace fp4aot {

struct Counters {
  uint32_t* first;
  int32_t count;
};

// By all CTAs of a grid of one dimension.
__device__ __forceinline__ void clear_counters(Counters const& counters) {
#pragma unroll 1
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < counters.count;
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    counters.first[i] = 0;
  }
}

constexpr int kClearThreads = 256;

// A kernel for each unit that has products: kFormat and kBf16 only tell them apart.
template <Format kFormat, bool kBf16>
__global__ void __launch_bounds__(kClearThreads) clear_counters_kernel(Counters const counters) {
  pdl_launch_dependents();
  pdl_wait();
  clear_counters(counters);
}

}  // namespace fp4aot

#endif
