#include "images/sm90a/gemm_slot.cuh"

namespace fp4aot::ops {

extern Slot const gemm_nvfp4;
Slot const gemm_nvfp4 = sm90a::GemmSlot<Format::kNvfp4>::kSlot;

}  // namespace fp4aot::ops
