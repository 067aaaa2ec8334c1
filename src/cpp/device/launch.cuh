// Queues a kernel and reports a refusal. Never allocates or synchronises, and works under stream capture.
#ifndef FP4AOT_DEVICE_LAUNCH_CUH_
#define FP4AOT_DEVICE_LAUNCH_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdio>

#include "fp4aot/fp4aot.h"
#include "images/image.h"

namespace fp4aot {

// f(T{}), T being the type of a fp4aot_dtype.
template <class F>
auto with_element_type(int32_t dtype, F const& f) {
  switch (dtype) {
    case FP4AOT_BF16:
      return f(__nv_bfloat16{});
    case FP4AOT_FP16:
      return f(__half{});
    default:
      return f(float{});
  }
}

struct LaunchTarget {
  char const* op;  // for messages
  void* stream;
  uint32_t flags;  // FP4AOT_FLAG_*
  Message* message;
};

inline fp4aot_status launch_failed(LaunchTarget const& target, cudaError_t error, dim3 grid, unsigned threads,
                                   size_t shared_bytes) {
  (void)cudaGetLastError();  // leave no error behind for the caller's next CUDA call
  std::snprintf(target.message->text, sizeof target.message->text,
                "%s: the CUDA runtime refused the launch with %s (%s); grid %u x %u x %u, %u threads, %zu bytes of "
                "dynamic shared memory",
                target.op, cudaGetErrorName(error), cudaGetErrorString(error), grid.x, grid.y, grid.z, threads,
                shared_bytes);
  return FP4AOT_LAUNCH_FAILED;
}

constexpr int64_t kMaxGridX = 0x7FFFFFFF, kMaxGridY = 65535;

// `kernel` is a __global__ function that takes one Args by value.
template <class Args>
fp4aot_status launch(LaunchTarget const& target, void const* kernel, dim3 grid, unsigned threads, Args args,
                     size_t shared_bytes = 0) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(target.stream);
  config.attrs = &attribute;
  config.numAttrs = target.flags & FP4AOT_FLAG_PDL ? 1 : 0;
  void* arguments[] = {&args};
  cudaError_t const error = cudaLaunchKernelExC(&config, kernel, arguments);
  return error == cudaSuccess ? FP4AOT_OK : launch_failed(target, error, grid, threads, shared_bytes);
}

// Loads a lazily loaded kernel on the current device now.
inline void preload_kernel(void const* kernel) {
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) (void)cudaGetLastError();  // the launch will tell
}

}  // namespace fp4aot

#endif
