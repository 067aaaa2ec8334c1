// The CUDA driver, opened at run time: core links to no CUDA library, and nothing here runs before a CUDA device is used.
#ifndef FP4AOT_CORE_DRIVER_H_
#define FP4AOT_CORE_DRIVER_H_

#include <cstddef>
#include <string>

#include "core/error.h"

namespace fp4aot::core {

using CudaContext = struct OpaqueCudaContext*;  // CUcontext

struct CudaDevice {
  int major, minor;     // compute capability
  std::string name;     // "NVIDIA H200"
  CudaContext primary;  // retained for the life of the process
};

// Initialises the driver (cuInit) once and looks the device up. Not fork-safe, as CUDA itself is not.
fp4aot_status open_cuda_device(int index, CudaDevice* device);

// The CUDA version the installed driver supports, as cuDriverGetVersion gives it (13000 = 13.0); 0 without a driver.
// Does not initialise the driver.
int driver_cuda_version();

// Where a pointer points, as the driver knows it: for FP4AOT_CHECK_POINTERS=1 (a debugging aid: about 0.1 us a pointer).
enum class PointerHome { kUnknown, kHost, kDevice };
PointerHome pointer_home(void const* pointer, int* device_index);

// For FP4AOT_CHECK_SCALES=1, with the device current. A capturing stream is not waited for.
fp4aot_status wait_for_stream(void* stream, bool* capturing);
fp4aot_status read_device_memory(void* host, void const* device, size_t bytes);

// Makes a context current for a scope, and restores what was there.
class ContextScope {
 public:
  explicit ContextScope(CudaContext context);  // null (the CPU): nothing to do
  ~ContextScope();
  ContextScope(ContextScope const&) = delete;
  ContextScope& operator=(ContextScope const&) = delete;
  fp4aot_status status() const { return status_; }

 private:
  bool pushed_ = false;
  fp4aot_status status_ = FP4AOT_OK;
};

}  // namespace fp4aot::core

#endif
