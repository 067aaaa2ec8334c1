// Launches the W4A16 kernel of wgmma_few.cuh.
#ifndef FP4AOT_KERNELS_W4A16_WGMMA_FEW_LAUNCH_CUH_
#define FP4AOT_KERNELS_W4A16_WGMMA_FEW_LAUNCH_CUH_

#include <cuda.h>

#include "device/launch_cluster.h"
#include "device/tensor_map.h"
#include "kernels/gemm/launch_blocks.h"
#include "kernels/w4a16/rule.h"
#include "kernels/w4a16/wgmma_few.cuh"

namespace fp4aot {

template <class Config>
cudaError_t prepare_w4a16_few(int index, W4a16Device const& device) {
  static PreparedDevices prepared;
  return prepared.once(index, [&device] {
    return cudaFuncSetAttribute(w4a16_wgmma_few_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(std::max(Config::kTile.max_shared, shared_alone(device.shared))));
  });
}

// Activations as [k tile][row][64 values], a slot's tiles in a box, where k has whole tiles; else as [row][value], with
// boxes of one tile, so that values beyond k arrive as zeros.
template <class Config>
CUresult encode_few_activations(fp4aot_gemm_w4a16_params const& p, W4a16FewArgs* args) {
  bool const whole = p.k % kW4a16TileK == 0;
  args->box_tiles = whole ? Config::kSlotTiles : 1;
  args->k_step = whole ? 0 : kW4a16TileK;
  args->tile_step = whole;
  // A single row's stride may be anything.
  cuuint64_t const row = static_cast<cuuint64_t>(p.m > 1 ? p.a_stride : round_up(p.k, 8)) * 2;
  cuuint64_t const sizes[3] = {static_cast<cuuint64_t>(whole ? kW4a16TileK : p.k), static_cast<cuuint64_t>(p.m),
                               static_cast<cuuint64_t>(whole ? p.k / kW4a16TileK : 1)};
  cuuint64_t const strides[2] = {row, kW4a16TileK * 2};
  cuuint32_t const box[3] = {kW4a16TileK, Config::kTokens, args->box_tiles}, element_strides[3] = {1, 1, 1};
  return tensor_map_encode()(&args->a_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 3, const_cast<void*>(p.a), sizes, strides,
                             box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// One launch.
template <class Config>
fp4aot_status launch_w4a16_few(fp4aot_gemm_w4a16_params const& p, LaunchTarget const& target, W4a16FewSchedule const& s,
                               W4a16Device const& device) {
  W4a16FewArgs args = {};
  args.prepared = p.prepared;
  args.stream = static_cast<uint32_t>(w4a16_k_tiles(p.k)) * (Config::kTileBytes / 16);
  args.cluster_log2 = s.ctas_log2;
  args.row_tiles = static_cast<uint32_t>(w4a16_row_tiles(p.n));
  args.group = 4 * s.groups;
  args.split = s.split;
  args.longer = s.longer;
  args.slots = s.slots;
  args.weights_offset = s.weights_offset;
  args.barriers_offset = s.barriers_offset;
  args.sums_offset = s.sums_offset;
  args.m = static_cast<uint32_t>(p.m);
  args.n = static_cast<uint32_t>(p.n);
  args.alpha = p.alpha;
  args.bias = p.bias;
  args.d = p.d;
  args.d_stride = p.d_stride;
  args.d_dtype = p.d_dtype;
  args.bias_dtype = p.bias_dtype;
  CUresult const map = encode_few_activations<Config>(p, &args);
  if (map != CUDA_SUCCESS)
    return gemm_failed(target.message, target.op, "cuTensorMapEncodeTiled", map, "sizes or strides too large");

  dim3 const grid(s.clusters << s.ctas_log2, static_cast<unsigned>((p.m + Config::kTokens - 1) / Config::kTokens));
  dim3 const block(32, 4 * s.groups, s.parts);
  uint32_t const shared = launch_shared(p.flags, int64_t{grid.x} * grid.y, static_cast<int>(s.ctas_log2), device.sms,
                                        device.shared, s.shared_bytes);
  return launch_cluster(target, w4a16_wgmma_few_kernel<Config>, grid, block, shared, 1u << s.ctas_log2, args);
}

// clusters: as w4a16_few_schedule takes them.
template <class Config>
fp4aot_status run_w4a16_few(fp4aot_gemm_w4a16_params const& p, char const* op, int ctas_log2, int64_t clusters,
                            W4a16Device const& device, Message* message) {
  cudaError_t const error = prepare_w4a16_few<Config>(p.device.index, device);
  if (error != cudaSuccess) return gemm_failed(message, op, "cudaFuncSetAttribute", error, cudaGetErrorString(error));
  if (tensor_map_encode() == nullptr)
    return gemm_failed(message, op, "looking up cuTensorMapEncodeTiled", 0, "not in this driver");
  LaunchTarget const target = {op, p.stream, p.flags, message};
  constexpr int64_t kMaxM = kMaxGridY * Config::kTokens;
  for (int64_t n0 = 0; n0 < p.n; n0 += kW4a16MaxN) {
    fp4aot_gemm_w4a16_params part = p;
    part.n = std::min(p.n - n0, kW4a16MaxN);
    part.prepared += w4a16_tile_offset(Config::kFormat, n0 / kW4a16TileRows, 0, p.k);
    if (p.bias != nullptr) part.bias = static_cast<uint8_t const*>(p.bias) + n0 * element_bytes(p.bias_dtype);
    W4a16FewSchedule const s = w4a16_few_schedule(Config::kFormat, Config::kTile, w4a16_row_tiles(part.n),
                                                  w4a16_k_tiles(p.k), ctas_log2, clusters);
    for (int64_t m0 = 0; m0 < p.m; m0 += kMaxM) {
      part.m = std::min(p.m - m0, kMaxM);
      part.a = static_cast<uint8_t const*>(p.a) + m0 * p.a_stride * element_bytes(p.a_dtype);
      part.d = static_cast<uint8_t*>(p.d) + (m0 * p.d_stride + n0) * element_bytes(p.d_dtype);
      fp4aot_status const status = launch_w4a16_few<Config>(part, target, s, device);
      if (status != FP4AOT_OK) return status;
    }
  }
  return FP4AOT_OK;
}

}  // namespace fp4aot

#endif
