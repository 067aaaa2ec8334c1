// How an image's slots reach its CUTLASS kernels, which are compiled in other translation units.
#ifndef FP4AOT_KERNELS_GEMM_CUTLASS_TABLE_H_
#define FP4AOT_KERNELS_GEMM_CUTLASS_TABLE_H_

#include <cuda_runtime.h>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "images/image.h"

namespace fp4aot {

// One launch.
struct CutlassGemmCall {
  fp4aot_gemm_params params;
  int slices;                // of k; more than one: fp32 partial sums [slices, m, n] go to the workspace
  int cluster_m, cluster_n;  // CTAs of a cluster along the rows and columns of the kernel's D
  bool along_n;              // neighbouring CTAs take tiles along the columns of the kernel's D
};

struct CutlassGemmKernel {  // by d_dtype - FP4AOT_BF16
  fp4aot_status (*run[3])(CutlassGemmCall const&, char const* op, Message*);
  cudaError_t (*prepare[3])(int device);
};

// The kernel of row kIndex of the image's table of tiles (Policy::kTiles), defined by one of its gemm_*.cu.
template <Format kFormat, int kIndex>
struct GemmKernelOf {
  static CutlassGemmKernel const kKernel;
};

}  // namespace fp4aot

// In a unit, at global scope, after including the image's policy.h and a cutlass_*.cuh.
#define FP4AOT_CUTLASS_GEMM(Family, format, index)                                                                    \
  template <>                                                                                                         \
  fp4aot::CutlassGemmKernel const fp4aot::GemmKernelOf<fp4aot::format, index>::kKernel = fp4aot::cutlass_gemm_kernel< \
      fp4aot::Family<fp4aot::GemmPolicy::kTiles, fp4aot::format, index>::template Kernel>();

#endif
