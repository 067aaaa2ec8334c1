#include "kernels/op_slot.h"
#include "kernels/scales/swizzle.cuh"

FP4AOT_DEFINE_SLOT(swizzle_scales, fp4aot_scale_layout_params, nullptr, ScaleLayout<true>)
FP4AOT_DEFINE_SLOT(unswizzle_scales, fp4aot_scale_layout_params, nullptr, ScaleLayout<false>)
