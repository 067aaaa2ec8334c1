#include "images/sm103a/policy.h"
#include "kernels/gemm/cutlass_slot.cuh"

namespace fp4aot::ops {

extern Slot const gemm_nvfp4, gemm_mxfp4;
Slot const gemm_nvfp4 = CutlassGemmSlot<GemmPolicy, Format::kNvfp4>::kSlot;
Slot const gemm_mxfp4 = CutlassGemmSlot<GemmPolicy, Format::kMxfp4>::kSlot;

}  // namespace fp4aot::ops
