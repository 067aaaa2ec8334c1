#include "images/sm100a/w4a16_policy.h"
#include "kernels/op_slot.h"
#include "kernels/w4a16/prepare.cuh"

FP4AOT_DEFINE_W4A16_WEIGHTS(mxfp4, Format::kMxfp4)
FP4AOT_DEFINE_W4A16_GEMM(mxfp4, Format::kMxfp4, sm100a::W4a16Policy)
