#include "images/sm120a/policy.h"
#include "kernels/gemm/cutlass_mma_sync.cuh"

FP4AOT_CUTLASS_GEMM(MmaSync, Format::kNvfp4, 2)
FP4AOT_CUTLASS_GEMM(MmaSync, Format::kNvfp4, 3)
FP4AOT_CUTLASS_GEMM(MmaSync, Format::kNvfp4, 4)
