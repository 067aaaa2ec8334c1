// Queues a kernel with clusters of CTAs along x: as launch() of device/launch.cuh does without them.
#ifndef FP4AOT_DEVICE_LAUNCH_CLUSTER_H_
#define FP4AOT_DEVICE_LAUNCH_CLUSTER_H_

#include "device/launch.cuh"

namespace fp4aot {

// `kernel` takes one Args, which may hold tensor maps; grid.x is a multiple of `ctas`, the size of a cluster.
template <class Args>
fp4aot_status launch_cluster(LaunchTarget const& target, void (*kernel)(Args), dim3 grid, dim3 block,
                             size_t shared_bytes, uint32_t ctas, Args const& args) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = ctas;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(target.stream);
  config.attrs = attributes;
  config.numAttrs = target.flags & FP4AOT_FLAG_PDL ? 2 : 1;
  void* arguments[] = {const_cast<Args*>(&args)};
  cudaError_t const error = cudaLaunchKernelExC(&config, reinterpret_cast<void const*>(kernel), arguments);
  if (error == cudaSuccess) return FP4AOT_OK;
  return launch_failed(target, error, grid, block.x * block.y * block.z, shared_bytes);
}

}  // namespace fp4aot

#endif
