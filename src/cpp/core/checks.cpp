#include "core/checks.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/driver.h"
#include "fp4aot/formats.h"
#include "images/image.h"

namespace fp4aot::core {

namespace {

using Long = long long;

// FP4AOT_CHECK_POINTERS=1: ask the driver where each pointer of a CUDA call points.
bool const checks_pointers = [] {
  char const* const value = std::getenv("FP4AOT_CHECK_POINTERS");
  return value != nullptr && std::strcmp(value, "1") == 0;
}();

// Checks the arguments of one call; the first failure wins.
class Checker {
 public:
  Checker(fp4aot_op op, fp4aot_device device) : op_(fp4aot_op_name(op)), device_(device) {}

  bool ok() const { return status_ == FP4AOT_OK; }
  fp4aot_status status() const { return status_; }

  void at_least(char const* name, int64_t value, int64_t minimum) {
    if (ok() && value < minimum) {
      status_ = fail(FP4AOT_INVALID_ARGUMENT, "%s: %s = %lld is not allowed; it must be at least %lld.", op_, name,
                     static_cast<Long>(value), static_cast<Long>(minimum));
    }
  }

  void multiple(char const* name, int64_t value, int64_t of, char const* fix) {
    if (ok() && value % of != 0) {
      status_ = fail(FP4AOT_INVALID_ARGUMENT, "%s: %s = %lld is not allowed; it must be a multiple of %lld. %s", op_,
                     name, static_cast<Long>(value), static_cast<Long>(of), fix);
    }
  }

  void stride(char const* name, int64_t value, int64_t columns, int64_t rows, int64_t element_bytes) {
    if (!ok()) return;
    if (value < columns) {
      status_ = fail(FP4AOT_INVALID_ARGUMENT,
                     "%s: %s = %lld is not allowed; a row has %lld, so it must be at least that (rows may not "
                     "overlap). Pass a contiguous copy.",
                     op_, name, static_cast<Long>(value), static_cast<Long>(columns));
      return;
    }
    int64_t bytes = 0;
    if (__builtin_mul_overflow(value, rows, &bytes) || __builtin_mul_overflow(bytes, element_bytes, &bytes)) {
      status_ = fail(FP4AOT_INVALID_ARGUMENT, "%s: %lld rows with %s = %lld are more than 2^63 bytes.", op_,
                     static_cast<Long>(rows), name, static_cast<Long>(value));
    }
  }

  void dtype(char const* name, int32_t value) {
    if (ok() && (value < FP4AOT_BF16 || value > FP4AOT_FP32)) {
      status_ = fail(FP4AOT_INVALID_ARGUMENT,
                     "%s: %s = %d is not allowed; use FP4AOT_BF16 (1), FP4AOT_FP16 (2) or FP4AOT_FP32 (3).", op_, name,
                     value);
    }
  }

  void option(char const* name, int64_t value, int64_t maximum, char const* allowed) {
    if (ok() && (value < 0 || value > maximum)) {
      status_ = fail(FP4AOT_INVALID_ARGUMENT, "%s: %s = %lld is not allowed; use %s.", op_, name,
                     static_cast<Long>(value), allowed);
    }
  }

  void must_be_null(char const* name, void const* pointer, char const* why) {
    if (ok() && pointer != nullptr) {
      status_ = fail(FP4AOT_INVALID_ARGUMENT, "%s: %s was given, but %s. Pass NULL.", op_, name, why);
    }
  }

  void pointer(char const* name, void const* pointer, size_t alignment) {
    if (!ok()) return;
    if (pointer == nullptr) {
      status_ = fail(FP4AOT_INVALID_ARGUMENT, "%s: %s is NULL; it is required.", op_, name);
    } else {
      aligned(name, pointer, alignment);
    }
  }

  void aligned(char const* name, void const* pointer, size_t alignment) {
    if (ok() && reinterpret_cast<uintptr_t>(pointer) % alignment != 0) {
      status_ = fail(FP4AOT_INVALID_ARGUMENT,
                     "%s: %s = %p is misaligned; it must be a multiple of %zu bytes. Copy the view to a fresh buffer.",
                     op_, name, pointer, alignment);
    }
    if (ok() && pointer != nullptr && device_.type == FP4AOT_CUDA && checks_pointers) on_device(name, pointer);
  }

