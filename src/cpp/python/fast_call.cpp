#include "python/fast_call.h"

#include <torch/headeronly/core/ScalarType.h>

#include "python/state.h"

namespace fp4aot::python {

namespace {

// DLPack's numbers.
constexpr int kInt = 1, kFloat = 2, kBfloat = 4, kFloat8E4m3fn = 10, kFloat8E8m0fnu = 14;

bool read_type(DlpackTensor const& tensor, Type* type) {
  if (tensor.lanes != 1) return false;
  switch (tensor.type_code << 8 | tensor.bits) {
    case kInt << 8 | 8:
      *type = Type::kUint8;
      return true;
    case kFloat8E4m3fn << 8 | 8:
      *type = Type::kE4m3;
      return true;
    case kFloat8E8m0fnu << 8 | 8:
      *type = Type::kUe8m0;
      return true;
    case kBfloat << 8 | 16:
      *type = Type::kBf16;
      return true;
    case kFloat << 8 | 16:
      *type = Type::kFp16;
      return true;
    case kFloat << 8 | 32:
      *type = Type::kFp32;
      return true;
    default:
      return false;
  }
}

// True if the answer is False; else, an exception included, false.
bool is_false(PyObject* answer) {
  bool const result = answer == Py_False;
  if (answer == nullptr) PyErr_Clear();
  Py_XDECREF(answer);
  return result;
}

}  // namespace

bool Operand::is_contiguous() const {
  int64_t expected = 1;
  for (int i = dimensions - 1; i >= 0; --i) {
    if (sizes[i] != 1 && strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

bool Operand::has_leading_shape(Operand const& like, int64_t last) const {
  if (dimensions != like.dimensions || sizes[dimensions - 1] != last) return false;
  for (int i = 0; i + 1 < dimensions; ++i) {
    if (sizes[i] != like.sizes[i]) return false;
  }
  return true;
}

int32_t Operand::float_dtype() const {
  switch (type) {
    case Type::kBf16:
      return FP4AOT_BF16;
    case Type::kFp16:
      return FP4AOT_FP16;
    case Type::kFp32:
      return FP4AOT_FP32;
    default:
      return 0;
  }
}

bool read_rows(Operand const& operand, Rows* rows) {
  int const last = operand.dimensions - 1;
  if (last < 0) return false;
  rows->columns = rows->stride = operand.sizes[last];
  rows->rows = operand.numel / rows->columns;
  if (operand.is_contiguous()) return true;
  if (last != 1 || operand.strides[1] != 1) return false;
  rows->stride = operand.strides[0];
  return true;
}

bool Arguments::tensor(Operand* operand) {
  if (at_end()) return false;
  PyObject* const object = *values_++;
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type != state.tensor_type && type != state.parameter_type) return false;
  DlpackTensor tensor;
  if (state.exchange->borrow(object, &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  if (!read_type(tensor, &operand->type) || tensor.dimensions > kMaxDimensions) return false;
  if (tensor.device_type != FP4AOT_CUDA && (tensor.device_type != FP4AOT_CPU || tensor.device_index != 0)) return false;
  operand->object = object;
  operand->data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  operand->device = {tensor.device_type, tensor.device_index};
  operand->dimensions = tensor.dimensions;
  operand->sizes = tensor.sizes;
  operand->strides = tensor.strides;
  operand->numel = 1;
  for (int i = 0; i < tensor.dimensions; ++i) {
    if (__builtin_mul_overflow(operand->numel, tensor.sizes[i], &operand->numel)) return false;
  }
  // Empty ones are rare, and a tensor that is not what it seems (functional, all zero) has no address.
  if (operand->numel <= 0 || operand->numel > kMaxNumel || tensor.data == nullptr) return false;
  if (grad_mode_ && operand->type != Type::kUint8 &&
      !is_false(state.get_attribute(state.requires_grad, object, type))) {
    return false;
  }
  // The imaginary part of a conjugate is stored with the other sign.
  bool const part_of_complex = operand->type == Type::kFp32 || operand->type == Type::kFp16;
  return !part_of_complex || is_false(PyObject_CallFunctionObjArgs(state.is_neg, object, nullptr));
}

bool Arguments::optional_tensor(Operand* operand) {
  if (at_end()) return true;
  if (*values_ == Py_None) {
    ++values_;
    return true;
  }
  return tensor(operand);
}

bool Arguments::integer(int64_t* value) {
  if (at_end()) return true;
  PyObject* const object = *values_++;
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  *value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0;
}

bool Arguments::integer(int32_t* value) {
  int64_t wide = *value;
  if (!integer(&wide)) return false;
  *value = static_cast<int32_t>(wide);
  return *value == wide;
}

bool Arguments::boolean(bool* value) {
  if (at_end()) return true;
  PyObject* const object = *values_++;
  *value = object == Py_True;
  return object == Py_True || object == Py_False;
}

bool Arguments::real(double* value) {
  if (at_end()) return true;
  PyObject* const object = *values_++;
  if (!PyFloat_CheckExact(object)) return false;
  *value = PyFloat_AsDouble(object);
  return true;
}

bool NewTensor::allocate(int32_t dtype, int64_t const* sizes, int dimensions, fp4aot_device device) {
  int64_t strides[kMaxDimensions];
  int64_t stride = 1;
  for (int i = dimensions - 1; i >= 0; --i) {
    strides[i] = stride;
    if (sizes[i] <= 0 || __builtin_mul_overflow(stride, sizes[i], &stride) || stride > kMaxNumel) return false;
  }
  int32_t const type = device.type == FP4AOT_CUDA ? aoti_torch_device_type_cuda() : aoti_torch_device_type_cpu();
  return aoti_torch_empty_strided(dimensions, sizes, strides, dtype, type, device.index, &handle_) ==
             AOTI_TORCH_SUCCESS &&
         aoti_torch_get_data_ptr(handle_, &data_) == AOTI_TORCH_SUCCESS;
}

bool NewTensor::allocate_like(int32_t dtype, Operand const& like, int64_t last) {
  int64_t sizes[kMaxDimensions];
  for (int i = 0; i + 1 < like.dimensions; ++i) sizes[i] = like.sizes[i];
  sizes[like.dimensions - 1] = last;
  return allocate(dtype, sizes, like.dimensions, like.device);
}

PyObject* NewTensor::to_python() const {
  PyObject* object = nullptr;
  try {
    object = state.wrap(handle_);
  } catch (...) {
  }
  if (object == nullptr) PyErr_Clear();
  return object;
}

bool current_stream(fp4aot_device device, void** stream) {
  *stream = nullptr;
  if (device.type != FP4AOT_CUDA) return true;
  if (state.exchange->current_stream(device.type, device.index, stream) == 0) return true;
  PyErr_Clear();
  return false;
}

bool increment_versions(std::initializer_list<Operand const*> written) {
  Py_ssize_t count = 0;
  for (Operand const* operand : written) count += *operand ? 1 : 0;
  PyObject* const tuple = PyTuple_New(count);
  if (tuple == nullptr) return false;
  Py_ssize_t i = 0;
  for (Operand const* operand : written) {
    if (!*operand) continue;
    Py_INCREF(operand->object);
    PyTuple_SetItem(tuple, i++, operand->object);
  }
  PyObject* const result = PyObject_CallFunctionObjArgs(state.increment_version, tuple, nullptr);
  Py_DECREF(tuple);
  Py_XDECREF(result);
  return result != nullptr;
}

}  // namespace fp4aot::python
