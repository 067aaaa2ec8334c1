#include "core/checks.h"

#include <cmath>

#include "core/checker.h"

namespace fp4aot::core {

namespace {

bool is_mxfp4(fp4aot_op op) {
  return op == FP4AOT_OP_quantize_mxfp4 || op == FP4AOT_OP_silu_mul_quantize_mxfp4 ||
         op == FP4AOT_OP_dequantize_mxfp4 || op == FP4AOT_OP_gemm_mxfp4;
}

bool is_silu_mul(fp4aot_op op) {
  return op == FP4AOT_OP_silu_mul_quantize_nvfp4 || op == FP4AOT_OP_silu_mul_quantize_mxfp4;
}

bool is_rmsnorm(fp4aot_op op) { return op == FP4AOT_OP_rmsnorm_quantize_nvfp4; }

int64_t vector_of(fp4aot_op op) { return is_mxfp4(op) ? kMxfp4Vector : kNvfp4Vector; }

}  // namespace

fp4aot_status check_sizes(fp4aot_op op, fp4aot_quantize_params const& p) {
  Checker check(op, p.device);
  check.no_flags_but_pdl(p.flags);
  check.dtype("input_dtype", p.input_dtype);
  size(&check, "rows", p.rows, 0);
  check.multiple("k", p.k, vector_of(op), kPadK);
  size(&check, "k", p.k, vector_of(op));
  int64_t const columns = is_silu_mul(op) && check.ok() ? 2 * p.k : p.k;  // of a k that is too large it would overflow
  check.stride("input_stride", p.input_stride, columns, p.rows, element_bytes(p.input_dtype));
  check.stride("codes_stride", p.codes_stride, p.k / 2, p.rows, 1);
  check.multiple("codes_stride", p.codes_stride, 8, "Use k/2, or a padded row.");
  check.option("scale_layout", p.scale_layout, FP4AOT_SCALES_LINEAR,
               "FP4AOT_SCALES_SWIZZLED (0) or FP4AOT_SCALES_LINEAR (1)");
  if (is_mxfp4(op)) {
    check.option("rounding", p.rounding, FP4AOT_ROUND_FLOOR, "FP4AOT_ROUND_CEIL (0) or FP4AOT_ROUND_FLOOR (1)");
    check.must_be_null("global_scale", p.global_scale, "MXFP4 has no global scale");
  } else {
    check.option("rounding", p.rounding, 0, "0 (it is an option of MXFP4)");
  }
  if (is_rmsnorm(op)) {
    if (p.residual != nullptr) {
      check.stride("residual_stride", p.residual_stride, p.k, p.rows, element_bytes(p.input_dtype));
    }
    if (check.ok() && !(p.epsilon >= 0.0f && std::isfinite(p.epsilon))) {
      return fail(FP4AOT_INVALID_ARGUMENT, "%s: epsilon = %g is not allowed; it must be finite and >= 0.",
                  fp4aot_op_name(op), static_cast<double>(p.epsilon));
    }
  } else {
    check.must_be_null("weight", p.weight, "only rmsnorm_quantize ops take it");
    check.must_be_null("residual", p.residual, "only rmsnorm_quantize ops take it");
  }
  return check.status();
}

fp4aot_status check_buffers(fp4aot_op op, fp4aot_quantize_params const& p) {
  Checker check(op, p.device);
  auto const element = static_cast<size_t>(element_bytes(p.input_dtype));
  check.pointer("input", p.input, element);
  check.aligned("global_scale", p.global_scale, sizeof(float));
  check.pointer("codes", p.codes, 8);
  scales(&check, "scales", p.scales, p.scales_bytes, p.scale_layout, p.rows, p.k / vector_of(op));
  if (is_rmsnorm(op)) {
    check.pointer("weight", p.weight, element);
    check.aligned("residual", p.residual, element);
  }
  return check.status();
}

fp4aot_status check_sizes(fp4aot_op op, fp4aot_dequantize_params const& p) {
  Checker check(op, p.device);
  check.no_flags_but_pdl(p.flags);
  check.dtype("output_dtype", p.output_dtype);
  size(&check, "rows", p.rows, 0);
  check.multiple("k", p.k, vector_of(op), kPadK);
  size(&check, "k", p.k, vector_of(op));
  check.stride("codes_stride", p.codes_stride, p.k / 2, p.rows, 1);
  check.multiple("codes_stride", p.codes_stride, 8, "Use k/2, or a padded row.");
  check.stride("output_stride", p.output_stride, p.k, p.rows, element_bytes(p.output_dtype));
  check.option("scale_layout", p.scale_layout, FP4AOT_SCALES_LINEAR,
               "FP4AOT_SCALES_SWIZZLED (0) or FP4AOT_SCALES_LINEAR (1)");
  check.option("reserved", p.reserved, 0, "0");
  if (is_mxfp4(op)) check.must_be_null("global_scale", p.global_scale, "MXFP4 has no global scale");
  return check.status();
}

fp4aot_status check_buffers(fp4aot_op op, fp4aot_dequantize_params const& p) {
  Checker check(op, p.device);
  check.pointer("codes", p.codes, 8);
  check.pointer("output", p.output, static_cast<size_t>(element_bytes(p.output_dtype)));
  check.aligned("global_scale", p.global_scale, sizeof(float));
  scales(&check, "scales", p.scales, p.scales_bytes, p.scale_layout, p.rows, p.k / vector_of(op));
  return check.status();
}

fp4aot_status check_sizes(fp4aot_op op, fp4aot_global_scale_params const& p) {
  Checker check(op, p.device);
  check.no_flags_but_pdl(p.flags);
  check.dtype("input_dtype", p.input_dtype);
  size(&check, "rows", p.rows, 0);
  size(&check, "k", p.k, 1);
  check.stride("input_stride", p.input_stride, p.k, p.rows, element_bytes(p.input_dtype));
  return check.status();
}

fp4aot_status check_buffers(fp4aot_op op, fp4aot_global_scale_params const& p) {
  Checker check(op, p.device);
  if (p.rows > 0) check.pointer("input", p.input, static_cast<size_t>(element_bytes(p.input_dtype)));
  check.pointer("global_scale", p.global_scale, sizeof(float));
  return check.status();
}

fp4aot_status check_sizes(fp4aot_op op, fp4aot_scale_layout_params const& p) {
  Checker check(op, p.device);
  check.no_flags_but_pdl(p.flags);
  check.option("reserved", p.reserved, 0, "0");
  size(&check, "rows", p.rows, 0);
  size(&check, "columns", p.columns, 1);
  check.stride("linear_stride", p.linear_stride, p.columns, p.rows, 1);
  return check.status();
}

fp4aot_status check_buffers(fp4aot_op op, fp4aot_scale_layout_params const& p) {
  Checker check(op, p.device);
  check.pointer("linear", p.linear, 1);
  scales(&check, "swizzled", p.swizzled, p.swizzled_bytes, FP4AOT_SCALES_SWIZZLED, p.rows, p.columns);
  return check.status();
}

fp4aot_status check_sizes(fp4aot_op op, fp4aot_gemm_params const& p) {
  Checker check(op, p.device);
  check.no_flags_but_pdl(p.flags);
  check.dtype("d_dtype", p.d_dtype);
  if (p.bias != nullptr) check.dtype("bias_dtype", p.bias_dtype);
  size(&check, "m", p.m, 0);
  check.multiple("k", p.k, 32, kPadK);
  check.multiple("n", p.n, 8, "Pad the weights with rows of zeros.");
  size(&check, "n", p.n, 8);
  size(&check, "k", p.k, 32);
  check.stride("a_stride", p.a_stride, p.k / 2, p.m, 1);
  check.stride("b_stride", p.b_stride, p.k / 2, p.n, 1);
  check.multiple("a_stride", p.a_stride, 16, "Copy the view to a fresh buffer.");
  check.multiple("b_stride", p.b_stride, 16, "Copy the view to a fresh buffer.");
  check.stride("d_stride", p.d_stride, p.n, p.m, element_bytes(p.d_dtype));
  return check.status();
}

fp4aot_status check_buffers(fp4aot_op op, fp4aot_gemm_params const& p) {
  Checker check(op, p.device);
  int64_t const columns = p.k / vector_of(op);
  check.pointer("a_codes", p.a_codes, 16);
  check.pointer("b_codes", p.b_codes, 16);
  scales(&check, "a_scales", p.a_scales, p.a_scales_bytes, FP4AOT_SCALES_SWIZZLED, p.m, columns);
  scales(&check, "b_scales", p.b_scales, p.b_scales_bytes, FP4AOT_SCALES_SWIZZLED, p.n, columns);
  check.aligned("alpha", p.alpha, sizeof(float));
  if (p.bias != nullptr) check.aligned("bias", p.bias, static_cast<size_t>(element_bytes(p.bias_dtype)));
  check.pointer("d", p.d, static_cast<size_t>(element_bytes(p.d_dtype)));
  return check.status();
}

}  // namespace fp4aot::core
