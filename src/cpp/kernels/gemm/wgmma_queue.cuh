// Queues the kernel of wgmma.cuh: tensor maps, cluster and PDL attributes.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_QUEUE_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_QUEUE_CUH_

#include <cuda_runtime.h>

#include "device/launch.cuh"
#include "device/tensor_map.h"
#include "fp4aot/fp4aot.h"
#include "images/image.h"
#include "kernels/gemm/launch_blocks.h"
#include "kernels/gemm/wgmma.cuh"

namespace fp4aot {

template <class Config>
cudaError_t prepare_wgmma_gemm(int device) {
  static PreparedDevices prepared;
  return prepared.once(device, [] {
    cudaError_t const error = cudaFuncSetAttribute(wgmma_gemm_kernel<Config>,
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, Config::kSharedBytes);
    if (error != cudaSuccess) return error;
    return cudaFuncSetAttribute(wgmma_gemm_kernel<CutTiles<Config>>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                Config::kSharedBytes);
  });
}

// Whether its kernels can be launched on this device.
template <class Config>
fp4aot_status wgmma_gemm_ready(int device, char const* op, Message* message) {
  cudaError_t const error = prepare_wgmma_gemm<Config>(device);
  if (error != cudaSuccess) return gemm_failed(message, op, "cudaFuncSetAttribute", error, cudaGetErrorString(error));
  if (tensor_map_encode() == nullptr)
    return gemm_failed(message, op, "looking up cuTensorMapEncodeTiled", 0, "not in this driver");
  return FP4AOT_OK;
}

// args: all but how D is stored. cut: clusters may share tiles. maps: what encoding its tensor maps gave.
template <class Config>
fp4aot_status queue_wgmma_gemm(LaunchTarget const& target, WgmmaGemmArgs& args, bool cut, CUresult maps) {
  int64_t const d_row = (args.m > 1 ? args.d_stride : args.n) * 2;  // bytes; a single row's stride may be anything
  args.staged = args.d_dtype != FP4AOT_FP32 && rows_aligned(args.d, d_row, 16) && d_row < kMaxTensorMapStride;
  if (maps == CUDA_SUCCESS && args.staged) {
    maps = encode_rows(&args.d_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, args.d, args.m, args.n, d_row,
                       Config::kTokens / args.schedule.split, 64, CU_TENSOR_MAP_SWIZZLE_128B);
  }
  if (maps != CUDA_SUCCESS)
    return gemm_failed(target.message, target.op, "cuTensorMapEncodeTiled", maps, "sizes or strides too large");

  args.divisors = TileDivisors(args.schedule, Config::kTokens);
  args.pdl = (target.flags & FP4AOT_FLAG_PDL) != 0;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(args.schedule.ctas()), 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(args.schedule.clusters * args.schedule.ctas()));
  config.blockDim = dim3(Config::kThreads);
  config.dynamicSmemBytes = Config::kSharedBytes;
  config.stream = static_cast<cudaStream_t>(target.stream);
  config.attrs = attributes;
  config.numAttrs = args.pdl ? 2 : 1;
  cudaError_t const error =
      cudaLaunchKernelEx(&config, cut ? wgmma_gemm_kernel<CutTiles<Config>> : wgmma_gemm_kernel<Config>, args);
  if (error == cudaSuccess) return FP4AOT_OK;
  return launch_failed(target, error, config.gridDim, config.blockDim.x, config.dynamicSmemBytes);
}

}  // namespace fp4aot

#endif
