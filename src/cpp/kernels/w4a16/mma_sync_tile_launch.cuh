// Launches the W4A16 kernel of mma_sync_tile.cuh.
#ifndef FP4AOT_KERNELS_W4A16_MMA_SYNC_TILE_LAUNCH_CUH_
#define FP4AOT_KERNELS_W4A16_MMA_SYNC_TILE_LAUNCH_CUH_

#include <algorithm>

#include "device/launch_cluster.h"
#include "device/tensor_map.h"
#include "kernels/gemm/launch_blocks.h"
#include "kernels/w4a16/mma_sync_tile.cuh"
#include "kernels/w4a16/mma_sync_tile_rule.h"

namespace fp4aot {

template <class Config>
cudaError_t prepare_w4a16_tile(int device) {
  static PreparedDevices prepared;
  return prepared.once(device, [] {
    return cudaFuncSetAttribute(w4a16_mma_sync_tile_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                Config::kSharedBytes);
  });
}

// One launch: p.m and p.n at most kMaxLaunchM and kMaxLaunchN.
template <class Config>
fp4aot_status launch_w4a16_tile(fp4aot_gemm_w4a16_params const& p, LaunchTarget const& target,
                                W4a16TileTactic const& tactic, int sms) {
  W4a16TileArgs args = {};
  args.alpha = p.alpha;
  args.bias = p.bias;
  args.d = p.d;
  args.d_stride = p.d_stride;
  args.m = static_cast<int32_t>(p.m);
  args.n = static_cast<int32_t>(p.n);
  args.k = static_cast<int32_t>(p.k);
  args.d_dtype = p.d_dtype;
  args.bias_dtype = p.bias_dtype;
  // A single row's stride may be anything.
  int64_t const d_row = p.m > 1 ? p.d_stride * element_bytes(p.d_dtype) : 0,
                a_row = p.m > 1 ? p.a_stride : round_up(p.k, 8);
  args.aligned_stores = rows_aligned(p.d, d_row, 16);
  args.m_tiles = (args.m + Config::kTokens - 1) / Config::kTokens;
  args.n_tiles = (args.n + Config::kRows - 1) / Config::kRows;
  args.tiles = args.m_tiles * args.n_tiles;
  args.k_tiles = static_cast<int32_t>(w4a16_k_tiles(p.k));
  args.along_n = tactic.along_n;
  args.cluster_log2 = tactic.cluster_log2;

  CUresult maps = encode_rows(&args.a_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, p.a, p.m, p.k, a_row * 2, Config::kTokens,
                              kW4a16TileK, CU_TENSOR_MAP_SWIZZLE_128B);
  if (maps == CUDA_SUCCESS) {
    int64_t const row_tile_bytes = args.k_tiles * int64_t{Config::kTileBytes};
    maps = encode_rows(&args.b_map, CU_TENSOR_MAP_DATA_TYPE_UINT64, p.prepared, w4a16_row_tiles(p.n),
                       row_tile_bytes / Config::kElementBytes, row_tile_bytes, Config::kBoxRows, Config::kBoxColumns,
                       CU_TENSOR_MAP_SWIZZLE_NONE);
  }
  if (maps != CUDA_SUCCESS)
    return gemm_failed(target.message, target.op, "cuTensorMapEncodeTiled", maps, "sizes or strides too large");

  // CTAs that share k have one tile each: the others' sums come when they like.
  int const ctas = 1 << tactic.cluster_log2;
  dim3 const grid(static_cast<unsigned>(ctas > 1 ? args.tiles * ctas : std::min(args.tiles, sms)));
  return launch_cluster(target, w4a16_mma_sync_tile_kernel<Config>, grid, Config::kThreads, Config::kSharedBytes, ctas,
                        args);
}

template <class Config>
fp4aot_status run_w4a16_tile(fp4aot_gemm_w4a16_params const& p, char const* op, W4a16TileTactic const& tactic, int sms,
                             Message* message) {
  cudaError_t const error = prepare_w4a16_tile<Config>(p.device.index);
  if (error != cudaSuccess) return gemm_failed(message, op, "cudaFuncSetAttribute", error, cudaGetErrorString(error));
  if (tensor_map_encode() == nullptr)
    return gemm_failed(message, op, "looking up cuTensorMapEncodeTiled", 0, "not in this driver");
  LaunchTarget target = {op, p.stream, p.flags, message};
  for (int64_t n0 = 0; n0 < p.n; n0 += kMaxLaunchN) {
    for (int64_t m0 = 0; m0 < p.m; m0 += kMaxLaunchM) {
      fp4aot_gemm_w4a16_params part = p;
      part.m = std::min(p.m - m0, kMaxLaunchM);
      part.n = std::min(p.n - n0, kMaxLaunchN);
      part.a = static_cast<uint8_t const*>(p.a) + m0 * p.a_stride * element_bytes(p.a_dtype);
      part.prepared += w4a16_tile_offset(Config::kFormat, n0 / kW4a16TileRows, 0, p.k);
      if (p.bias != nullptr) part.bias = static_cast<uint8_t const*>(p.bias) + n0 * element_bytes(p.bias_dtype);
      part.d = static_cast<uint8_t*>(p.d) + (m0 * p.d_stride + n0) * element_bytes(p.d_dtype);
      fp4aot_status const status = launch_w4a16_tile<Config>(part, target, tactic, sms);
      if (status != FP4AOT_OK) return status;
      target.flags |= FP4AOT_FLAG_PDL;  // the next one's predecessor is ours
    }
  }
  return FP4AOT_OK;
}

}  // namespace fp4aot

#endif
