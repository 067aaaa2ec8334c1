#ifndef FP4AOT_IMAGES_SM103A_QUANTIZE_POLICY_H_
#define FP4AOT_IMAGES_SM103A_QUANTIZE_POLICY_H_

#include "device/e2m1.cuh"
#include "kernels/quantize/policy.h"

namespace fp4aot {

struct QuantizePolicy : QuantizePolicyFor<HardwareE2m1, 148> {};

}  // namespace fp4aot

#endif
