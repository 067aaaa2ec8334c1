#include "python/state.h"

#include <dlfcn.h>

#include <cstring>

namespace fp4aot::python {

namespace {

void* find_library(char const* name) { return dlopen(name, RTLD_LAZY | RTLD_NOLOAD); }

template <typename Function>
bool find(void* library, char const* name, Function** function) {
  *function = library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

State state;

PyObject* State::object_of(AtenTensorHandle tensor) const {
  PyObject* object = nullptr;
  try {
    object = wrap(tensor);
  } catch (...) {
  }
  if (object == nullptr) PyErr_Clear();
  return object;
}

bool find_functions(State* found) {
  void* const python = find_library("libtorch_python.so");
  void* const cpu = find_library("libtorch_cpu.so");
  found->c10 = find_library("libc10.so");
  void* cuda = find_library("libtorch_cuda.so");
  if (cuda == nullptr) cuda = find_library("libtorch.so");  // depends on it in builds that name it otherwise
  find(cuda, "aoti_torch_get_current_cuda_stream", &found->current_stream);
  find(cuda, "_ZN2at6detail18empty_strided_cudaEN3c108ArrayRefIlEES3_NS1_10ScalarTypeESt8optionalINS1_6DeviceEE",
       &found->empty_strided_cuda);
  void* keys = nullptr;
  return find(python, "_Z16THPVariable_WrapRKN2at10TensorBaseE", &found->wrap) &&
         find(cpu, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", &found->function_modes) &&
         find(cpu, "_ZN2at12hasCallbacksEv", &found->has_observers) && found->c10 != nullptr &&
         find(cpu, "_ZN2at6native6is_negERKNS_6TensorE", &found->is_negative) &&
         find(found->c10, "_ZNK3c1010TensorImpl13requires_gradEv", &found->requires_grad) &&
         (keys = dlsym(found->c10, "_ZN3c104impl26raw_local_dispatch_key_setE")) != nullptr;
}

bool find_tensor_offset(State* found) {
  PyObject* const size = PyObject_GetAttrString(found->tensor_type, "__basicsize__");
  Py_ssize_t const bytes = size == nullptr ? 0 : PyLong_AsSsize_t(size);
  Py_XDECREF(size);
  constexpr Py_ssize_t kWord = sizeof(void*);
  constexpr int kTensors = 3;
  bool fits[64] = {};  // words of the object
  auto const words = bytes / kWord < 64 ? bytes / kWord : 64;
  for (Py_ssize_t i = sizeof(PyObject) / kWord; i < words; ++i) fits[i] = true;
  AtenTensorHandle handles[kTensors] = {};
  PyObject* objects[kTensors] = {};
  bool made = PyErr_Occurred() == nullptr;
  for (int t = 0; t < kTensors && made; ++t) {  // all alive at once, so that no two are at one address
    int64_t const one = 1;
    made = aoti_torch_empty_strided(1, &one, &one, aoti_torch_dtype_float32(), aoti_torch_device_type_cpu(), 0,
                                    &handles[t]) == AOTI_TORCH_SUCCESS;
    if (made) objects[t] = found->object_of(handles[t]);
    made = made && objects[t] != nullptr && reinterpret_cast<PyObject*>(Py_TYPE(objects[t])) == found->tensor_type;
    for (Py_ssize_t i = 0; i < words && made; ++i) {
      fits[i] = fits[i] && std::memcmp(handle_of(objects[t], i * kWord), handles[t], kWord) == 0;
    }
  }
  for (int t = 0; t < kTensors; ++t) {
    Py_XDECREF(objects[t]);
    if (handles[t] != nullptr) aoti_torch_delete_tensor_object(handles[t]);
  }
  PyErr_Clear();
  int places = 0;
  for (Py_ssize_t i = 0; i < words; ++i) {
    if (!fits[i]) continue;
    found->tensor_offset = i * kWord;
    ++places;
  }
  return made && places == 1;
}

uint64_t const* thread_keys() {
  // Of a thread-local symbol, dlsym gives the calling thread's copy.
  thread_local auto const* const keys =
      static_cast<uint64_t const*>(dlsym(state.c10, "_ZN3c104impl26raw_local_dispatch_key_setE"));
  return keys;
}

bool nothing_to_dispatch() {
  uint64_t const* const keys = thread_keys();
  bool const usual =
      (keys[0] | keys[1]) == 0 || (keys[0] == state.inference_keys[0] && keys[1] == state.inference_keys[1]);
  return usual && state.function_modes() == 0 && !state.has_observers();
}

}  // namespace fp4aot::python
