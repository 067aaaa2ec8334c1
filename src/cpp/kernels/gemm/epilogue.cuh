// d = alpha * accumulator + bias in fp32, rounded once to the output type, and the sum over a cluster's partial tiles.
#ifndef FP4AOT_KERNELS_GEMM_EPILOGUE_CUH_
#define FP4AOT_KERNELS_GEMM_EPILOGUE_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "device/cluster.cuh"
#include "fp4aot/fp4aot.h"
#include "kernels/gemm/dequant.cuh"
#include "kernels/gemm/wgmma_layout.cuh"

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
  __device__ __forceinline__ ColumnEpilogue(WgmmaGemmArgs const& args, float unshift, int column) {
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
__device__ __forceinline__ void store_rows_as(WgmmaGemmArgs const& args, float unshift, int m0, int column,
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
__device__ __forceinline__ void store_rows(WgmmaGemmArgs const& args, float unshift, int m0, int column,
                                           ForEachRow const& for_each_row) {
  if (args.d_dtype == FP4AOT_BF16) {
    store_rows_as<kCount, __nv_bfloat16>(args, unshift, m0, column, for_each_row);
  } else if (args.d_dtype == FP4AOT_FP16) {
    store_rows_as<kCount, __half>(args, unshift, m0, column, for_each_row);
  } else {
    store_rows_as<kCount, float>(args, unshift, m0, column, for_each_row);
  }
}

// Adds the partial tiles of the cluster's CTAs in rank order and stores this CTA's share of the tile. Consumers call it.
template <class Config>
__device__ __forceinline__ void reduce_partials(WgmmaGemmArgs const& args, uint32_t base, int m0, int n0, int rows,
                                                uint32_t rank) {
  constexpr int kQuads = Config::kRows / 4, kMaxSplits = 8;
  uint32_t const splits = static_cast<uint32_t>(args.splits);
  uint32_t const total = rows * kQuads;
  uint32_t const end = total * (rank + 1) / splits;
  for (uint32_t i = total * rank / splits + threadIdx.x - 128; i < end; i += Config::kThreads - 128) {
    int const row = i / kQuads, column = n0 + i % kQuads * 4;
    if (column >= args.n) continue;
    uint32_t const address = base + (row * Config::kPartialPitch + i % kQuads * 4) * 4;
    float4 part[kMaxSplits];
#pragma unroll
    for (uint32_t s = 0; s < kMaxSplits; ++s) {
      if (s < splits) part[s] = cluster_load(cluster_address(address, s));
    }
    float v[4] = {part[0].x, part[0].y, part[0].z, part[0].w};
#pragma unroll
    for (uint32_t s = 1; s < kMaxSplits; ++s) {
      if (s < splits) v[0] += part[s].x, v[1] += part[s].y, v[2] += part[s].z, v[3] += part[s].w;
    }
    store_rows<4>(args, BlockFactors<Config::kFormat>::kUnshift, m0, column, [&](auto visit) { visit(row, v); });
  }
}

}  // namespace fp4aot

#endif
