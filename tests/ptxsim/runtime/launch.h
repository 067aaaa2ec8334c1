// A kernel launch of the runtime: checks of cudaLaunchKernelExC, then the device's queue.
#ifndef PTXSIM_RUNTIME_LAUNCH_H_
#define PTXSIM_RUNTIME_LAUNCH_H_

#include <cuda_runtime_api.h>

namespace ptxsim {

// `function`: host stub or cudaKernel_t. Refuses what the real runtime refuses, with its error.
cudaError_t launch(cudaLaunchConfig_t const& config, void const* function, void** arguments);

}  // namespace ptxsim

#endif
