// One check of each kind, with its sentence. For checks*.cpp.
#ifndef FP4AOT_CORE_CHECKER_H_
#define FP4AOT_CORE_CHECKER_H_

#include "core/driver.h"
#include "core/error.h"
#include "core/switches.h"
#include "fp4aot/formats.h"
#include "images/image.h"

namespace fp4aot::core {

using Long = long long;

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

  void half_dtype(char const* name, int32_t value) {
    if (ok() && value != FP4AOT_BF16 && value != FP4AOT_FP16) {
      status_ = fail(FP4AOT_INVALID_ARGUMENT, "%s: %s = %d is not allowed; use FP4AOT_BF16 (1) or FP4AOT_FP16 (2).",
                     op_, name, value);
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
    if (ok() && pointer != nullptr && device_.type == FP4AOT_CUDA && switches.check_pointers) on_device(name, pointer);
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

inline constexpr size_t kScaleAlignment = 16;  // of a swizzled scale buffer
inline constexpr char const* kPadK = "Pad k with zeros.";
inline constexpr char const* kSwizzledShape = "swizzled: roundup(rows, 128) * roundup(k/vec, 4)";

inline void scales(Checker* check, char const* name, void const* pointer, int64_t bytes, int32_t layout, int64_t rows,
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
inline constexpr int64_t kMaxSize = int64_t{1} << 48;

inline void size(Checker* check, char const* name, int64_t value, int64_t minimum) {
  check->at_least(name, value, minimum);
  check->option(name, value, kMaxSize, "at most 2^48");
}

}  // namespace fp4aot::core

#endif
