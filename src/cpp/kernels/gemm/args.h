// The arguments that all W4A4 kernels share, as a launch passes them by value.
#ifndef FP4AOT_KERNELS_GEMM_ARGS_H_
#define FP4AOT_KERNELS_GEMM_ARGS_H_

#include <cstdint>

namespace fp4aot {

struct GemmArgs {
  uint8_t const* a_codes;
  uint8_t const* b_codes;
  int64_t a_stride, b_stride;  // bytes
  uint8_t const* a_scales;
  uint8_t const* b_scales;
  float const* alpha;  // null: 1
  void const* bias;    // null: none
  void* d;
  int64_t d_stride;  // elements
  int32_t m, n, k;   // the launcher splits problems that are larger
  int32_t d_dtype, bias_dtype;
  bool aligned_stores;  // groups of 4 outputs of a row can be stored as one vector
};

}  // namespace fp4aot

#endif
