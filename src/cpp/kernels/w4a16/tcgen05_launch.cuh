// Launches the W4A16 kernel of tcgen05.cuh.
//
// Activations are read where the caller has them. Only fp16 ones for MXFP4 weights go through the workspace
// (split_activations.cuh), chunk by chunk.
#ifndef FP4AOT_KERNELS_W4A16_TCGEN05_LAUNCH_CUH_
#define FP4AOT_KERNELS_W4A16_TCGEN05_LAUNCH_CUH_

#include <algorithm>

#include "device/launch_cluster.h"
#include "device/tensor_map.h"
#include "kernels/gemm/launch_blocks.h"
#include "kernels/w4a16/split_activations.cuh"
#include "kernels/w4a16/tcgen05.cuh"
#include "kernels/w4a16/tcgen05_rule.h"

namespace fp4aot {

template <class Config>
cudaError_t prepare_tcgen05(int device) {
  static PreparedDevices prepared;
  return prepared.once(device, [] {
    return cudaFuncSetAttribute(w4a16_tcgen05_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                Config::kSharedBytes);
  });
}

// Activations that were split: rows of high and low parts, in whole steps of kWgmmaStep values.
struct Tcgen05Split {
  int64_t row_bytes;
  int64_t chunk_rows;  // that are split at once
  constexpr int64_t bytes() const { return chunk_rows * row_bytes; }
};
constexpr int64_t kTcgen05MaxSplitBytes = int64_t{128} << 20;

constexpr Tcgen05Split tcgen05_split_rows(fp4aot_gemm_w4a16_params const& p) {
  constexpr int64_t kGranule = 256;  // a multiple of every tile
  int64_t const row_bytes = round_up(p.k, kWgmmaStep) * 4;
  int64_t const most = std::max(kGranule, kTcgen05MaxSplitBytes / row_bytes / kGranule * kGranule);
  return {row_bytes, std::min(p.m, most)};
}

// Rows of a chunk.
template <Format kFormat>
fp4aot_status launch_split_activations(fp4aot_gemm_w4a16_params const& p, LaunchTarget const& target) {
  SplitArgs args = {};
  args.a = static_cast<uint8_t const*>(p.a);
  args.stride = p.a_stride * 2;
  args.m = args.rows = p.m;
  args.k = static_cast<int32_t>(p.k);
  args.steps = static_cast<int32_t>((p.k + kWgmmaStep - 1) / kWgmmaStep);
  args.out = static_cast<uint8_t*>(p.workspace);
  dim3 const grid(static_cast<unsigned>((args.rows + kSplitRows - 1) / kSplitRows * split_ctas(args.steps)));
  return launch(target, reinterpret_cast<void const*>(split_activations_kernel<kFormat>), grid, kSplitThreads, args);
}

// One launch: p.m and p.n at most kMaxLaunchM and kMaxLaunchN.
template <class Config>
fp4aot_status launch_tcgen05(fp4aot_gemm_w4a16_params const& p, LaunchTarget const& target, Tcgen05Tactic const& tactic,
                             bool split, int sms) {
  W4a16Tcgen05Args args = {};
  args.alpha = p.alpha;
  args.bias = p.bias;
  args.d = p.d;
  args.d_stride = p.d_stride;
  args.m = static_cast<int32_t>(p.m);
  args.n = static_cast<int32_t>(p.n);
  args.k_tiles = static_cast<int32_t>(w4a16_k_tiles(p.k));
  args.m_tiles = static_cast<int32_t>((p.m + Config::kTokens - 1) / Config::kTokens);
  args.n_tiles = static_cast<int32_t>((p.n + kTcgen05Rows - 1) / kTcgen05Rows);
  args.d_dtype = p.d_dtype;
  args.bias_dtype = p.bias_dtype;
  args.cluster_log2 = tactic.cluster_log2;
  args.along_n = tactic.along_n;
  args.split = split;

  // A single row's stride may be anything.
  CUresult maps;
  if (split) {
    int64_t const row_bytes = tcgen05_split_rows(p).row_bytes;
    maps = encode_rows(&args.a_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, p.workspace, p.m, row_bytes / 2, row_bytes,
                       Config::kTokens, kW4a16TileK, CU_TENSOR_MAP_SWIZZLE_128B);
  } else {
    int64_t const row_bytes = (p.m > 1 ? p.a_stride : round_up(p.k, 8)) * 2;
    maps = encode_rows(&args.a_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, p.a, p.m, p.k, row_bytes, Config::kTokens,
                       kW4a16TileK, CU_TENSOR_MAP_SWIZZLE_128B);
  }
  if (maps == CUDA_SUCCESS) {
    int64_t const row_bytes = w4a16_k_tiles(p.k) * Config::kTileBytes;
    maps = encode_rows(&args.b_map, CU_TENSOR_MAP_DATA_TYPE_UINT64, p.prepared, w4a16_row_tiles(p.n),
                       row_bytes / Config::kElementBytes, row_bytes, Config::kRowTiles, Config::kBoxColumns,
                       CU_TENSOR_MAP_SWIZZLE_NONE);
  }
  if constexpr (!Config::kFp32) {
    int64_t const row_bytes = (p.m > 1 ? p.d_stride : p.n) * 2;
    args.staged = tactic.cluster_log2 == 0 && rows_aligned(p.d, row_bytes, 16) && row_bytes < kMaxTensorMapStride;
    if (maps == CUDA_SUCCESS && args.staged) {
      maps = encode_rows(&args.d_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, p.d, p.m, p.n, row_bytes, Config::kStagingTokens,
                         64, CU_TENSOR_MAP_SWIZZLE_128B);
    }
  }
  if (maps != CUDA_SUCCESS)
    return gemm_failed(target.message, target.op, "cuTensorMapEncodeTiled", maps, "sizes or strides too large");

  int64_t const tiles = int64_t{args.m_tiles} * args.n_tiles;
  dim3 const grid(
      static_cast<unsigned>(tactic.cluster_log2 > 0 ? tiles << tactic.cluster_log2 : std::min(tiles, int64_t{sms})));
  return launch_cluster(target, w4a16_tcgen05_kernel<Config>, grid, Config::kThreads, Config::kSharedBytes,
                        1u << tactic.cluster_log2, args);
}

template <class Config>
fp4aot_status run_tcgen05(fp4aot_gemm_w4a16_params const& p, char const* op, Tcgen05Tactic const& tactic, int sms,
                          Message* message) {
  cudaError_t const error = prepare_tcgen05<Config>(p.device.index);
  if (error != cudaSuccess) return gemm_failed(message, op, "cudaFuncSetAttribute", error, cudaGetErrorString(error));
  if (tensor_map_encode() == nullptr)
    return gemm_failed(message, op, "looking up cuTensorMapEncodeTiled", 0, "not in this driver");
  bool const split = tcgen05_split(p, Config::kFormat);
  int64_t const chunk_rows = split ? std::min(tcgen05_split_rows(p).chunk_rows, kMaxLaunchM) : kMaxLaunchM;
  LaunchTarget target = {op, p.stream, p.flags, message};
  for (int64_t m0 = 0; m0 < p.m; m0 += chunk_rows) {
    fp4aot_gemm_w4a16_params rows = p;
    rows.m = std::min(p.m - m0, chunk_rows);
    rows.a = static_cast<uint8_t const*>(p.a) + m0 * p.a_stride * 2;
    rows.d = static_cast<uint8_t*>(p.d) + m0 * p.d_stride * element_bytes(p.d_dtype);
    if constexpr (Config::kFormat == Format::kMxfp4) {
      if (split) {
        fp4aot_status const status = launch_split_activations<Config::kFormat>(rows, target);
        if (status != FP4AOT_OK) return status;
        target.flags |= FP4AOT_FLAG_PDL;  // the next one's predecessor is ours
      }
    }
    for (int64_t n0 = 0; n0 < p.n; n0 += kMaxLaunchN) {
      fp4aot_gemm_w4a16_params part = rows;
      part.n = std::min(p.n - n0, kMaxLaunchN);
      part.prepared += w4a16_tile_offset(Config::kFormat, n0 / kW4a16TileRows, 0, p.k);
      if (p.bias != nullptr) part.bias = static_cast<uint8_t const*>(p.bias) + n0 * element_bytes(p.bias_dtype);
      part.d = static_cast<uint8_t*>(rows.d) + n0 * element_bytes(p.d_dtype);
      fp4aot_status const status = launch_tcgen05<Config>(part, target, tactic, split, sms);
      if (status != FP4AOT_OK) return status;
      target.flags |= FP4AOT_FLAG_PDL;
    }
  }
  return FP4AOT_OK;
}

}  // namespace fp4aot

#endif
