#include "images/sm120a/policy.h"
#include "kernels/gemm/cutlass_mma_sync.cuh"

FP4AOT_CUTLASS_GEMM(MmaSync, Format::kMxfp4, 0)
FP4AOT_CUTLASS_GEMM(MmaSync, Format::kMxfp4, 1)
