// gemm_w4a16_* on sm103a: the kernel of kernels/w4a16/mma_sync.cuh for few rows, whose costs (rule.h) are an H200's, and that
// of kernels/w4a16/tcgen05.cuh for more, whose costs (tcgen05_rule.h) are estimates.
#ifndef FP4AOT_IMAGES_SM103A_W4A16_POLICY_H_
#define FP4AOT_IMAGES_SM103A_W4A16_POLICY_H_

#include "kernels/w4a16/slot.cuh"
#include "kernels/w4a16/tcgen05_slot.h"

namespace fp4aot::sm103a {

constexpr int kW4a16Multiprocessors = 160;  // of a B300

template <Format kFormat>
using W4a16Policy = W4a16WithTcgen05<kFormat, kW4a16Multiprocessors>;

}  // namespace fp4aot::sm103a

#endif
