// The slots of the quantise family. Included by an image's quantize.cu after its QuantizePolicy.
#ifndef FP4AOT_KERNELS_QUANTIZE_SLOTS_CUH_
#define FP4AOT_KERNELS_QUANTIZE_SLOTS_CUH_

#include "kernels/op_slot.h"
#include "kernels/quantize/dequantize.cuh"
#include "kernels/quantize/global_scale.cuh"
#include "kernels/quantize/rmsnorm.cuh"
#include "kernels/quantize/rows.cuh"

#define FP4AOT_QUANTIZE_SLOT(name, ...) FP4AOT_DEFINE_SLOT(name, fp4aot_quantize_params, nullptr, __VA_ARGS__)

FP4AOT_QUANTIZE_SLOT(quantize_nvfp4, QuantizeRows<QuantizePolicy, Format::kNvfp4, false>)
FP4AOT_QUANTIZE_SLOT(quantize_mxfp4, QuantizeRows<QuantizePolicy, Format::kMxfp4, false>)
FP4AOT_QUANTIZE_SLOT(silu_mul_quantize_nvfp4, QuantizeRows<QuantizePolicy, Format::kNvfp4, true>)
FP4AOT_QUANTIZE_SLOT(silu_mul_quantize_mxfp4, QuantizeRows<QuantizePolicy, Format::kMxfp4, true>)
FP4AOT_QUANTIZE_SLOT(rmsnorm_quantize_nvfp4, RmsnormQuantize<QuantizePolicy>)
FP4AOT_DEFINE_SLOT(dequantize_nvfp4, fp4aot_dequantize_params, nullptr, Dequantize<Format::kNvfp4>)
FP4AOT_DEFINE_SLOT(dequantize_mxfp4, fp4aot_dequantize_params, nullptr, Dequantize<Format::kMxfp4>)
FP4AOT_DEFINE_SLOT(nvfp4_global_scale, fp4aot_global_scale_params, &GlobalScale::workspace_size, GlobalScale)

#undef FP4AOT_QUANTIZE_SLOT

#endif
