// What the fast path holds of the torch in this process, set once.
#ifndef FP4AOT_PYTHON_STATE_H_
#define FP4AOT_PYTHON_STATE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <cstdint>

#include "python/dlpack_exchange.h"

namespace fp4aot::python {

struct State {
  DlpackExchange const* exchange = nullptr;  // null: not set up
  PyObject *tensor_type, *parameter_type;
  PyObject *requires_grad, *is_neg, *increment_version;
  descrgetfunc get_attribute;  // of requires_grad
  // Functions that every C++ extension of torch calls, not part of its stable ABI: looked up by their mangled names, which
  // say what they take, so that a torch that changes them has no fast path instead of a wrong one.
  PyObject* (*wrap)(AtenTensorHandle);  // THPVariable_Wrap: the Python object of a tensor
  int64_t (*function_modes)();          // how many of torch's function modes are active
  bool (*has_observers)();              // whether something (a profiler) wants to see the ops
  // c10's dispatch keys of this thread, included and excluded, as differences to the usual ones: zero is the usual state.
  // Dispatch modes, functorch's transforms, tracers, autocast and inference mode show here.
  void* c10;
  uint64_t inference_keys[2];
};

extern State state;

// Looks up the functions of torch; false if it has them not.
bool find_functions(State* found);

// This thread's two words of dispatch keys.
uint64_t const* thread_keys();

// Whether an op on plain tensors is just its kernel now.
bool nothing_to_dispatch();

}  // namespace fp4aot::python

#endif
