// Launches the W4A16 kernel of mma_sync.cuh.
#ifndef FP4AOT_KERNELS_W4A16_MMA_SYNC_LAUNCH_CUH_
#define FP4AOT_KERNELS_W4A16_MMA_SYNC_LAUNCH_CUH_

#include "device/launch_cluster.h"
#include "kernels/gemm/launch_blocks.h"
#include "kernels/w4a16/mma_sync.cuh"
#include "kernels/w4a16/rule.h"

namespace fp4aot {

template <class Config>
cudaError_t prepare_w4a16_mma_sync(int index, W4a16Device const& device) {
  static PreparedDevices prepared;
  return prepared.once(index, [&device] {
    return cudaFuncSetAttribute(w4a16_mma_sync_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(std::max(device.max_shared, shared_alone(device.shared))));
  });
}

// One launch.
template <class Config>
fp4aot_status launch_w4a16_mma_sync(fp4aot_gemm_w4a16_params const& p, char const* op, W4a16Schedule const& s,
                                    W4a16Device const& device, Message* message) {
  W4a16Args args = {};
  args.a = static_cast<uint8_t const*>(p.a);
  args.a_stride = p.a_stride * element_bytes(p.a_dtype);
  args.prepared = p.prepared;
  args.alpha = p.alpha;
  args.bias = p.bias;
  args.d = p.d;
  args.d_stride = p.d_stride;
  args.m = static_cast<uint32_t>(p.m);
  args.n = static_cast<uint32_t>(p.n);
  args.k = static_cast<uint32_t>(p.k);
  args.d_dtype = p.d_dtype;
  args.bias_dtype = p.bias_dtype;
  args.row_tiles = static_cast<uint32_t>(w4a16_row_tiles(p.n));
  args.k_tiles = static_cast<uint32_t>(w4a16_k_tiles(p.k));
  args.cluster_log2 = s.ctas_log2;
  args.group = s.group;
  args.split = s.split;
  args.longer = s.longer;
  args.chunks = s.chunks;
  args.buffers = s.buffers;
  args.buffer_bytes = s.buffer_bytes;
  args.interleaved = s.interleaved;
  args.buffer_offset = s.buffer_offset;
  args.sums_offset = s.sums_offset;
  args.barriers_offset = s.barriers_offset;

  dim3 const grid(s.clusters * s.ctas(), static_cast<unsigned>((p.m + Config::kTokens - 1) / Config::kTokens));
  uint32_t const shared = launch_shared(p.flags, int64_t{grid.x} * grid.y, static_cast<int>(s.ctas_log2), device.sms,
                                        device.shared, s.shared_bytes);
  return launch_cluster({op, p.stream, p.flags, message}, w4a16_mma_sync_kernel<Config>, grid,
                        dim3(32, s.warps, s.parts), shared, s.ctas(), args);
}

// tactic: of rule.h, a valid one.
template <class Config>
fp4aot_status run_w4a16_mma_sync(fp4aot_gemm_w4a16_params const& p, char const* op, int tactic,
                                 W4a16Device const& device, Message* message) {
  cudaError_t const error = prepare_w4a16_mma_sync<Config>(p.device.index, device);
  if (error != cudaSuccess) return gemm_failed(message, op, "cudaFuncSetAttribute", error, cudaGetErrorString(error));
  W4a16Schedule const first = w4a16_plan(Config::kFormat, p, tactic, device).schedule;
  constexpr int64_t kMaxM = kMaxGridY * Config::kTokens;
  for (int64_t n0 = 0; n0 < p.n; n0 += kW4a16MaxN) {
    fp4aot_gemm_w4a16_params part = p;
    part.n = std::min(p.n - n0, kW4a16MaxN);
    part.prepared += w4a16_tile_offset(Config::kFormat, n0 / kW4a16TileRows, 0, p.k);
    if (p.bias != nullptr) part.bias = static_cast<uint8_t const*>(p.bias) + n0 * element_bytes(p.bias_dtype);
    W4a16Schedule const s = n0 == 0 ? first : w4a16_plan(Config::kFormat, part, tactic, device).schedule;
    for (int64_t m0 = 0; m0 < p.m; m0 += kMaxM) {
      part.m = std::min(p.m - m0, kMaxM);
      part.a = static_cast<uint8_t const*>(p.a) + m0 * p.a_stride * element_bytes(p.a_dtype);
      part.d = static_cast<uint8_t*>(p.d) + (m0 * p.d_stride + n0) * element_bytes(p.d_dtype);
      fp4aot_status const status = launch_w4a16_mma_sync<Config>(part, op, s, device, message);
      if (status != FP4AOT_OK) return status;
    }
  }
  return FP4AOT_OK;
}

}  // namespace fp4aot

#endif
