// Registers fp4aot::* for CPU and CUDA. The ops have fakes in Python (fp4aot/torch_fakes.py).
#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "torch/call.h"

namespace fp4aot::torch_binding {

namespace {

using CurrentStream = AOTITorchError (*)(int32_t device_index, void** stream);

// The getter is in libtorch_cuda.so, which a CPU build of torch does not have, so it is no link-time dependency. Torch has
// loaded it by the time that a CUDA tensor exists; libtorch.so depends on it in builds that name it otherwise.
CurrentStream find_current_stream() {
  for (char const* library : {"libtorch_cuda.so", "libtorch.so"}) {
    void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    if (void* const symbol = dlsym(handle, "aoti_torch_get_current_cuda_stream")) {
      return reinterpret_cast<CurrentStream>(symbol);
    }
    dlclose(handle);
  }
  return nullptr;
}

}  // namespace

void* current_stream(fp4aot_device device) {
  if (device.type != FP4AOT_CUDA) return nullptr;
  static CurrentStream const get = find_current_stream();
  if (get == nullptr) {
    throw std::runtime_error(
        "fp4aot: a CUDA tensor was given, but this torch has no CUDA stream getter "
        "(aoti_torch_get_current_cuda_stream). Install a CUDA build of torch >= 2.10.");
  }
  void* stream = nullptr;
  if (get(device.index, &stream) != AOTI_TORCH_SUCCESS) {
    throw std::runtime_error("fp4aot: torch gave no current stream for " + device_text(device) + torch_error_text());
  }
  return stream;
}

void throw_status(fp4aot_status status) {
  std::string const message = fp4aot_last_error();
  if (status == FP4AOT_INVALID_ARGUMENT) throw std::invalid_argument(message);
  throw std::runtime_error(message);
}

}  // namespace fp4aot::torch_binding

namespace {

// CPU work runs on torch's threads: torch.set_num_threads holds, and there are no second threads that torch's, which spin
// between its ops, would keep from their cores.
void run_on_torch(void*, int64_t count, fp4aot_task task, void* context) {
  struct Tasks {
    fp4aot_task task;
    void* context;
  } tasks{task, context};
  auto const range = [](int64_t begin, int64_t end, void* given) {
    auto const* const t = static_cast<Tasks const*>(given);
    for (int64_t i = begin; i < end; ++i) t->task(t->context, i);
  };
  if (torch_parallel_for(0, count, 1, range, &tasks) != AOTI_TORCH_SUCCESS) range(0, count, &tasks);
}

int32_t torch_threads(void*) {
  uint32_t count = 1;
  return torch_get_num_threads(&count) == AOTI_TORCH_SUCCESS ? static_cast<int32_t>(count) : 1;
}

void implement(torch::stable::detail::StableLibrary& library) {
  fp4aot::torch_binding::implement_quantize(library);
  fp4aot::torch_binding::implement_scales(library);
  fp4aot::torch_binding::implement_gemm(library);
  fp4aot::torch_binding::implement_w4a16(library);
}

}  // namespace

STABLE_TORCH_LIBRARY(fp4aot, library) {
  fp4aot_executor const executor = {sizeof executor, run_on_torch, torch_threads, nullptr};
  fp4aot::torch_binding::check_status(fp4aot_set_cpu_executor(&executor));
  fp4aot::torch_binding::define_quantize(library);
  fp4aot::torch_binding::define_scales(library);
  fp4aot::torch_binding::define_gemm(library);
  fp4aot::torch_binding::define_w4a16(library);
}

STABLE_TORCH_LIBRARY_IMPL(fp4aot, CPU, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(fp4aot, CUDA, library) { implement(library); }

// Tensors that are not dense are refused by the reading of arguments, in a sentence instead of the dispatcher's pages.
STABLE_TORCH_LIBRARY_IMPL(fp4aot, SparseCPU, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(fp4aot, SparseCUDA, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(fp4aot, SparseCsrCPU, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(fp4aot, SparseCsrCUDA, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(fp4aot, MkldnnCPU, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(fp4aot, QuantizedCPU, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(fp4aot, QuantizedCUDA, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(fp4aot, AutogradNestedTensor, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(fp4aot, NestedTensorCPU, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(fp4aot, NestedTensorCUDA, library) { implement(library); }
