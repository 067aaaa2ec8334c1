// Launches the W4A4 kernel of wgmma.cuh: tensor maps, problems beyond its int32 sizes, cluster and PDL attributes.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_LAUNCH_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_LAUNCH_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "device/launch.cuh"
#include "device/memory.cuh"
#include "fp4aot/fp4aot.h"
#include "images/image.h"
#include "kernels/gemm/wgmma.cuh"

namespace fp4aot {

// Rows of A and of B in one launch: multiples of every tile and of a scale atom, and few enough to count tiles in int32.
constexpr int64_t kMaxLaunchM = int64_t{1} << 23, kMaxLaunchN = int64_t{1} << 18;
constexpr int kMaxSplits = 8;  // the largest portable cluster

inline fp4aot_status gemm_failed(Message* message, char const* op, char const* what, int error, char const* name) {
  (void)cudaGetLastError();  // leave no error behind for the caller's next CUDA call
  std::snprintf(message->text, sizeof message->text, "%s: %s failed with error %d (%s)", op, what, error, name);
  return FP4AOT_LAUNCH_FAILED;
}

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
                             element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// Once a device: the kernel's shared memory limit. Repeating it is harmless, so a race of two threads is too.
template <class Config>
cudaError_t prepare_wgmma_gemm(int device) {
  static std::atomic<uint64_t> prepared{0};
  uint64_t const bit = device < 64 ? uint64_t{1} << device : 0;
  if ((prepared.load(std::memory_order_acquire) & bit) != 0) return cudaSuccess;
  cudaError_t const error = cudaFuncSetAttribute(wgmma_gemm_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 Config::kSharedBytes);
  if (error == cudaSuccess) prepared.fetch_or(bit, std::memory_order_release);
  return error;
}

// One launch: m and n at most kMaxLaunchM and kMaxLaunchN. sms: multiprocessors of the device.
template <class Config>
fp4aot_status launch_wgmma_gemm(fp4aot_gemm_params const& p, char const* op, int splits, int sms, Message* message) {
  cudaError_t error = prepare_wgmma_gemm<Config>(p.device.index);
  if (error != cudaSuccess) return gemm_failed(message, op, "cudaFuncSetAttribute", error, cudaGetErrorString(error));
  if (tensor_map_encode() == nullptr) return gemm_failed(message, op, "looking up cuTensorMapEncodeTiled", 0, "not in this driver");

  WgmmaGemmArgs args = {};
  CUresult result = encode_codes(&args.a_codes, p.a_codes, p.m, p.k / 2, p.a_stride, Config::kTokens, Config::kStepBytes,
                                 CU_TENSOR_MAP_SWIZZLE_64B);
  if (result == CUDA_SUCCESS) {
    result = encode_codes(&args.b_codes, p.b_codes, p.n, p.k / 2, p.b_stride, Config::kRows, Config::kStepBytes,
                          CU_TENSOR_MAP_SWIZZLE_NONE);
  }
  if (result != CUDA_SUCCESS) return gemm_failed(message, op, "cuTensorMapEncodeTiled", result, "sizes or strides too large");
  args.a_scales = p.a_scales;
  args.b_scales = p.b_scales;
  args.alpha = p.alpha;
  args.bias = p.bias;
  args.d = p.d;
  args.d_stride = p.d_stride;
  args.m = static_cast<int32_t>(p.m);
  args.n = static_cast<int32_t>(p.n);
  args.k = static_cast<int32_t>(p.k);
  args.m_tiles = static_cast<int32_t>((p.m + Config::kTokens - 1) / Config::kTokens);
  args.n_tiles = static_cast<int32_t>((p.n + Config::kRows - 1) / Config::kRows);
  args.tiles = args.m_tiles * args.n_tiles;
  args.steps = static_cast<int32_t>((p.k + Config::kStepValues - 1) / Config::kStepValues);
  args.splits = splits;
  args.d_dtype = p.d_dtype;
  args.bias_dtype = p.bias_dtype;
  int64_t const element = p.d_dtype == FP4AOT_FP32 ? 4 : 2;
  args.aligned_stores = rows_aligned(p.d, p.d_stride * element, 4 * element);

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
  return launch_failed({op, p.stream, p.flags, message}, error, config.gridDim, config.blockDim.x, config.dynamicSmemBytes);
}

// Any m and n: splits what is beyond one launch into blocks of rows and columns.
template <class Config>
fp4aot_status run_wgmma_gemm(fp4aot_gemm_params const& p, char const* op, int splits, int sms, Message* message) {
  int64_t const scale_row = round_up(p.k / kVector<Config::kFormat>, kScaleAtomColumns);  // bytes a row
  int64_t const element = p.d_dtype == FP4AOT_FP32 ? 4 : 2;
  for (int64_t n0 = 0; n0 < p.n; n0 += kMaxLaunchN) {
    for (int64_t m0 = 0; m0 < p.m; m0 += kMaxLaunchM) {
      fp4aot_gemm_params part = p;
      part.m = std::min(p.m - m0, kMaxLaunchM);
      part.n = std::min(p.n - n0, kMaxLaunchN);
      part.a_codes += m0 * p.a_stride;
      part.a_scales += m0 * scale_row;
      part.b_codes += n0 * p.b_stride;
      part.b_scales += n0 * scale_row;
      if (p.bias != nullptr) part.bias = static_cast<uint8_t const*>(p.bias) + n0 * (p.bias_dtype == FP4AOT_FP32 ? 4 : 2);
      part.d = static_cast<uint8_t*>(p.d) + (m0 * p.d_stride + n0) * element;
      fp4aot_status const status = launch_wgmma_gemm<Config>(part, op, splits, sms, message);
      if (status != FP4AOT_OK) return status;
    }
  }
  return FP4AOT_OK;
}

}  // namespace fp4aot

#endif
