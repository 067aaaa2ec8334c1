// What the fast path holds of the torch in this process, set once.
#ifndef FP4AOT_PYTHON_STATE_H_
#define FP4AOT_PYTHON_STATE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <optional>

namespace fp4aot::python {

// As c10 lays them out.
struct ArrayRef {
  int64_t const* data;
  size_t size;
};
struct Device {
  int8_t type, index;
};

// at::Tensor as a function returns it: through memory of the caller, since it has a destructor. Made by `new`, its address
// is what the stable ABI calls a handle, and deletes.
struct ReturnedTensor {
  void* implementation;
  ReturnedTensor(ReturnedTensor const&) = delete;
  ~ReturnedTensor() {}
};

struct State {
  PyObject *tensor_type, *parameter_type;  // null: not set up
  PyObject* increment_version;
  Py_ssize_t tensor_offset;  // in the Python object of a tensor, of its at::Tensor: what the stable ABI calls a handle
  // Functions that every C++ extension of torch calls, not part of its stable ABI: looked up by their mangled names, which
  // say what they take, so that a torch that changes them has no fast path instead of a wrong one.
  PyObject* (*wrap)(AtenTensorHandle);    // THPVariable_Wrap: the Python object of a tensor
  int64_t (*function_modes)();            // how many of torch's function modes are active
  bool (*has_observers)();                // whether something (a profiler) wants to see the ops
  bool (*is_negative)(AtenTensorHandle);  // at::native::is_neg: whether the memory holds the other sign
  bool (*requires_grad)(void const*);     // c10::TensorImpl::requires_grad
  AOTITorchError (*current_stream)(int32_t device_index, void** stream);  // null: without CUDA
  // at::detail::empty_strided_cuda, where the dispatcher's empty_strided ends up, at half the time. Null: without CUDA.
  ReturnedTensor (*empty_strided_cuda)(ArrayRef sizes, ArrayRef strides, torch::headeronly::ScalarType,
                                       std::optional<Device>);
  // c10's dispatch keys of this thread, included and excluded, as differences to the usual ones: zero is the usual state.
  // Dispatch modes, functorch's transforms, tracers, autocast and inference mode show here.
  void* c10;
  uint64_t inference_keys[2];

  // The Python object of a tensor; null, without an error, if none can be made.
  PyObject* object_of(AtenTensorHandle tensor) const;
};

extern State state;

// Looks up the functions of torch; false if it has them not.
bool find_functions(State* found);

// Finds where Python objects of `tensor_type` hold their at::Tensor, by looking at some; false if no one place fits all.
bool find_tensor_offset(State* found);

inline AtenTensorHandle handle_of(PyObject* tensor, Py_ssize_t offset) {
  return reinterpret_cast<AtenTensorHandle>(reinterpret_cast<char*>(tensor) + offset);
}

// This thread's two words of dispatch keys.
uint64_t const* thread_keys();

// Whether an op on plain tensors is just its kernel now.
bool nothing_to_dispatch();

}  // namespace fp4aot::python

#endif
