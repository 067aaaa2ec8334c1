// Checks of the W4A16 ops, and the size of prepared weights.
#include "core/checker.h"
#include "core/checks.h"
#include "fp4aot/w4a16_layout.h"

namespace fp4aot::core {

namespace {

constexpr size_t kPreparedAlignment = 16;

bool is_w4a16(fp4aot_op op) { return op >= FP4AOT_OP_prepare_w4a16_nvfp4 && op <= FP4AOT_OP_gemm_w4a16_mxfp4; }

Format format_of(fp4aot_op op) {
  bool const mxfp4 =
      op == FP4AOT_OP_prepare_w4a16_mxfp4 || op == FP4AOT_OP_restore_w4a16_mxfp4 || op == FP4AOT_OP_gemm_w4a16_mxfp4;
  return mxfp4 ? Format::kMxfp4 : Format::kNvfp4;
}

void weights_size(Checker* check, fp4aot_op op, int64_t n, int64_t k) {
  int64_t const vector = w4a16_vector(format_of(op));
  check->multiple("n", n, 8, "Pad the weights with rows of zeros.");
  size(check, "n", n, 8);
  check->multiple("k", k, vector, kPadK);
  size(check, "k", k, vector);
  if (!check->ok()) return;
  // n and k are at most 2^48 here.
  __int128 const bytes = static_cast<__int128>(w4a16_row_tiles(n)) * w4a16_k_tiles(k) * w4a16_tile_bytes(format_of(op));
  if (bytes > INT64_MAX) check->option("n", n, INT64_MAX / k, "weights of less than 2^63 bytes");
}

void prepared_buffer(Checker* check, fp4aot_op op, uint8_t const* prepared, int64_t bytes, int64_t n, int64_t k) {
  check->pointer("prepared", prepared, kPreparedAlignment);
  check->buffer("prepared", bytes, w4a16_prepared_bytes(format_of(op), n, k), "fp4aot_w4a16_prepared_bytes");
}

}  // namespace

fp4aot_status check_sizes(fp4aot_op op, fp4aot_w4a16_weights_params const& p) {
  Checker check(op, p.device);
  check.no_flags_but_pdl(p.flags);
  check.option("scale_layout", p.scale_layout, FP4AOT_SCALES_LINEAR,
               "FP4AOT_SCALES_SWIZZLED (0) or FP4AOT_SCALES_LINEAR (1)");
  weights_size(&check, op, p.n, p.k);
  check.stride("codes_stride", p.codes_stride, p.k / 2, p.n, 1);
  check.multiple("codes_stride", p.codes_stride, 8, "Use k/2, or a padded row.");
  if (p.scale_layout == FP4AOT_SCALES_LINEAR) {
    check.stride("scales_stride", p.scales_stride, p.k / w4a16_vector(format_of(op)), p.n, 1);
  } else {
    check.option("scales_stride", p.scales_stride, 0, "0 (it is for linear scales)");
  }
  return check.status();
}

fp4aot_status check_buffers(fp4aot_op op, fp4aot_w4a16_weights_params const& p) {
  Checker check(op, p.device);
  int64_t const columns = p.k / w4a16_vector(format_of(op));
  check.pointer("codes", p.codes, 8);
  if (p.scale_layout == FP4AOT_SCALES_LINEAR) {
    check.pointer("scales", p.scales, 1);
    check.buffer("scales", p.scales_bytes, (p.n - 1) * p.scales_stride + columns,
                 "linear: (n - 1) * scales_stride + k/vec");
  } else {
    scales(&check, "scales", p.scales, p.scales_bytes, p.scale_layout, p.n, columns);
  }
  prepared_buffer(&check, op, p.prepared, p.prepared_bytes, p.n, p.k);
  return check.status();
}

fp4aot_status check_sizes(fp4aot_op op, fp4aot_gemm_w4a16_params const& p) {
  Checker check(op, p.device);
  check.no_flags_but_pdl(p.flags);
  check.option("reserved", p.reserved, 0, "0");
  check.half_dtype("a_dtype", p.a_dtype);
  check.dtype("d_dtype", p.d_dtype);
  if (p.bias != nullptr) check.dtype("bias_dtype", p.bias_dtype);
  size(&check, "m", p.m, 0);
  weights_size(&check, op, p.n, p.k);
  check.stride("a_stride", p.a_stride, p.k, p.m, element_bytes(p.a_dtype));
  check.multiple("a_stride", p.a_stride, 8, "Copy the view to a fresh buffer.");
  check.stride("d_stride", p.d_stride, p.n, p.m, element_bytes(p.d_dtype));
  return check.status();
}

fp4aot_status check_buffers(fp4aot_op op, fp4aot_gemm_w4a16_params const& p) {
  Checker check(op, p.device);
  check.pointer("a", p.a, 16);
  prepared_buffer(&check, op, p.prepared, p.prepared_bytes, p.n, p.k);
  check.aligned("alpha", p.alpha, sizeof(float));
  if (p.bias != nullptr) check.aligned("bias", p.bias, static_cast<size_t>(element_bytes(p.bias_dtype)));
  check.pointer("d", p.d, static_cast<size_t>(element_bytes(p.d_dtype)));
  return check.status();
}

}  // namespace fp4aot::core

extern "C" fp4aot_status fp4aot_w4a16_prepared_bytes(fp4aot_op op, int64_t n, int64_t k, int64_t* bytes) {
  using namespace fp4aot::core;
  if (bytes == nullptr) return fail(FP4AOT_INVALID_ARGUMENT, "fp4aot_w4a16_prepared_bytes: bytes is NULL.");
  if (!is_w4a16(op)) {
    return fail(FP4AOT_INVALID_ARGUMENT,
                "fp4aot_w4a16_prepared_bytes: op = %d is not allowed; use an op with w4a16 in its name (%d..%d).",
                static_cast<int>(op), FP4AOT_OP_prepare_w4a16_nvfp4, FP4AOT_OP_gemm_w4a16_mxfp4);
  }
  Checker check(op, {FP4AOT_CPU, 0});
  weights_size(&check, op, n, k);
  if (check.ok()) *bytes = fp4aot::w4a16_prepared_bytes(format_of(op), n, k);
  return check.status();
}