  void buffer(char const* name, int64_t bytes, int64_t needed, char const* shape) {
    if (ok() && bytes < needed) {
      status_ = fail(FP4AOT_INVALID_ARGUMENT, "%s: %s has %lld bytes; %lld are needed (%s).", op_, name,
                     static_cast<Long>(bytes), static_cast<Long>(needed), shape);
    }
  }

  void no_flags_but_pdl(uint32_t flags) {
    if (ok() && (flags & ~static_cast<uint32_t>(FP4AOT_FLAG_PDL)) != 0) {
      status_ =
          fail(FP4AOT_INVALID_ARGUMENT, "%s: flags = 0x%x has unknown bits; known: FP4AOT_FLAG_PDL (0x1).", op_, flags);
    }
  }

 private:
  void on_device(char const* name, void const* pointer) {
    int index = -1;
    PointerHome const home = pointer_home(pointer, &index);
    if (home == PointerHome::kDevice && index == device_.index) return;
    char const* const what = home == PointerHome::kUnknown
                                 ? "memory that CUDA does not know (freed, or pageable host memory)"
                             : home == PointerHome::kHost ? "host memory"
                                                          : "another device's memory";
    status_ = fail(FP4AOT_INVALID_ARGUMENT, "%s: %s = %p is %s; it must be in the memory of CUDA device %d.", op_, name,
                   pointer, what, device_.index);
  }

  char const* op_;
  fp4aot_device device_;
  fp4aot_status status_ = FP4AOT_OK;
};

bool is_mxfp4(fp4aot_op op) {
  return op == FP4AOT_OP_quantize_mxfp4 || op == FP4AOT_OP_silu_mul_quantize_mxfp4 ||
         op == FP4AOT_OP_dequantize_mxfp4 || op == FP4AOT_OP_gemm_mxfp4;
}

bool is_silu_mul(fp4aot_op op) {
  return op == FP4AOT_OP_silu_mul_quantize_nvfp4 || op == FP4AOT_OP_silu_mul_quantize_mxfp4;
}

bool is_rmsnorm(fp4aot_op op) { return op == FP4AOT_OP_rmsnorm_quantize_nvfp4; }

int64_t vector_of(fp4aot_op op) { return is_mxfp4(op) ? kMxfp4Vector : kNvfp4Vector; }

constexpr size_t kScaleAlignment = 16;  // of a swizzled scale buffer
constexpr char const* kPadK = "Pad k with zeros.";
constexpr char const* kSwizzledShape = "swizzled: roundup(rows, 128) * roundup(k/vec, 4)";

void scales(Checker* check, char const* name, void const* pointer, int64_t bytes, int32_t layout, int64_t rows,
            int64_t columns) {
  bool const swizzled = layout == FP4AOT_SCALES_SWIZZLED;
  check->pointer(name, pointer, swizzled ? kScaleAlignment : 1);
  // Each factor is at most 2^48, their product may be beyond int64; no buffer is.
  __int128 const product =
      swizzled ? static_cast<__int128>(round_up(rows, kScaleAtomRows)) * round_up(columns, kScaleAtomColumns)
               : static_cast<__int128>(rows) * columns;
  int64_t const needed = product < INT64_MAX ? static_cast<int64_t>(product) : INT64_MAX;
  check->buffer(name, bytes < INT64_MAX ? bytes : INT64_MAX - 1, needed,
                swizzled ? kSwizzledShape : "linear: rows * k/vec");
}

// The scale buffer's size must fit int64 too; codes are larger than scales, so their check covers a sane k.
constexpr int64_t kMaxSize = int64_t{1} << 48;

void size(Checker* check, char const* name, int64_t value, int64_t minimum) {
  check->at_least(name, value, minimum);
  check->option(name, value, kMaxSize, "at most 2^48");
}

}  // namespace

fp4aot_status check_sizes(fp4aot_op op, fp4aot_quantize_params const& p) {
  Checker check(op, p.device);
  check.no_flags_but_pdl(p.flags);
  check.dtype("input_dtype", p.input_dtype);
  size(&check, "rows", p.rows, 0);
  check.multiple("k", p.k, vector_of(op), kPadK);
  size(&check, "k", p.k, vector_of(op));
  int64_t const columns = is_silu_mul(op) ? 2 * p.k : p.k;
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
