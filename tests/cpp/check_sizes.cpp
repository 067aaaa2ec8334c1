// The checks of sizes, compiled to trap where arithmetic is undefined, with every combination of extreme values.
#include "core/checks.cpp"
#include "core/checks_w4a16.cpp"
#include "core/error.cpp"

#include <cstdio>

namespace fp4aot::core {
Switches const switches{};
PointerHome pointer_home(void const*, int*) { return PointerHome::kUnknown; }
}  // namespace fp4aot::core

extern "C" char const* fp4aot_op_name(fp4aot_op) { return "op"; }

namespace {

constexpr int64_t kValues[] = {INT64_MIN, -1, 0, 32, int64_t{1} << 48, int64_t{1} << 62, INT64_MAX};

// Calls check_sizes with every combination of values in the fields; counts those that pass.
template <typename Params>
int64_t passes(fp4aot_op op, Params& params) {
  return fp4aot::core::check_sizes(op, params) == FP4AOT_OK;
}

template <typename Params, typename... Fields>
int64_t passes(fp4aot_op op, Params& params, int64_t Params::* field, Fields... others) {
  int64_t count = 0;
  for (int64_t value : kValues) {
    params.*field = value;
    count += passes(op, params, others...);
  }
  return count;
}

}  // namespace

int main() {
  fp4aot_quantize_params quantize{};
  fp4aot_dequantize_params dequantize{};
  fp4aot_global_scale_params global_scale{};
  fp4aot_scale_layout_params layout{};
  fp4aot_gemm_params gemm{};
  fp4aot_w4a16_weights_params weights{};
  fp4aot_gemm_w4a16_params w4a16{};
  quantize.input_dtype = dequantize.output_dtype = global_scale.input_dtype = gemm.d_dtype = w4a16.d_dtype =
      FP4AOT_FP32;
  w4a16.a_dtype = FP4AOT_BF16;
  using Q = fp4aot_quantize_params;
  using D = fp4aot_dequantize_params;
  using G = fp4aot_gemm_params;
  using W = fp4aot_w4a16_weights_params;
  using P = fp4aot_gemm_w4a16_params;
  for (fp4aot_op op : {FP4AOT_OP_quantize_nvfp4, FP4AOT_OP_silu_mul_quantize_mxfp4, FP4AOT_OP_rmsnorm_quantize_nvfp4}) {
    std::printf("%ld ", static_cast<long>(passes(op, quantize, &Q::rows, &Q::k, &Q::input_stride, &Q::codes_stride)));
  }
  std::printf("%ld ", static_cast<long>(passes(FP4AOT_OP_dequantize_nvfp4, dequantize, &D::rows, &D::k,
                                               &D::codes_stride, &D::output_stride)));
  std::printf("%ld ",
              static_cast<long>(passes(FP4AOT_OP_nvfp4_global_scale, global_scale, &fp4aot_global_scale_params::rows,
                                       &fp4aot_global_scale_params::k, &fp4aot_global_scale_params::input_stride)));
  std::printf("%ld ", static_cast<long>(passes(FP4AOT_OP_swizzle_scales, layout, &fp4aot_scale_layout_params::rows,
                                               &fp4aot_scale_layout_params::columns,
                                               &fp4aot_scale_layout_params::linear_stride)));
  std::printf("%ld ", static_cast<long>(passes(FP4AOT_OP_gemm_nvfp4, gemm, &G::m, &G::n, &G::k, &G::a_stride,
                                               &G::b_stride, &G::d_stride)));
  for (int32_t scale_layout : {FP4AOT_SCALES_SWIZZLED, FP4AOT_SCALES_LINEAR}) {
    weights.scale_layout = scale_layout;
    std::printf("%ld ", static_cast<long>(passes(FP4AOT_OP_prepare_w4a16_nvfp4, weights, &W::n, &W::k, &W::codes_stride,
                                                 &W::scales_stride)));
  }
  std::printf("%ld\n", static_cast<long>(
                           passes(FP4AOT_OP_gemm_w4a16_mxfp4, w4a16, &P::m, &P::n, &P::k, &P::a_stride, &P::d_stride)));
  for (int64_t n : kValues) {
    for (int64_t k : kValues) {
      int64_t bytes = 0;
      fp4aot_w4a16_prepared_bytes(FP4AOT_OP_gemm_w4a16_nvfp4, n, k, &bytes);
    }
  }
}
