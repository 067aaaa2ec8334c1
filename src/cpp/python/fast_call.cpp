#include "python/fast_call.h"

#include <torch/headeronly/core/ScalarType.h>

#include "python/state.h"

namespace fp4aot::python {

namespace {

using torch::headeronly::ScalarType;

bool read_type(int32_t dtype, Type* type) {
  switch (static_cast<ScalarType>(dtype)) {
    case ScalarType::Byte:
      *type = Type::kUint8;
      return true;
    case ScalarType::Float8_e4m3fn:
      *type = Type::kE4m3;
      return true;
    case ScalarType::Float8_e8m0fnu:
      *type = Type::kUe8m0;
      return true;
    case ScalarType::BFloat16:
      *type = Type::kBf16;
      return true;
    case ScalarType::Half:
      *type = Type::kFp16;
      return true;
    case ScalarType::Float:
      *type = Type::kFp32;
      return true;
    default:
      return false;
  }
}

// False for a tensor without strides or memory, and on a device that is not ours.
bool read_handle(AtenTensorHandle handle, Operand* operand) {
  int32_t layout, dtype, device_type, device_index;
  int64_t dimensions, *sizes, *strides;
  if (aoti_torch_get_layout(handle, &layout) != AOTI_TORCH_SUCCESS || layout != aoti_torch_layout_strided() ||
      aoti_torch_get_dtype(handle, &dtype) != AOTI_TORCH_SUCCESS || !read_type(dtype, &operand->type) ||
      aoti_torch_get_device_type(handle, &device_type) != AOTI_TORCH_SUCCESS ||
      aoti_torch_get_device_index(handle, &device_index) != AOTI_TORCH_SUCCESS ||
      aoti_torch_get_dim(handle, &dimensions) != AOTI_TORCH_SUCCESS || dimensions > kMaxDimensions ||
      aoti_torch_get_sizes(handle, &sizes) != AOTI_TORCH_SUCCESS ||
      aoti_torch_get_strides(handle, &strides) != AOTI_TORCH_SUCCESS) {
    return false;
  }
  if (device_type == aoti_torch_device_type_cuda()) {
    operand->device = {FP4AOT_CUDA, device_index};
  } else if (device_type == aoti_torch_device_type_cpu()) {
    operand->device = {FP4AOT_CPU, 0};
  } else {
    return false;
  }
  operand->dimensions = static_cast<int>(dimensions);
  operand->sizes = sizes;
  operand->strides = strides;
  operand->numel = 1;
  for (int i = 0; i < operand->dimensions; ++i) {
    if (__builtin_mul_overflow(operand->numel, sizes[i], &operand->numel)) return false;
  }
  // Empty ones are rare, and a tensor that is not what it seems (functional, all zero) has no address.
  return operand->numel > 0 && operand->numel <= kMaxNumel &&
         aoti_torch_get_data_ptr(handle, &operand->data) == AOTI_TORCH_SUCCESS && operand->data != nullptr;
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
  AtenTensorHandle const handle = handle_of(object, state.tensor_offset);
  if (!read_handle(handle, operand)) return false;
  operand->object = object;
  if (state.is_negative(handle)) return false;
  return !grad_mode_ || operand->type == Type::kUint8 || !state.requires_grad(*reinterpret_cast<void**>(handle));
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
  if (device.type == FP4AOT_CUDA && state.empty_strided_cuda != nullptr) {
    auto const size = static_cast<size_t>(dimensions);
    Device const where = {static_cast<int8_t>(aoti_torch_device_type_cuda()), static_cast<int8_t>(device.index)};
    try {
      handle_ = reinterpret_cast<AtenTensorHandle>(new ReturnedTensor(
          state.empty_strided_cuda({sizes, size}, {strides, size}, static_cast<ScalarType>(dtype), where)));
    } catch (...) {  // the dispatcher will say why
      return false;
    }
  } else {
    int32_t const type = device.type == FP4AOT_CUDA ? aoti_torch_device_type_cuda() : aoti_torch_device_type_cpu();
    if (aoti_torch_empty_strided(dimensions, sizes, strides, dtype, type, device.index, &handle_) != AOTI_TORCH_SUCCESS)
      return false;
  }
  return aoti_torch_get_data_ptr(handle_, &data_) == AOTI_TORCH_SUCCESS;
}

bool NewTensor::allocate_like(int32_t dtype, Operand const& like, int64_t last) {
  int64_t sizes[kMaxDimensions];
  for (int i = 0; i + 1 < like.dimensions; ++i) sizes[i] = like.sizes[i];
  sizes[like.dimensions - 1] = last;
  return allocate(dtype, sizes, like.dimensions, like.device);
}

PyObject* NewTensor::to_python() const { return state.object_of(handle_); }

bool current_stream(fp4aot_device device, void** stream) {
  *stream = nullptr;
  if (device.type != FP4AOT_CUDA) return true;
  return state.current_stream != nullptr && state.current_stream(device.index, stream) == AOTI_TORCH_SUCCESS;
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
