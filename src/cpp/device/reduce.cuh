// Reductions over groups of threads.
#ifndef FP4AOT_DEVICE_REDUCE_CUH_
#define FP4AOT_DEVICE_REDUCE_CUH_

namespace fp4aot {

struct Sum {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

struct Max {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Reduces over each group of `threads` consecutive threads (a power of two, 32 or more, dividing the CTA) of which this
// is one, in an order that depends on nothing else. All threads of the CTA call it. `scratch`: shared memory of one
// float a warp, which must not be reused before another barrier: callers that loop alternate between two.
template <class Op>
__device__ __forceinline__ float reduce_group(float value, unsigned threads, float* scratch, Op op) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value = op(value, __shfl_xor_sync(~0u, value, distance));
  if (threads == 32) return value;  // the same for the whole CTA
  unsigned const warp = threadIdx.x / 32, warps = threads / 32;
  if (threadIdx.x % 32 == 0) scratch[warp] = value;
  __syncthreads();
  value = scratch[(warp & ~(warps - 1)) + (threadIdx.x & (warps - 1))];
  for (unsigned distance = warps / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(~0u, value, distance));
  }
  return value;
}

}  // namespace fp4aot

#endif
