// d = alpha * accumulator + bias in fp32, rounded once to the output type.
#ifndef FP4AOT_KERNELS_GEMM_EPILOGUE_CUH_
#define FP4AOT_KERNELS_GEMM_EPILOGUE_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "fp4aot/fp4aot.h"
#include "kernels/gemm/args.h"

namespace fp4aot {

__device__ __forceinline__ float load_bias(void const* bias, int32_t dtype, int column) {
  if (dtype == FP4AOT_BF16) return __bfloat162float(static_cast<__nv_bfloat16 const*>(bias)[column]);
  if (dtype == FP4AOT_FP16) return __half2float(static_cast<__half const*>(bias)[column]);
  return static_cast<float const*>(bias)[column];
}

__device__ __forceinline__ void convert(float x, __nv_bfloat16* out) { *out = __float2bfloat16_rn(x); }
__device__ __forceinline__ void convert(float x, __half* out) { *out = __float2half_rn(x); }
__device__ __forceinline__ void convert(float x, float* out) { *out = x; }

// What a thread applies to its kCount neighbouring columns.
template <int kCount>
struct ColumnEpilogue {
  float alpha;
  float bias[kCount];

  // kCount columns from `column`; they are all inside of n, a multiple of 8.
  __device__ __forceinline__ ColumnEpilogue(GemmArgs const& args, float unshift, int column) {
    alpha = (args.alpha != nullptr ? *args.alpha : 1.0f);
    unshift_ = unshift;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      bias[i] = args.bias != nullptr ? load_bias(args.bias, args.bias_dtype, column + i) : 0.0f;
    }
  }

  template <class T>
  __device__ __forceinline__ void store(T* d, float const (&v)[kCount], bool aligned) const {
    struct alignas(sizeof(T) * kCount) Vector {
      T element[kCount];
    } out;
#pragma unroll
    for (int i = 0; i < kCount; ++i) convert(alpha * (v[i] * unshift_) + bias[i], &out.element[i]);
    if (aligned) {
      *reinterpret_cast<Vector*>(d) = out;
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) d[i] = out.element[i];
    }
  }

 private:
  float unshift_;
};

template <int kCount, class T, class ForEachRow>
__device__ __forceinline__ void store_rows_as(GemmArgs const& args, float unshift, int m0, int column,
                                              ForEachRow const& for_each_row) {
  ColumnEpilogue<kCount> const epilogue(args, unshift, column);
  int const rows = args.m - m0;
  T* const d = static_cast<T*>(args.d) + m0 * args.d_stride + column;
  for_each_row([&](int row, float const(&v)[kCount]) {
    if (row < rows) epilogue.store(d + row * args.d_stride, v, args.aligned_stores);
  });
}

// for_each_row(visit) calls visit(row - m0, values of the columns [column, column + kCount)).
template <int kCount, class ForEachRow>
__device__ __forceinline__ void store_rows(GemmArgs const& args, float unshift, int m0, int column,
                                           ForEachRow const& for_each_row) {
  if (args.d_dtype == FP4AOT_BF16) {
    store_rows_as<kCount, __nv_bfloat16>(args, unshift, m0, column, for_each_row);
  } else if (args.d_dtype == FP4AOT_FP16) {
    store_rows_as<kCount, __half>(args, unshift, m0, column, for_each_row);
  } else {
    store_rows_as<kCount, float>(args, unshift, m0, column, for_each_row);
  }
}

}  // namespace fp4aot

#endif
