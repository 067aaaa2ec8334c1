// Queues the kernel of wgmma.cuh: tensor maps, cluster and PDL attributes.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_QUEUE_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_QUEUE_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include "device/launch.cuh"
#include "fp4aot/fp4aot.h"
#include "images/image.h"
#include "kernels/gemm/launch_blocks.h"
#include "kernels/gemm/wgmma.cuh"

namespace fp4aot {

using TensorMapEncode = decltype(&cuTensorMapEncodeTiled);

// From the driver that is loaded, so that the image does not link to it. Null if the driver has none.
inline TensorMapEncode tensor_map_encode() {
  static TensorMapEncode const function = [] {
    void* pointer = nullptr;
    cudaDriverEntryPointQueryResult result;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &pointer, 12000, cudaEnableDefault, &result) !=
        cudaSuccess) {
      (void)cudaGetLastError();
      return TensorMapEncode{};
    }
    return reinterpret_cast<TensorMapEncode>(result == cudaDriverEntryPointSuccess ? pointer : nullptr);
  }();
  return function;
}

constexpr int64_t kMaxTensorMapStride = int64_t{1} << 40;  // bytes, and less

// A matrix [rows, columns] with boxes of box_rows x box_columns; what a box has outside of the tensor is read as zero and
// not written. stride: bytes.
inline CUresult encode_rows(CUtensorMap* map, CUtensorMapDataType type, void const* data, int64_t rows, int64_t columns,
                            int64_t stride, uint32_t box_rows, uint32_t box_columns, CUtensorMapSwizzle swizzle) {
  cuuint64_t const sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  cuuint64_t const strides[1] = {static_cast<cuuint64_t>(stride)};
  cuuint32_t const box[2] = {box_columns, box_rows};
  cuuint32_t const element_strides[2] = {1, 1};
  return tensor_map_encode()(map, type, 2, const_cast<void*>(data), sizes, strides, box, element_strides,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

template <class Config>
cudaError_t prepare_wgmma_gemm(int device) {
  static PreparedDevices prepared;
  return prepared.once(device, [] {
    return cudaFuncSetAttribute(wgmma_gemm_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                Config::kSharedBytes);
  });
}

// Whether the kernel can be launched on this device.
template <class Config>
fp4aot_status wgmma_gemm_ready(int device, char const* op, Message* message) {
  cudaError_t const error = prepare_wgmma_gemm<Config>(device);
  if (error != cudaSuccess) return gemm_failed(message, op, "cudaFuncSetAttribute", error, cudaGetErrorString(error));
  if (tensor_map_encode() == nullptr)
    return gemm_failed(message, op, "looking up cuTensorMapEncodeTiled", 0, "not in this driver");
  return FP4AOT_OK;
}

// args: all but how D is stored. maps: what encoding its tensor maps gave.
template <class Config>
fp4aot_status queue_wgmma_gemm(LaunchTarget const& target, WgmmaGemmArgs& args, CUresult maps) {
  int64_t const d_row = (args.m > 1 ? args.d_stride : args.n) * 2;  // bytes; a single row's stride may be anything
  args.staged = args.d_dtype != FP4AOT_FP32 && rows_aligned(args.d, d_row, 16) && d_row < kMaxTensorMapStride;
  if (maps == CUDA_SUCCESS && args.staged) {
    maps = encode_rows(&args.d_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, args.d, args.m, args.n, d_row, Config::kTokens, 64,
                       CU_TENSOR_MAP_SWIZZLE_128B);
  }
  if (maps != CUDA_SUCCESS)
    return gemm_failed(target.message, target.op, "cuTensorMapEncodeTiled", maps, "sizes or strides too large");

  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(args.schedule.pair), 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(args.schedule.clusters * args.schedule.pair));
  config.blockDim = dim3(Config::kThreads);
  config.dynamicSmemBytes = Config::kSharedBytes;
  config.stream = static_cast<cudaStream_t>(target.stream);
  config.attrs = attributes;
  config.numAttrs = target.flags & FP4AOT_FLAG_PDL ? 2 : 1;
  cudaError_t const error = cudaLaunchKernelEx(&config, wgmma_gemm_kernel<Config>, args);
  if (error == cudaSuccess) return FP4AOT_OK;
  return launch_failed(target, error, config.gridDim, config.blockDim.x, config.dynamicSmemBytes);
}

}  // namespace fp4aot

#endif
