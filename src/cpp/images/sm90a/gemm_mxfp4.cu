#include "images/sm90a/gemm_slot.cuh"

namespace fp4aot::ops {

extern Slot const gemm_mxfp4;
Slot const gemm_mxfp4 = sm90a::GemmSlot<Format::kMxfp4>::kSlot;

}  // namespace fp4aot::ops
