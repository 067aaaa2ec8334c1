// Launches the W4A4 kernel of wgmma.cuh behind that of expand.cuh: workspace, tensor maps, cluster and PDL attributes.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_LAUNCH_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_LAUNCH_CUH_

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "device/launch.cuh"
#include "fp4aot/fp4aot.h"
#include "images/image.h"
#include "kernels/gemm/expand.cuh"
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

// Swizzled scales as [row block][atom along k][128 words], with boxes of box_atoms whole atoms.
inline CUresult encode_scales(CUtensorMap* map, uint8_t const* scales, int64_t rows, int64_t atoms,
                              uint32_t box_atoms) {
  cuuint64_t const sizes[3] = {kScaleAtomBytes / 4, static_cast<cuuint64_t>(atoms),
                               static_cast<cuuint64_t>((rows + kScaleAtomRows - 1) / kScaleAtomRows)};
  cuuint64_t const strides[2] = {kScaleAtomBytes, static_cast<cuuint64_t>(atoms) * kScaleAtomBytes};
  cuuint32_t const box[3] = {kScaleAtomBytes / 4, box_atoms, 1};
  cuuint32_t const element_strides[3] = {1, 1, 1};
  return tensor_map_encode()(map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 3, const_cast<uint8_t*>(scales), sizes, strides, box,
                             element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

constexpr int64_t kFewBlocks = 1 << 14;  // too few to fill the device: more warps with less work each

template <Format kFormat>
fp4aot_status launch_expand(fp4aot_gemm_params const& p, char const* op, bool first, int tokens,
                            WgmmaWorkspace const& workspace, Message* message) {
  uint8_t* const memory = static_cast<uint8_t*>(p.workspace);
  ExpandArgs args = {};
  args.codes = p.a_codes;
  args.stride = p.a_stride;
  args.scales = p.a_scales;
  args.m = p.m;
  args.rows = round_up(p.m, tokens);
  args.k = static_cast<int32_t>(p.k);
  args.blocks = (args.k + kExpandBlock - 1) / kExpandBlock;
  args.out = memory;
  args.counters = reinterpret_cast<uint32_t*>(memory + workspace.activation_bytes + workspace.partial_bytes);
  args.counter_count = static_cast<int32_t>(workspace.counter_bytes / 4);
  constexpr int kWarps = kExpandThreads / 32;
  bool const few = args.rows * args.blocks <= kFewBlocks;
  args.row_mask = few ? 3 : 0;
  dim3 const grid(static_cast<unsigned>((args.blocks + kExpandWarpBlocks - 1) / kExpandWarpBlocks),
                  static_cast<unsigned>((expand_strips(args.rows) + kWarps - 1) / kWarps), few ? 4 : 1);
  // A later chunk overwrites the workspace only after the product before it.
  uint32_t const flags = first ? p.flags : p.flags | FP4AOT_FLAG_PDL;
  return launch({op, p.stream, flags, message}, reinterpret_cast<void const*>(expand_activations_kernel<kFormat>), grid,
                kExpandThreads, args);
}

// One launch, after activations have been expanded: m and n at most kMaxLaunchM and kMaxLaunchN.
template <class Config>
fp4aot_status launch_wgmma_gemm(fp4aot_gemm_params const& p, char const* op, bool cut, int sms,
                                WgmmaWorkspace const& workspace, Message* message) {
  WgmmaGemmArgs args = {};
  static_cast<GemmArgs&>(args) = gemm_args(p);
  args.schedule = schedule_tiles(p.m, p.n, p.k, Config::kTokens, cut, sms);
  uint8_t* const memory = static_cast<uint8_t*>(p.workspace);
  args.partials = reinterpret_cast<float*>(memory + workspace.activation_bytes);
  args.counters = reinterpret_cast<uint32_t*>(memory + workspace.activation_bytes + workspace.partial_bytes);
  int64_t const d_row = (p.m > 1 ? p.d_stride : p.n) * 2;  // bytes; a single row's stride may be anything
  args.staged = p.d_dtype != FP4AOT_FP32 && rows_aligned(p.d, d_row, 16) && d_row < kMaxTensorMapStride;

  int64_t const values = int64_t{args.schedule.steps} * Config::kStepValues;
  CUresult result =
      encode_rows(&args.a_map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, memory, round_up(p.m, Config::kTokens), values,
                  values * 2, Config::kTokens / args.schedule.pair, 64, CU_TENSOR_MAP_SWIZZLE_128B);
  if (result == CUDA_SUCCESS) {
    result = encode_rows(&args.b_map, CU_TENSOR_MAP_DATA_TYPE_UINT8, p.b_codes, p.n, p.k / 2, p.b_stride, Config::kRows,
                         Config::kStepBytes, CU_TENSOR_MAP_SWIZZLE_NONE);
  }
  int64_t const atoms = (p.k / kVector<Config::kFormat> + kScaleAtomColumns - 1) / kScaleAtomColumns;
  if (result == CUDA_SUCCESS) result = encode_scales(&args.b_scale_map, p.b_scales, p.n, atoms, Config::kAtoms);
  if (result == CUDA_SUCCESS && args.staged) {
    result = encode_rows(&args.d_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, p.d, p.m, p.n, d_row, Config::kTokens, 64,
                         CU_TENSOR_MAP_SWIZZLE_128B);
  }
  if (result != CUDA_SUCCESS)
    return gemm_failed(message, op, "cuTensorMapEncodeTiled", result, "sizes or strides too large");

  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;  // the kernel before is ours
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(args.schedule.pair), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(args.schedule.clusters * args.schedule.pair));
  config.blockDim = dim3(Config::kThreads);
  config.dynamicSmemBytes = Config::kSharedBytes;
  config.stream = static_cast<cudaStream_t>(p.stream);
  config.attrs = attributes;
  config.numAttrs = 2;
  cudaError_t const error = cudaLaunchKernelEx(&config, wgmma_gemm_kernel<Config>, args);
  if (error == cudaSuccess) return FP4AOT_OK;
  return launch_failed({op, p.stream, p.flags, message}, error, config.gridDim, config.blockDim.x,
                       config.dynamicSmemBytes);
}

// Expands activations to the workspace and multiplies, chunk by chunk.
template <class Config>
fp4aot_status run_wgmma_gemm(fp4aot_gemm_params const& p, char const* op, bool cut, int sms, Message* message) {
  cudaError_t const error = prepare_wgmma_gemm<Config>(p.device.index);
  if (error != cudaSuccess) return gemm_failed(message, op, "cudaFuncSetAttribute", error, cudaGetErrorString(error));
  if (tensor_map_encode() == nullptr)
    return gemm_failed(message, op, "looking up cuTensorMapEncodeTiled", 0, "not in this driver");
  WgmmaWorkspace const workspace = wgmma_workspace<Config>(p.m, p.k, cut, sms);
  for (int64_t m0 = 0; m0 < p.m; m0 += workspace.chunk_rows) {
    fp4aot_gemm_params const chunk = rows_of<Config::kFormat>(p, m0, workspace.chunk_rows);
    fp4aot_status status = launch_expand<Config::kFormat>(chunk, op, m0 == 0, Config::kTokens, workspace, message);
    for (int64_t n0 = 0; n0 < p.n && status == FP4AOT_OK; n0 += kMaxLaunchN) {
      status = launch_wgmma_gemm<Config>(columns_of<Config::kFormat>(chunk, n0, kMaxLaunchN), op, cut, sms, workspace,
                                         message);
    }
    if (status != FP4AOT_OK) return status;
  }
  return FP4AOT_OK;
}

}  // namespace fp4aot

#endif
