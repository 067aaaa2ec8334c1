#include "python/state.h"

#include <dlfcn.h>

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

bool find_functions(State* found) {
  void* const python = find_library("libtorch_python.so");
  void* const cpu = find_library("libtorch_cpu.so");
  found->c10 = find_library("libc10.so");
  void* keys = nullptr;
  return find(python, "_Z16THPVariable_WrapRKN2at10TensorBaseE", &found->wrap) &&
         find(cpu, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", &found->function_modes) &&
         find(cpu, "_ZN2at12hasCallbacksEv", &found->has_observers) && found->c10 != nullptr &&
         (keys = dlsym(found->c10, "_ZN3c104impl26raw_local_dispatch_key_setE")) != nullptr;
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
