// Blackwell RTX 50 and RTX PRO: which ops the image has, and its one exported symbol.
#include <cuda_runtime_api.h>

#define FP4AOT_IMAGE_OPS(OP)  \
  OP(quantize_nvfp4)          \
  OP(quantize_mxfp4)          \
  OP(silu_mul_quantize_nvfp4) \
  OP(silu_mul_quantize_mxfp4) \
  OP(rmsnorm_quantize_nvfp4)  \
  OP(dequantize_nvfp4)        \
  OP(dequantize_mxfp4)        \
  OP(nvfp4_global_scale)      \
  OP(swizzle_scales)          \
  OP(unswizzle_scales)        \
  OP(gemm_nvfp4)              \
  OP(gemm_mxfp4)              \
  OP(prepare_w4a16_nvfp4)     \
  OP(prepare_w4a16_mxfp4)     \
  OP(restore_w4a16_nvfp4)     \
  OP(restore_w4a16_mxfp4)     \
  OP(gemm_w4a16_nvfp4)        \
  OP(gemm_w4a16_mxfp4)

#include "images/slot_table.h"

extern "C" fp4aot::Image const* fp4aot_image() {
  static constexpr fp4aot::Image kImage = fp4aot::make_image("sm120a", CUDART_VERSION);
  return &kImage;
}
