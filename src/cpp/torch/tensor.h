// A tensor argument or result of the torch binding, over torch's stable C shim. The metadata is read once; checks throw
// std::invalid_argument (ValueError in Python) with a sentence that says what was given, what is allowed and the fix.
#ifndef FP4AOT_TORCH_TENSOR_H_
#define FP4AOT_TORCH_TENSOR_H_

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <cstdint>
#include <string>
#include <utility>

#include "fp4aot/fp4aot.h"

namespace fp4aot::torch_binding {

constexpr int64_t kMaxDimensions = 64;            // torch has no limit; shapes are copied to arrays of this size
constexpr int64_t kMaxExtent = int64_t{1} << 60;  // rows, columns: their roundings and small multiples fit in int64

// What a scale tensor may hold. A uint8 tensor is taken as the right one.
enum class ScaleType { kE4m3, kUe8m0, kAny };

// Rows and columns of a tensor whose leading dimensions are one (no copy).
struct Matrix {
  int64_t rows, columns, stride;  // columns and stride in elements
};

class Tensor {
 public:
  Tensor() = default;
  // Steals the handle and does not throw: nothing may be asked of the tensor before read().
  Tensor(AtenTensorHandle handle, char const* op, char const* name) : handle_(handle), op_(op), name_(name) {}
  Tensor(Tensor&& other) noexcept { *this = std::move(other); }
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() { reset(); }

  // A new contiguous tensor; dtype is torch's number. Its shape is not kept: only numel, data and dtype may be asked.
  static Tensor empty(int32_t dtype, int64_t const* sizes, int64_t dimensions, fp4aot_device device, char const* op,
                      char const* name);

  void read();  // the metadata; throws for None and for what is not a dense tensor

  explicit operator bool() const { return handle_ != nullptr; }
  AtenTensorHandle release() { return std::exchange(handle_, nullptr); }

  int64_t dimensions() const { return dimensions_; }
  int64_t const* sizes() const { return sizes_; }
  int32_t dtype() const { return dtype_; }
  fp4aot_device device() const { return device_; }
  int64_t numel() const { return numel_; }
  void* data() const;

  template <typename T>
  T* data() const {
    return static_cast<T*>(data());
  }

  // Rank >= 1, last dimension contiguous, leading dimensions collapsible.
  Matrix matrix() const;

  int32_t float_dtype() const;  // fp4aot_dtype of bfloat16, float16, float32
  int32_t half_dtype() const;   // of bfloat16, float16
  void check_codes() const;     // uint8 or float4_e2m1fn_x2
  void check_scale_dtype(ScaleType type) const;
  void check_scales(ScaleType type) const;                        // dtype, contiguous
  void check_linear_scales(int64_t rows, int64_t columns) const;  // [*, columns] with those rows, or flat
  void check_float_scalar() const;                                // float32, one element
  void check_contiguous() const;
  void check_bytes() const;  // uint8, contiguous: prepared weights
  void check_shape(int64_t const* sizes, int64_t dimensions) const;
  void check_device(fp4aot_device expected) const;

  [[noreturn]] void fail(std::string const& message) const;

 private:
  void reset();
  std::string shape_text() const;

  AtenTensorHandle handle_ = nullptr;
  char const* op_ = "";
  char const* name_ = "";
  int64_t dimensions_ = 0, numel_ = 0;
  int64_t *sizes_ = nullptr, *strides_ = nullptr;
  int32_t dtype_ = 0;
  fp4aot_device device_ = {};
};

// The leading dimensions of `like` with another last dimension.
struct LeadingShape {
  int64_t sizes[kMaxDimensions];
  int64_t dimensions;

  LeadingShape(Tensor const& like, int64_t last) : dimensions(like.dimensions()) {
    for (int64_t i = 0; i + 1 < dimensions; ++i) sizes[i] = like.sizes()[i];
    sizes[dimensions - 1] = last;
  }
};

// torch's dtype numbers and names, and back. torch 2.10 has the dtypes but no shim getter for the last two.
int32_t torch_dtype_ue8m0();
int32_t torch_dtype_e2m1x2();
std::string dtype_text(int32_t dtype);
// Throws if it is not a float type of ours; `fix` ends the text.
int32_t float_dtype(int32_t torch_dtype, char const* op, char const* name, char const* fix = "");

std::string device_text(fp4aot_device device);

// torch's error text where the running torch can give it (2.13), else "".
std::string torch_error_text();

}  // namespace fp4aot::torch_binding

#endif
