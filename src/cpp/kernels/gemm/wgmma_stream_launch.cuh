// Launches the W4A4 kernel of wgmma_stream.cuh.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_STREAM_LAUNCH_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_STREAM_LAUNCH_CUH_

#include "device/launch.cuh"
#include "kernels/gemm/launch_blocks.h"
#include "kernels/gemm/wgmma_stream.cuh"

namespace fp4aot {

template <class Config>
cudaError_t prepare_wgmma_stream_gemm(int device) {
  static PreparedDevices prepared;
  return prepared.once(device, [] {
    return cudaFuncSetAttribute(wgmma_stream_gemm_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                Config::kMaxSharedBytes);
  });
}

// slices: of k, which make a cluster; 1..8.
template <class Config>
fp4aot_status run_wgmma_stream_gemm(fp4aot_gemm_params const& p, char const* op, int slices, Message* message) {
  cudaError_t const prepared = prepare_wgmma_stream_gemm<Config>(p.device.index);
  if (prepared != cudaSuccess)
    return gemm_failed(message, op, "cudaFuncSetAttribute", prepared, cudaGetErrorString(prepared));
  // Token tiles are the grid's third dimension, which is as large as its second may be.
  int64_t const max_m = std::min<int64_t>(kMaxLaunchM, kMaxGridY * Config::kTokens / kScaleAtomRows * kScaleAtomRows);
  return for_each_launch<Config::kFormat>(p, max_m, [&](fp4aot_gemm_params const& part) {
    WgmmaStreamArgs args = {};
    args.gemm = gemm_args(part);
    args.scale_block = round_up(part.k / kVector<Config::kFormat>, kScaleAtomColumns) * kScaleAtomRows;
    args.steps = static_cast<int32_t>((part.k + Config::kStep - 1) / Config::kStep);
    args.slice_steps = (args.steps + slices - 1) / slices;
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    config.attrs = attributes;
    if (slices > 1) {
      attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
      attributes[config.numAttrs++].val.clusterDim = {static_cast<unsigned>(slices), 1, 1};
    }
    if (part.flags & FP4AOT_FLAG_PDL) {
      attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    // All tiles of a row block, whose groups of 64 rows are not neighbours.
    int64_t const rows = round_up(part.n, std::max(Config::kRows, kScaleAtomRows));
    config.gridDim = dim3(static_cast<unsigned>(slices), static_cast<unsigned>(rows / Config::kRows),
                          static_cast<unsigned>((part.m + Config::kTokens - 1) / Config::kTokens));
    config.blockDim = dim3(Config::kThreads);
    config.dynamicSmemBytes = Config::shared_bytes(slices);
    config.stream = static_cast<cudaStream_t>(part.stream);
    void* arguments[] = {&args};
    cudaError_t const error =
        cudaLaunchKernelExC(&config, reinterpret_cast<void const*>(wgmma_stream_gemm_kernel<Config>), arguments);
    if (error == cudaSuccess) return FP4AOT_OK;
    return launch_failed({op, part.stream, part.flags, message}, error, config.gridDim, Config::kThreads,
                         config.dynamicSmemBytes);
  });
}

}  // namespace fp4aot

#endif
