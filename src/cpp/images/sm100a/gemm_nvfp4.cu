#include "images/sm100a/policy.h"
#include "kernels/gemm/cutlass_tcgen05.cuh"

FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kNvfp4, 0)
FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kNvfp4, 1)
FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kNvfp4, 2)
FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kNvfp4, 3)
FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kNvfp4, 4)
