#include "images/sm103a/policy.h"
#include "kernels/gemm/cutlass_tcgen05.cuh"

FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kMxfp4, 5)
FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kMxfp4, 6)
FP4AOT_CUTLASS_GEMM(Tcgen05, Format::kMxfp4, 7)
