// Every check of arguments, for every image, once. What passes here is safe for any image's kernels.
#ifndef FP4AOT_CORE_CHECKS_H_
#define FP4AOT_CORE_CHECKS_H_

#include <type_traits>

#include "core/error.h"

namespace fp4aot::core {

// Sizes, types, strides and options: what workspace_size and list_tactics need too.
fp4aot_status check_sizes(fp4aot_op op, fp4aot_quantize_params const& p);
fp4aot_status check_sizes(fp4aot_op op, fp4aot_dequantize_params const& p);
fp4aot_status check_sizes(fp4aot_op op, fp4aot_global_scale_params const& p);
fp4aot_status check_sizes(fp4aot_op op, fp4aot_scale_layout_params const& p);
fp4aot_status check_sizes(fp4aot_op op, fp4aot_gemm_params const& p);
fp4aot_status check_sizes(fp4aot_op op, fp4aot_w4a16_weights_params const& p);
fp4aot_status check_sizes(fp4aot_op op, fp4aot_gemm_w4a16_params const& p);

// Pointers: null, alignment, sizes of buffers. Only called when there is work to do.
fp4aot_status check_buffers(fp4aot_op op, fp4aot_quantize_params const& p);
fp4aot_status check_buffers(fp4aot_op op, fp4aot_dequantize_params const& p);
fp4aot_status check_buffers(fp4aot_op op, fp4aot_global_scale_params const& p);
fp4aot_status check_buffers(fp4aot_op op, fp4aot_scale_layout_params const& p);
fp4aot_status check_buffers(fp4aot_op op, fp4aot_gemm_params const& p);
fp4aot_status check_buffers(fp4aot_op op, fp4aot_w4a16_weights_params const& p);
fp4aot_status check_buffers(fp4aot_op op, fp4aot_gemm_w4a16_params const& p);

// The debugging aid FP4AOT_CHECK_SCALES=1: contents of the scale buffers. The device is current. OK if it is off.
fp4aot_status check_scale_padding(fp4aot_op op, fp4aot_gemm_params const& p);

// Whether there is nothing to do: no rows.
inline bool is_empty(fp4aot_quantize_params const& p) { return p.rows == 0; }
inline bool is_empty(fp4aot_dequantize_params const& p) { return p.rows == 0; }
inline bool is_empty(fp4aot_global_scale_params const&) { return false; }  // writes 1
inline bool is_empty(fp4aot_scale_layout_params const& p) { return p.rows == 0; }
inline bool is_empty(fp4aot_gemm_params const& p) { return p.m == 0; }
inline bool is_empty(fp4aot_w4a16_weights_params const&) { return false; }
inline bool is_empty(fp4aot_gemm_w4a16_params const& p) { return p.m == 0; }

// An empty problem with a row, for what is asked of a slot without a launch: its rules may divide by sizes.
template <typename Params>
Params with_a_row(Params p) {
  if constexpr (std::is_same_v<Params, fp4aot_gemm_params> || std::is_same_v<Params, fp4aot_gemm_w4a16_params>) p.m = 1;
  return p;
}

}  // namespace fp4aot::core

#endif
