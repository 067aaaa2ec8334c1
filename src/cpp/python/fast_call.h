// A call of an op in front of torch's dispatcher. The dispatcher does much for an op: subclasses, modes, transforms,
// autograd, tracing, profiling. Where nothing of that is there to do, its argument parser and boxing take two thirds of a
// call's host time. So the functions here look whether that is so and whether the arguments are the common ones; if in
// doubt about anything, they do nothing and the call goes to the dispatcher, which also words every error.
#ifndef FP4AOT_PYTHON_FAST_CALL_H_
#define FP4AOT_PYTHON_FAST_CALL_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <cstdint>
#include <initializer_list>

#include "fp4aot/fp4aot.h"

namespace fp4aot::python {

enum class Type { kUint8, kE4m3, kUe8m0, kBf16, kFp16, kFp32 };

constexpr int kMaxDimensions = 8;
constexpr int64_t kMaxNumel = int64_t{1} << 56;  // no product or rounding of two sizes below overflows

// A dense tensor with at least one element, borrowed from the caller.
struct Operand {
  PyObject* object = nullptr;  // null: an optional one that was not given
  void* data;
  fp4aot_device device;
  Type type;
  int dimensions;
  int64_t numel;
  int64_t const *sizes, *strides;

  explicit operator bool() const { return object != nullptr; }
  bool is_on(fp4aot_device other) const { return device.type == other.type && device.index == other.index; }
  bool is_contiguous() const;
  bool is_scalar(fp4aot_device other) const { return is_on(other) && type == Type::kFp32 && numel == 1; }
  bool has_leading_shape(Operand const& like, int64_t last) const;
  // fp4aot_dtype, or 0
  int32_t float_dtype() const;
};

// Leading dimensions as rows: two dimensions with any row stride, or contiguous.
struct Rows {
  int64_t rows, columns, stride;
};
bool read_rows(Operand const& operand, Rows* rows);

// The arguments in the order of the op's schema; each function is false if the call must go to the dispatcher. An argument
// that the caller left out keeps the value given here.
class Arguments {
 public:
  Arguments(PyObject* const* values, Py_ssize_t count)
      : values_(values), end_(values + count), grad_mode_(aoti_torch_grad_mode_is_enabled()) {}

  bool tensor(Operand* operand);
  bool optional_tensor(Operand* operand);
  bool integer(int64_t* value);
  bool integer(int32_t* value);
  bool boolean(bool* value);
  bool real(double* value);
  bool at_end() const { return values_ == end_; }

 private:
  PyObject* const* values_;
  PyObject* const* end_;
  bool grad_mode_;
};

// A new tensor that is not yet a Python object.
class NewTensor {
 public:
  NewTensor() = default;
  NewTensor(NewTensor const&) = delete;
  NewTensor& operator=(NewTensor const&) = delete;
  ~NewTensor() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }

  bool allocate(int32_t dtype, int64_t const* sizes, int dimensions, fp4aot_device device);
  // Leading dimensions of `like`, then `last`.
  bool allocate_like(int32_t dtype, Operand const& like, int64_t last);
  void* data() const { return data_; }
  PyObject* to_python() const;  // a new reference, or null without a Python exception

 private:
  AtenTensorHandle handle_ = nullptr;
  void* data_ = nullptr;
};

// The time between is spent without Python's lock, as the dispatcher does: a launch may wait for room in the queue.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  WithoutLock(WithoutLock const&) = delete;
  WithoutLock& operator=(WithoutLock const&) = delete;
  ~WithoutLock() { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* state_;
};

// Sets struct_size, device, stream and flags.
bool current_stream(fp4aot_device device, void** stream);
template <typename Params>
bool make_params(fp4aot_device device, bool pdl, Params* params) {
  *params = {};
  params->struct_size = sizeof *params;
  params->device = device;
  if (pdl) params->flags = FP4AOT_FLAG_PDL;
  return current_stream(device, &params->stream);
}

// Tells autograd that these were written to. False with a Python exception.
bool increment_versions(std::initializer_list<Operand const*> written);

// An op: true with the result, or with null and a Python exception; false without one if the dispatcher is to do it.
using FastOp = bool (*)(Arguments& arguments, PyObject** result);

struct NamedOp {
  char const* name;
  FastOp run;
};
extern NamedOp const kGemmOps[4];
extern NamedOp const kW4a16Ops[4];
extern NamedOp const kQuantizeOps[10];

}  // namespace fp4aot::python

#endif
