// Launches the W4A4 kernel of wgmma.cuh: tensor maps, cluster and PDL attributes.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_LAUNCH_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_LAUNCH_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>

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

// Codes [rows, row_bytes] with boxes of box_rows x box_bytes; what a box has outside of the tensor is read as zero.
inline CUresult encode_codes(CUtensorMap* map, uint8_t const* codes, int64_t rows, int64_t row_bytes, int64_t stride,
                             uint32_t box_rows, uint32_t box_bytes, CUtensorMapSwizzle swizzle) {
  cuuint64_t const sizes[2] = {static_cast<cuuint64_t>(row_bytes), static_cast<cuuint64_t>(rows)};
  cuuint64_t const strides[1] = {static_cast<cuuint64_t>(stride)};
  cuuint32_t const box[2] = {box_bytes, box_rows};
  cuuint32_t const element_strides[2] = {1, 1};
  return tensor_map_encode()(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<uint8_t*>(codes), sizes, strides, box,
                             element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

template <class Config>
cudaError_t prepare_wgmma_gemm(int device) {
  static PreparedDevices prepared;
  return prepared.once(device, [] {
    return cudaFuncSetAttribute(wgmma_gemm_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                Config::kSharedBytes);
  });
}

// Swizzled scales as [row block][atom along k][128 words], with boxes of row_blocks x atoms whole atoms.
inline CUresult encode_scales(CUtensorMap* map, uint8_t const* scales, int64_t rows, int64_t atoms, uint32_t box_atoms,
                              uint32_t box_row_blocks) {
  cuuint64_t const sizes[3] = {kScaleAtomBytes / 4, static_cast<cuuint64_t>(atoms),
                               static_cast<cuuint64_t>((rows + kScaleAtomRows - 1) / kScaleAtomRows)};
  cuuint64_t const strides[2] = {kScaleAtomBytes, static_cast<cuuint64_t>(atoms) * kScaleAtomBytes};
  cuuint32_t const box[3] = {kScaleAtomBytes / 4, box_atoms, box_row_blocks};
  cuuint32_t const element_strides[3] = {1, 1, 1};
  return tensor_map_encode()(map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 3, const_cast<uint8_t*>(scales), sizes, strides, box,
                             element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// One launch: m and n at most kMaxLaunchM and kMaxLaunchN. sms: multiprocessors of the device.
template <class Config>
fp4aot_status launch_wgmma_gemm(fp4aot_gemm_params const& p, char const* op, int splits, int sms, Message* message) {
  cudaError_t error = prepare_wgmma_gemm<Config>(p.device.index);
  if (error != cudaSuccess) return gemm_failed(message, op, "cudaFuncSetAttribute", error, cudaGetErrorString(error));
  if (tensor_map_encode() == nullptr)
    return gemm_failed(message, op, "looking up cuTensorMapEncodeTiled", 0, "not in this driver");

  WgmmaGemmArgs args = {};
  static_cast<GemmArgs&>(args) = gemm_args(p);
  CUresult result = encode_codes(&args.a_map, p.a_codes, p.m, p.k / 2, p.a_stride, Config::kTokens, Config::kStepBytes,
                                 CU_TENSOR_MAP_SWIZZLE_64B);
  if (result == CUDA_SUCCESS) {
    result = encode_codes(&args.b_map, p.b_codes, p.n, p.k / 2, p.b_stride, Config::kRows, Config::kStepBytes,
                          CU_TENSOR_MAP_SWIZZLE_NONE);
  }
  int64_t const atoms = (p.k / kVector<Config::kFormat> + kScaleAtomColumns - 1) / kScaleAtomColumns;
  if (result == CUDA_SUCCESS) result = encode_scales(&args.a_scale_map, p.a_scales, p.m, atoms, Config::kAtoms, 1);
  if (result == CUDA_SUCCESS) result = encode_scales(&args.b_scale_map, p.b_scales, p.n, atoms, Config::kAtoms, 2);
  if (result != CUDA_SUCCESS)
    return gemm_failed(message, op, "cuTensorMapEncodeTiled", result, "sizes or strides too large");
  args.m_tiles = static_cast<int32_t>((p.m + Config::kTokens - 1) / Config::kTokens);
  args.n_tiles = static_cast<int32_t>((p.n + Config::kRows - 1) / Config::kRows);
  args.tiles = args.m_tiles * args.n_tiles;
  args.steps = static_cast<int32_t>((p.k + Config::kStepValues - 1) / Config::kStepValues);
  args.splits = splits;

  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (splits > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim = {static_cast<unsigned>(splits), 1, 1};
    ++count;
  }
  if (p.flags & FP4AOT_FLAG_PDL) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count].val.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  cudaLaunchConfig_t config = {};
  // Split tiles are one a cluster; others are taken in turn by as many CTAs as run at once.
  config.gridDim = dim3(static_cast<unsigned>(splits > 1 ? args.tiles * splits : std::min(args.tiles, sms)));
  config.blockDim = dim3(Config::kThreads);
  config.dynamicSmemBytes = Config::kSharedBytes;
  config.stream = static_cast<cudaStream_t>(p.stream);
  config.attrs = attributes;
  config.numAttrs = count;
  error = cudaLaunchKernelEx(&config, wgmma_gemm_kernel<Config>, args);
  if (error == cudaSuccess) return FP4AOT_OK;
  return launch_failed({op, p.stream, p.flags, message}, error, config.gridDim, config.blockDim.x,
                       config.dynamicSmemBytes);
}

template <class Config>
fp4aot_status run_wgmma_gemm(fp4aot_gemm_params const& p, char const* op, int splits, int sms, Message* message) {
  return for_each_launch<Config::kFormat>(p, kMaxLaunchM, [&](fp4aot_gemm_params const& part) {
    return launch_wgmma_gemm<Config>(part, op, splits, sms, message);
  });
}

}  // namespace fp4aot

#endif
