// d = alpha * accumulator + bias in fp32, rounded once to the output type.
#ifndef FP4AOT_KERNELS_GEMM_EPILOGUE_CUH_
#define FP4AOT_KERNELS_GEMM_EPILOGUE_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <type_traits>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "kernels/gemm/args.h"

namespace fp4aot {

__device__ __forceinline__ float load_bias(void const* bias, int32_t dtype, int64_t column) {
  if (dtype == FP4AOT_BF16) return __bfloat162float(static_cast<__nv_bfloat16 const*>(bias)[column]);
  if (dtype == FP4AOT_FP16) return __half2float(static_cast<__half const*>(bias)[column]);
  return static_cast<float const*>(bias)[column];
}

__device__ __forceinline__ void convert(float x, __nv_bfloat16* out) { *out = __float2bfloat16_rn(x); }
__device__ __forceinline__ void convert(float x, __half* out) { *out = __float2half_rn(x); }
__device__ __forceinline__ void convert(float x, float* out) { *out = x; }

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) OutputVector {
  T element[kCount];
};

// kCount neighbouring results, as one vector if kAligned.
template <bool kAligned, class T, int kCount>
__device__ __forceinline__ void store_outputs(T* d, float const (&x)[kCount]) {
  OutputVector<T, kCount> out;
#pragma unroll
  for (int i = 0; i < kCount; ++i) convert(x[i], &out.element[i]);
  if constexpr (kAligned) {
    *reinterpret_cast<OutputVector<T, kCount>*>(d) = out;
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) d[i] = out.element[i];
  }
}

// Two results as a word of bf16 or fp16, x in the lower half.
__device__ __forceinline__ uint32_t pack_pair(bool bf16, float x, float y) {
  uint32_t word;
  if (bf16) {
    __nv_bfloat162 const pair = __floats2bfloat162_rn(x, y);
    memcpy(&word, &pair, sizeof word);
  } else {
    __half2 const pair = __floats2half2_rn(x, y);
    memcpy(&word, &pair, sizeof word);
  }
  return word;
}

// Calls f(T*) with the output's type.
template <class F>
__device__ __forceinline__ void with_output_type(GemmArgs const& args, F const& f) {
  if (args.d_dtype == FP4AOT_BF16) {
    f(static_cast<__nv_bfloat16*>(args.d));
  } else if (args.d_dtype == FP4AOT_FP16) {
    f(static_cast<__half*>(args.d));
  } else {
    f(static_cast<float*>(args.d));
  }
}

// Calls f(T*, std::bool_constant<aligned>) with the output's type and alignment. One path a call, so that the code of a
// store is short: it runs once a tile, when each instruction still has to be fetched.
template <class F>
__device__ __forceinline__ void with_output(GemmArgs const& args, F const& f) {
  auto const typed = [&](auto* d) {
    if (args.aligned_stores) {
      f(d, std::true_type{});
    } else {
      f(d, std::false_type{});
    }
  };
  if (args.d_dtype == FP4AOT_BF16) {
    typed(static_cast<__nv_bfloat16*>(args.d));
  } else if (args.d_dtype == FP4AOT_FP16) {
    typed(static_cast<__half*>(args.d));
  } else {
    typed(static_cast<float*>(args.d));
  }
}

// What a thread applies to its kCount neighbouring columns from `column` on: result = scale * accumulator + bias.
// unshift: see dequant.cuh; a power of two, so that it may go with alpha. All columns are inside of n, a multiple of 8.
template <int kCount>
struct ColumnEpilogue {
  float scale;
  float bias[kCount];

  __device__ __forceinline__ ColumnEpilogue(GemmArgs const& args, float unshift, int column) {
    scale = args.alpha != nullptr ? *args.alpha * unshift : unshift;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      bias[i] = args.bias != nullptr ? load_bias(args.bias, args.bias_dtype, column + i) : 0.0f;
  }
  __device__ __forceinline__ float apply(float accumulator, int i) const { return scale * accumulator + bias[i]; }
};

// v: accumulators of row `row`, columns [column, column + kCount).
template <int kCount>
__device__ __forceinline__ void store_row(GemmArgs const& args, float unshift, int64_t row, int column,
                                          float const (&v)[kCount]) {
  ColumnEpilogue<kCount> const epilogue(args, unshift, column);
  float x[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = epilogue.apply(v[i], i);
  with_output(args, [&](auto* d, auto aligned) {
    store_outputs<decltype(aligned)::value>(d + row * args.d_stride + column, x);
  });
}

}  // namespace fp4aot

#endif
