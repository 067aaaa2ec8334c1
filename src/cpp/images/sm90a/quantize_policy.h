#ifndef FP4AOT_IMAGES_SM90A_QUANTIZE_POLICY_H_
#define FP4AOT_IMAGES_SM90A_QUANTIZE_POLICY_H_

#include "device/convert.cuh"
#include "kernels/quantize/policy.h"

namespace fp4aot {

struct QuantizePolicy : QuantizePolicyFor<SoftwareE2m1, 132> {};

}  // namespace fp4aot

#endif
