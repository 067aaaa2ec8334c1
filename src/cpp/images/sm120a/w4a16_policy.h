// gemm_w4a16_* on sm120a: the kernel of kernels/w4a16/mma_sync.cuh for any number of rows; its costs (rule.h) are an H200's.
#ifndef FP4AOT_IMAGES_SM120A_W4A16_POLICY_H_
#define FP4AOT_IMAGES_SM120A_W4A16_POLICY_H_

#include "kernels/w4a16/slot.cuh"

namespace fp4aot::sm120a {

constexpr int kW4a16Multiprocessors = 188;  // of an RTX PRO 6000

// A multiprocessor has 100 KB, a CTA at most 99 of them.
template <Format>
using W4a16Policy = W4a16MmaSyncOnly<kW4a16Multiprocessors, 100 * 1024, 99 * 1024>;

}  // namespace fp4aot::sm120a

#endif
