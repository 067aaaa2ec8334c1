// The extension module fp4aot._torch_fast, for the limited API: one binary for every Python. fp4aot/_fast_path.py uses it.
#include <cstring>

#include "python/fast_call.h"
#include "python/state.h"

namespace fp4aot::python {

namespace {

struct Bound {
  FastOp run;
  PyObject* dispatched;
};

PyObject* call(PyObject* self, PyObject* const* values, Py_ssize_t count) {
  auto const* const bound = static_cast<Bound const*>(PyCapsule_GetPointer(self, nullptr));
  if (nothing_to_dispatch()) {
    PyObject* result = nullptr;
    Arguments arguments(values, count);
    if (bound->run(arguments, &result)) return result;
  }
  PyObject* const tuple = PyTuple_New(count);
  if (tuple == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Py_INCREF(values[i]);
    PyTuple_SetItem(tuple, i, values[i]);
  }
  PyObject* const result = PyObject_Call(bound->dispatched, tuple, nullptr);
  Py_DECREF(tuple);
  return result;
}

template <size_t kCount>
NamedOp const* find(NamedOp const (&ops)[kCount], char const* name) {
  for (NamedOp const& op : ops) {
    if (std::strcmp(op.name, name) == 0) return &op;
  }
  return nullptr;
}

NamedOp const* find(char const* name) {
  NamedOp const* op = find(kGemmOps, name);
  if (op == nullptr) op = find(kW4a16Ops, name);
  if (op == nullptr) op = find(kQuantizeOps, name);
  return op;
}

void release(PyObject* capsule) {
  auto* const bound = static_cast<Bound*>(PyCapsule_GetPointer(capsule, nullptr));
  Py_DECREF(bound->dispatched);
  delete bound;
}

PyObject* bind(PyObject*, PyObject* arguments) {
  char const* name = nullptr;
  PyObject* dispatched = nullptr;
  if (!PyArg_ParseTuple(arguments, "sO", &name, &dispatched)) return nullptr;
  NamedOp const* const op = find(name);
  if (op == nullptr || state.tensor_type == nullptr) return Py_NewRef(dispatched);
  static PyMethodDef method = {"fast", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL,
                               nullptr};
  Py_INCREF(dispatched);
  PyObject* const capsule = PyCapsule_New(new Bound{op->run, dispatched}, nullptr, release);
  if (capsule == nullptr) return nullptr;
  PyObject* const function = PyCFunction_NewEx(&method, capsule, nullptr);
  Py_DECREF(capsule);
  return function;
}

PyObject* set_up(PyObject*, PyObject* arguments) {
  State made = {};
  if (!PyArg_ParseTuple(arguments, "OOO", &made.tensor_type, &made.parameter_type, &made.increment_version)) {
    return nullptr;
  }
  if (!find_functions(&made) || !find_tensor_offset(&made)) {
    PyErr_SetString(PyExc_NotImplementedError, "fp4aot: this torch has not what the fast path needs.");
    return nullptr;
  }
  for (PyObject* object : {made.tensor_type, made.parameter_type, made.increment_version}) Py_INCREF(object);
  state = made;
  Py_RETURN_NONE;
}

PyObject* accept_keys(PyObject*, PyObject*) {
  for (int i = 0; i < 2; ++i) state.inference_keys[i] = thread_keys()[i];
  Py_RETURN_NONE;
}

PyObject* is_quiet(PyObject*, PyObject*) { return PyBool_FromLong(nothing_to_dispatch()); }

PyMethodDef methods[] = {
    {"set_up", set_up, METH_VARARGS, "set_up(Tensor, Parameter, increment_version): once a process, and first."},
    {"accept_keys", accept_keys, METH_NOARGS, "The thread's dispatch keys are now those of inference mode."},
    {"is_quiet", is_quiet, METH_NOARGS, "Whether the dispatcher would do nothing now but call the kernel."},
    {"bind", bind, METH_VARARGS, "bind(name, dispatched): the op's fast function, or `dispatched` if it has none."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_torch_fast", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

}  // namespace fp4aot::python

PyMODINIT_FUNC PyInit__torch_fast() { return PyModule_Create(&fp4aot::python::module); }
