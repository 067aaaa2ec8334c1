// gemm_w4a16_* on sm103a: the kernel of kernels/w4a16/mma_sync.cuh for any number of rows; its costs (rule.h) are an H200's.
#ifndef FP4AOT_IMAGES_SM103A_W4A16_POLICY_H_
#define FP4AOT_IMAGES_SM103A_W4A16_POLICY_H_

#include "kernels/w4a16/slot.cuh"

namespace fp4aot::sm103a {

constexpr int kW4a16Multiprocessors = 160;  // of a B300

// Two CTAs a multiprocessor: of this kernel, or of the next one in a chain.
template <Format>
using W4a16Policy = W4a16MmaSyncOnly<kW4a16Multiprocessors, 228 * 1024, 110 * 1024>;

}  // namespace fp4aot::sm103a

#endif
