// fp16 activations as sums of two bf16 values, for products with MXFP4 weights, whose scales fp16 cannot hold.
//
// fp16 has 11 significant bits and bf16 has 8, with the larger exponents: x = hi + lo, exactly, where hi is x rounded to bf16.
// An infinity or a NaN is hi, and lo is zero then. A row of the result has, for each 128 values of the row, their 128 hi and
// then their 128 lo, so that the kernel (kernels/gemm/wgmma.cuh) multiplies two steps with the same weights. Values beyond k,
// up to the next multiple of 128, are zero.
#ifndef FP4AOT_KERNELS_W4A16_SPLIT_ACTIVATIONS_CUH_
#define FP4AOT_KERNELS_W4A16_SPLIT_ACTIVATIONS_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#include "device/global_memory.cuh"
#include "device/pdl.cuh"
#include "kernels/gemm/tile_schedule.h"
#include "kernels/w4a16/clear_counters.cuh"

namespace fp4aot {

constexpr int kSplitThreads = 128;
constexpr int kSplitValues = 8;                            // of a thread, in a row
constexpr int kSplitRows = 4;                              // of a thread
constexpr int kSplitPlaces = kWgmmaStep / kSplitValues;    // of a step
constexpr int kSplitSteps = kSplitThreads / kSplitPlaces;  // of a CTA

struct SplitArgs {
  uint8_t const* a;   // fp16 [m, k]
  int64_t stride;     // bytes
  int64_t m, rows;    // of a and of the result: those beyond m become zero
  int32_t k, steps;   // k: a multiple of kSplitValues; steps = ceil(k / 128)
  uint8_t* out;       // bf16 [rows, 256 * steps]
  Counters counters;  // set to zero
};

// CTAs for kSplitRows rows of the result.
FP4AOT_HOST_DEVICE constexpr int split_ctas(int steps) { return (steps + kSplitSteps - 1) / kSplitSteps; }

// The grid: split_ctas for each group of kSplitRows rows.
template <Format kFormat>  // of the weights: the image has one kernel
__global__ void __launch_bounds__(kSplitThreads) split_activations_kernel(__grid_constant__ SplitArgs const args) {
  pdl_wait();
  pdl_launch_dependents();
  clear_counters(args.counters);
  unsigned const ctas = split_ctas(args.steps), group = blockIdx.x / ctas;
  int const place = threadIdx.x % kSplitPlaces;
  int const step = static_cast<int>((blockIdx.x - group * ctas) * kSplitSteps + threadIdx.x / kSplitPlaces);
  if (step >= args.steps) return;
  int const column = step * kWgmmaStep + place * kSplitValues;
  int64_t const first_row = int64_t{group} * kSplitRows;
  uint4 values[kSplitRows];
#pragma unroll
  for (int i = 0; i < kSplitRows; ++i) {
    values[i] = make_uint4(0, 0, 0, 0);
    if (first_row + i < args.m && column < args.k)
      values[i] = global_load16(args.a + (first_row + i) * args.stride + int64_t{column} * 2);
  }
#pragma unroll
  for (int i = 0; i < kSplitRows; ++i) {
    if (first_row + i >= args.rows) break;
    __half x[kSplitValues];
    __nv_bfloat16 hi[kSplitValues], lo[kSplitValues];
    memcpy(x, &values[i], sizeof x);
#pragma unroll
    for (int j = 0; j < kSplitValues; ++j) {
      float const value = __half2float(x[j]);
      hi[j] = __float2bfloat16_rn(value);
      lo[j] = __float2bfloat16_rn(fabsf(value) < INFINITY ? value - __bfloat162float(hi[j]) : 0.0f);
    }
    uint8_t* const out = args.out + ((first_row + i) * args.steps + step) * (kWgmmaStep * 4) + place * 16;
    uint4 v;
    memcpy(&v, hi, sizeof v);
    global_store16(out, v);
    memcpy(&v, lo, sizeof v);
    global_store16(out + kWgmmaStep * 2, v);
  }
}

}  // namespace fp4aot

#endif
