// Registers fp4aot::* for CPU and CUDA. The ops have fakes in Python (fp4aot/torch_fakes.py).
#include <stdexcept>
#include <string>

#include "torch/call.h"

// In libtorch_cuda, which a CPU build of torch does not have: null there, and then no CUDA tensor reaches us.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);

namespace fp4aot::torch_binding {

void* current_stream(fp4aot_device device) {
  if (device.type != FP4AOT_CUDA) return nullptr;
  void* stream = nullptr;
  if (aoti_torch_get_current_cuda_stream == nullptr ||
      aoti_torch_get_current_cuda_stream(device.index, &stream) != AOTI_TORCH_SUCCESS) {
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

void implement(torch::stable::detail::StableLibrary& library) {
  fp4aot::torch_binding::implement_quantize(library);
  fp4aot::torch_binding::implement_scales(library);
  fp4aot::torch_binding::implement_gemm(library);
}

}  // namespace

STABLE_TORCH_LIBRARY(fp4aot, library) {
  fp4aot::torch_binding::define_quantize(library);
  fp4aot::torch_binding::define_scales(library);
  fp4aot::torch_binding::define_gemm(library);
}

STABLE_TORCH_LIBRARY_IMPL(fp4aot, CPU, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(fp4aot, CUDA, library) { implement(library); }
