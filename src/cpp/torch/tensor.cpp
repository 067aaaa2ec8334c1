#include "torch/tensor.h"

#include <torch/headeronly/core/ScalarType.h>

#include <iterator>
#include <stdexcept>

// In newer libtorch than the one this library targets: absent symbols are null at load time.
extern "C" {
__attribute__((weak)) int32_t torch_dtype_float8_e8m0fnu();
__attribute__((weak)) int32_t torch_dtype_float4_e2m1fn_x2();
__attribute__((weak)) char const* torch_exception_get_what_without_backtrace();
}

namespace fp4aot::torch_binding {

namespace {

void check(AOTITorchError error, char const* op, char const* what) {
  if (error != AOTI_TORCH_SUCCESS) {
    throw std::runtime_error(std::string(op) + ": torch could not " + what + torch_error_text());
  }
}

std::string sizes_text(int64_t const* sizes, int64_t dimensions) {
  std::string text = "[";
  for (int64_t i = 0; i < dimensions; ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

// What a tensor without shape and strides is.
char const* layout_text(AtenTensorHandle tensor) {
  int32_t layout = 0;
  if (aoti_torch_get_layout(tensor, &layout) != AOTI_TORCH_SUCCESS) return "no dense";
  if (layout == aoti_torch_layout_strided() || layout == aoti_torch_layout_jagged()) return "a nested";
  return layout == aoti_torch_layout__mkldnn() ? "an mkldnn" : "a sparse";
}

}  // namespace

std::string torch_error_text() {
  if (torch_exception_get_what_without_backtrace == nullptr) return "";
  char const* text = torch_exception_get_what_without_backtrace();
  return text == nullptr || *text == '\0' ? "" : std::string(": ") + text;
}

int32_t torch_dtype_ue8m0() {
  static int32_t const dtype = torch_dtype_float8_e8m0fnu != nullptr
                                   ? torch_dtype_float8_e8m0fnu()
                                   : static_cast<int32_t>(torch::headeronly::ScalarType::Float8_e8m0fnu);
  return dtype;
}

int32_t torch_dtype_e2m1x2() {
  static int32_t const dtype = torch_dtype_float4_e2m1fn_x2 != nullptr
                                   ? torch_dtype_float4_e2m1fn_x2()
                                   : static_cast<int32_t>(torch::headeronly::ScalarType::Float4_e2m1fn_x2);
  return dtype;
}

std::string dtype_text(int32_t dtype) {
  // By torch's number, which its file formats fix.
  static char const* const names[] = {"uint8",
                                      "int8",
                                      "int16",
                                      "int32",
                                      "int64",
                                      "float16",
                                      "float32",
                                      "float64",
                                      "complex32",
                                      "complex64",
                                      "complex128",
                                      "bool",
                                      "qint8",
                                      "quint8",
                                      "qint32",
                                      "bfloat16",
                                      "quint4x2",
                                      "quint2x4",
                                      "bits1x8",
                                      "bits2x4",
                                      "bits4x2",
                                      "bits8",
                                      "bits16",
                                      "float8_e5m2",
                                      "float8_e4m3fn",
                                      "float8_e5m2fnuz",
                                      "float8_e4m3fnuz",
                                      "uint16",
                                      "uint32",
                                      "uint64",
                                      "uint1",
                                      "uint2",
                                      "uint3",
                                      "uint4",
                                      "uint5",
                                      "uint6",
                                      "uint7",
                                      "int1",
                                      "int2",
                                      "int3",
                                      "int4",
                                      "int5",
                                      "int6",
                                      "int7",
                                      "float8_e8m0fnu",
                                      "float4_e2m1fn_x2"};
  if (dtype >= 0 && dtype < static_cast<int32_t>(std::size(names))) return std::string("torch.") + names[dtype];
  return "torch dtype number " + std::to_string(dtype);
}

std::string device_text(fp4aot_device device) {
  if (device.type == FP4AOT_CPU) return "cpu";
  return "cuda:" + std::to_string(device.index);
}

int32_t float_dtype(int32_t torch_dtype, char const* op, char const* name, char const* fix) {
  if (torch_dtype == aoti_torch_dtype_bfloat16()) return FP4AOT_BF16;
  if (torch_dtype == aoti_torch_dtype_float16()) return FP4AOT_FP16;
  if (torch_dtype == aoti_torch_dtype_float32()) return FP4AOT_FP32;
  throw std::invalid_argument(std::string(op) + ": " + name + " is " + dtype_text(torch_dtype) +
                              "; allowed are torch.bfloat16, torch.float16 and torch.float32." + fix);
}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  reset();
  handle_ = std::exchange(other.handle_, nullptr);
  op_ = other.op_;
  name_ = other.name_;
  dimensions_ = other.dimensions_;
  numel_ = other.numel_;
  sizes_ = other.sizes_;
  strides_ = other.strides_;
  dtype_ = other.dtype_;
  device_ = other.device_;
  return *this;
}

void Tensor::reset() {
  if (handle_ != nullptr) aoti_torch_delete_tensor_object(std::exchange(handle_, nullptr));
}

Tensor Tensor::empty(int32_t dtype, int64_t const* sizes, int64_t dimensions, fp4aot_device device, char const* op,
                     char const* name) {
  Tensor tensor(nullptr, op, name);
  int64_t strides[kMaxDimensions];
  int64_t stride = 1, numel = 1;
  for (int64_t i = dimensions - 1; i >= 0; --i) {
    strides[i] = stride;
    if (__builtin_mul_overflow(numel, sizes[i], &numel) ||
        __builtin_mul_overflow(stride, sizes[i] > 1 ? sizes[i] : 1, &stride)) {
      tensor.fail("of shape " + sizes_text(sizes, dimensions) + " would be too large.");
    }
  }
  int32_t const type = device.type == FP4AOT_CUDA ? aoti_torch_device_type_cuda() : aoti_torch_device_type_cpu();
  tensor.dimensions_ = dimensions;
  tensor.numel_ = numel;
  tensor.dtype_ = dtype;
  tensor.device_ = device;
  check(aoti_torch_empty_strided(dimensions, sizes, strides, dtype, type, device.index, &tensor.handle_), op,
        "allocate an output or workspace");
  return tensor;
}

void Tensor::read() {
  bool defined = false;
  if (aoti_torch_is_defined(handle_, &defined) != AOTI_TORCH_SUCCESS || !defined) fail("is None; it is required.");
  int32_t type = 0;
  bool const ok = aoti_torch_get_dim(handle_, &dimensions_) == AOTI_TORCH_SUCCESS &&
                  aoti_torch_get_numel(handle_, &numel_) == AOTI_TORCH_SUCCESS &&
                  aoti_torch_get_sizes(handle_, &sizes_) == AOTI_TORCH_SUCCESS &&
                  aoti_torch_get_strides(handle_, &strides_) == AOTI_TORCH_SUCCESS &&
                  aoti_torch_get_dtype(handle_, &dtype_) == AOTI_TORCH_SUCCESS &&
                  aoti_torch_get_device_type(handle_, &type) == AOTI_TORCH_SUCCESS &&
                  aoti_torch_get_device_index(handle_, &device_.index) == AOTI_TORCH_SUCCESS;
  int32_t layout = 0;  // torch gives some tensors strides that mean nothing
  if (!ok || aoti_torch_get_layout(handle_, &layout) != AOTI_TORCH_SUCCESS || layout != aoti_torch_layout_strided()) {
    std::string const reason = ok ? "" : torch_error_text();
    fail(std::string("is ") + layout_text(handle_) + " tensor; pass a dense (strided) one, such as .to_dense() gives" +
         (reason.empty() ? "." : " (torch says" + reason + ")."));
  }
  if (dimensions_ > kMaxDimensions) {
    fail("has " + std::to_string(dimensions_) + " dimensions; at most " + std::to_string(kMaxDimensions) +
         ". Reshape it to [rows, columns].");
  }
  device_.type = type == aoti_torch_device_type_cuda() ? FP4AOT_CUDA : FP4AOT_CPU;
  if (device_.type == FP4AOT_CPU) device_.index = 0;  // torch says -1
}

void* Tensor::data() const {
  void* pointer = nullptr;
  if (handle_ != nullptr) check(aoti_torch_get_data_ptr(handle_, &pointer), op_, "give a tensor's address");
  return pointer;
}

std::string Tensor::shape_text() const { return sizes_text(sizes_, dimensions_); }

void Tensor::fail(std::string const& message) const {
  throw std::invalid_argument(std::string(op_) + ": " + name_ + " " + message);
}

Matrix Tensor::matrix() const {
  if (dimensions_ < 1) fail("is a scalar; it must have at least one dimension, [rows, columns].");
  int64_t const last = dimensions_ - 1;
  Matrix matrix{1, sizes_[last], sizes_[last]};
  if (strides_[last] != 1 && sizes_[last] > 1 && numel_ > 0) {  // an empty tensor may have any strides
    fail("has stride " + std::to_string(strides_[last]) + " in its last dimension (shape " + shape_text() +
         "); it must be 1. Pass a copy: .contiguous().");
  }
  if (sizes_[last] > kMaxExtent) fail("of shape " + shape_text() + " has too many columns; at most 2^60.");
  bool empty = false;
  for (int64_t i = 0; i < last; ++i) empty |= sizes_[i] == 0;
  if (empty) return {0, matrix.columns, matrix.columns};
  bool first = true;
  int64_t expected = 0;  // the stride that makes the next dimension part of the same run of rows
  for (int64_t i = last - 1; i >= 0; --i) {
    if (sizes_[i] == 1) continue;
    if (first) {
      matrix.stride = strides_[i];
      first = false;
    } else if (strides_[i] != expected) {
      fail("of shape " + shape_text() + " and strides " + sizes_text(strides_, dimensions_) +
           " cannot be seen as [rows, columns] without a copy. Pass .contiguous() or .reshape(-1, " +
           std::to_string(sizes_[last]) + ").");
    }
    expected = strides_[i] * sizes_[i];
    if (__builtin_mul_overflow(matrix.rows, sizes_[i], &matrix.rows) || matrix.rows > kMaxExtent) {
      fail("of shape " + shape_text() + " has too many rows; at most 2^60.");
    }
  }
  return matrix;
}

namespace {

bool is_quantised(int32_t dtype) {
  using torch::headeronly::ScalarType;
  for (ScalarType type : {ScalarType::QInt8, ScalarType::QUInt8, ScalarType::QInt32}) {
    if (dtype == static_cast<int32_t>(type)) return true;
  }
  return false;
}

}  // namespace

int32_t Tensor::float_dtype() const {
  return torch_binding::float_dtype(
      dtype_, op_, name_, is_quantised(dtype_) ? " Convert it: .dequantize()." : " Convert it: .to(torch.bfloat16).");
}

int32_t Tensor::half_dtype() const {
  if (dtype_ == aoti_torch_dtype_bfloat16()) return FP4AOT_BF16;
  if (dtype_ == aoti_torch_dtype_float16()) return FP4AOT_FP16;
  fail("is " + dtype_text(dtype_) + "; allowed are torch.bfloat16 and torch.float16. Convert it: " +
       (is_quantised(dtype_) ? ".dequantize()." : ".to(torch.bfloat16)."));
}

void Tensor::check_codes() const {
  if (dtype_ == aoti_torch_dtype_uint8() || dtype_ == torch_dtype_e2m1x2()) return;
  fail("holds FP4 codes, two in a byte, and must be torch.uint8 or torch.float4_e2m1fn_x2; it is " +
       dtype_text(dtype_) + ". Quantise it first (quantize_nvfp4, quantize_mxfp4).");
}

void Tensor::check_contiguous() const {
  if (numel_ == 0) return;
  int64_t expected = 1;
  for (int64_t i = dimensions_ - 1; i >= 0; --i) {
    if (sizes_[i] != 1 && strides_[i] != expected) {
      fail("of shape " + shape_text() + " and strides " + sizes_text(strides_, dimensions_) +
           " must be contiguous. Pass a copy: .contiguous().");
    }
    expected *= sizes_[i];
  }
}

void Tensor::check_bytes() const {
  if (dtype_ != aoti_torch_dtype_uint8()) {
    fail("holds prepared weights and must be torch.uint8; it is " + dtype_text(dtype_) +
         ". Prepare them first (prepare_w4a16_weights).");
  }
  check_contiguous();
}

void Tensor::check_scale_dtype(ScaleType type) const {
  bool const e4m3 = dtype_ == aoti_torch_dtype_float8_e4m3fn(), ue8m0 = dtype_ == torch_dtype_ue8m0();
  bool const allowed =
      dtype_ == aoti_torch_dtype_uint8() || (e4m3 && type != ScaleType::kUe8m0) || (ue8m0 && type != ScaleType::kE4m3);
  if (!allowed) {
    bool const nvfp4 = type == ScaleType::kE4m3;
    if (type == ScaleType::kAny) {
      fail("is " + dtype_text(dtype_) +
           "; block scales are torch.float8_e4m3fn (NVFP4), torch.float8_e8m0fnu (MXFP4) or the same bytes as "
           "torch.uint8.");
    }
    fail("is " + dtype_text(dtype_) + "; " +
         (nvfp4 ? "NVFP4 scales are torch.float8_e4m3fn" : "MXFP4 scales are torch.float8_e8m0fnu") +
         " (or the same bytes as torch.uint8)." +
         (e4m3 || ue8m0 ? std::string(" These are scales of the other format: use the ") + (nvfp4 ? "mxfp4" : "nvfp4") +
                              " op, or quantise again."
                        : std::string()));
  }
}

void Tensor::check_scales(ScaleType type) const {
  check_scale_dtype(type);
  check_contiguous();
}

void Tensor::check_linear_scales(int64_t rows, int64_t columns) const {
  // Flat buffers are the C ABI's to measure, and so is what is too short, whatever its shape.
  if (dimensions_ == 1 || static_cast<__int128>(rows) * columns > numel_) return;
  if (dimensions_ > 1 && sizes_[dimensions_ - 1] == columns && matrix().rows == rows) return;
  fail("has shape " + shape_text() + "; linear scales are [*, K/block], here " + std::to_string(rows) + " rows of " +
       std::to_string(columns) + ", or a flat buffer. For scales in the tensor cores' order pass " +
       "scale_layout=\"swizzled\".");
}

void Tensor::check_float_scalar() const {
  if (dtype_ == aoti_torch_dtype_float32() && numel() == 1) return;
  fail("must be one float32 value, a tensor of one element on the same device; it is " + dtype_text(dtype_) +
       " of shape " + shape_text() + ".");
}

void Tensor::check_shape(int64_t const* sizes, int64_t dimensions) const {
  bool same = dimensions == dimensions_;
  for (int64_t i = 0; same && i < dimensions; ++i) same = sizes[i] == sizes_[i];
  if (!same) fail("has shape " + shape_text() + "; it must be " + sizes_text(sizes, dimensions) + ".");
}

void Tensor::check_device(fp4aot_device expected) const {
  if (device_.type == expected.type && device_.index == expected.index) return;
  std::string const where = device_text(expected);
  fail("is on " + device_text(device_) + ", but the first tensor is on " + where +
       ". All tensors must be on one device: pass .to(\"" + where + "\").");
}

}  // namespace fp4aot::torch_binding
