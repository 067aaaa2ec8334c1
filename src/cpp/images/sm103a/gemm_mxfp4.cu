#include "images/sm103a/policy.h"
#include "kernels/gemm/cutlass_tcgen05.cuh"

FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kMxfp4, 0)
FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kMxfp4, 1)
FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kMxfp4, 2)
FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kMxfp4, 3)
FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kMxfp4, 4)
