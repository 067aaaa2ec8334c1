// The second half of a product that is cut along k: adds the slices' partial sums, always in one order, and applies
// alpha and bias.
#ifndef FP4AOT_KERNELS_GEMM_REDUCE_SLICES_CUH_
#define FP4AOT_KERNELS_GEMM_REDUCE_SLICES_CUH_

#include "device/launch.cuh"
#include "device/pdl.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/launch_blocks.h"

namespace fp4aot {

struct ReduceSlicesArgs {
  GemmArgs gemm;
  float const* partial;  // [slices, m, n]
  int32_t slices;
};

constexpr int kReduceThreads = 128;
constexpr int kReduceColumns = 4;  // a thread

static __global__ void __launch_bounds__(kReduceThreads) reduce_slices_kernel(ReduceSlicesArgs const args) {
  pdl_launch_dependents();
  int const column = (static_cast<int>(blockIdx.x) * kReduceThreads + static_cast<int>(threadIdx.x)) * kReduceColumns;
  pdl_wait();
  if (column >= args.gemm.n) return;
  int64_t const slice = static_cast<int64_t>(args.gemm.m) * args.gemm.n;
  for (int row = static_cast<int>(blockIdx.y); row < args.gemm.m; row += static_cast<int>(gridDim.y)) {
    float const* p = args.partial + static_cast<int64_t>(row) * args.gemm.n + column;
    float sum[kReduceColumns] = {};
#pragma unroll 4
    for (int i = 0; i < args.slices; ++i, p += slice) {
      float4 const part = *reinterpret_cast<float4 const*>(p);
      sum[0] += part.x;
      sum[1] += part.y;
      sum[2] += part.z;
      sum[3] += part.w;
    }
    store_row(args.gemm, 1.0f, row, column, sum);
  }
}

// p: as for the product; the partial sums lie in its workspace.
inline fp4aot_status reduce_slices(fp4aot_gemm_params const& p, int slices, char const* op, Message* message) {
  ReduceSlicesArgs const args = {gemm_args(p), static_cast<float const*>(p.workspace), slices};
  constexpr int kCtaColumns = kReduceThreads * kReduceColumns;
  dim3 const grid(static_cast<unsigned>((p.n + kCtaColumns - 1) / kCtaColumns),
                  static_cast<unsigned>(std::min<int64_t>(p.m, kMaxGridY)));
  return launch({op, p.stream, p.flags, message}, reinterpret_cast<void const*>(&reduce_slices_kernel), grid,
                kReduceThreads, args);
}

}  // namespace fp4aot

#endif
