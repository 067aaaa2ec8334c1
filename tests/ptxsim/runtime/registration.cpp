// The calls that nvcc puts into every object: at load time it registers its kernels, at each <<<...>>> it asks for them.
#include <vector>

#include "runtime/launch.h"
#include "runtime/state.h"

using ptxsim::State;

namespace {

struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<CallConfiguration> configurations;

}  // namespace

extern "C" {

// The handle is the address of the registered data, which lies in the library that it belongs to.
void** __cudaRegisterFatBinary(void* fat_binary) { return static_cast<void**>(fat_binary); }
void __cudaRegisterFatBinaryEnd(void**) {}
// The process ends: kernels stay known until then, as another library's destructor may still call.
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** handle, char const* stub, char*, char const* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  PTXSIM_LOCKED;
  State::get().register_kernel(handle, stub, name);
}

// Device variables are known to the PTX alone: symbols cannot be copied to or from (cudaMemcpyToSymbol is not here).
void __cudaRegisterVar(void**, char*, char*, char const*, int, size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, CUstream_st* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  if (configurations.empty()) return State::get().fail(cudaErrorMissingConfiguration);
  CallConfiguration const top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, void const* stub) {
  PTXSIM_LOCKED;
  auto* const found = State::get().find_kernel(stub);
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return found != nullptr ? cudaSuccess : State::get().fail(cudaErrorInvalidDeviceFunction);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return ptxsim::launch(config, kernel, arguments);
}

}  // extern "C"
