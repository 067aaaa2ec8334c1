// Launches gemm_w4a16_* on the kernel of kernels/gemm/wgmma.cuh.
//
// Activations are read where the caller has them. Only fp16 ones for MXFP4 weights go through the workspace
// (split_activations.cuh), chunk by chunk; with shared tiles, their sums and counters are there too.
#ifndef FP4AOT_KERNELS_W4A16_WGMMA_LAUNCH_CUH_
#define FP4AOT_KERNELS_W4A16_WGMMA_LAUNCH_CUH_

#include <algorithm>

#include "kernels/gemm/wgmma_queue.cuh"
#include "kernels/w4a16/clear_counters.cuh"
#include "kernels/w4a16/split_activations.cuh"
#include "kernels/w4a16/wgmma_weights.cuh"

namespace fp4aot {

template <Format kFormatValue, bool kBf16Value, int kTokensValue, bool kPromoteValue = false>
struct W4a16WgmmaConfig : WgmmaTile<PreparedWeights<kFormatValue, kBf16Value>, kTokensValue, kPromoteValue> {
  static constexpr bool kBf16 = kBf16Value;
  static constexpr bool kMaySplit = kFormatValue == Format::kMxfp4;  // activations
};

// Steps of a product, as a power of two, that have the same weights.
template <class Config>
int w4a16_weight_shift(fp4aot_gemm_w4a16_params const& p) {
  return Config::kMaySplit && p.a_dtype == FP4AOT_FP16 ? 1 : 0;
}

// Values of a row of activations as the kernel reads them: whole steps.
template <class Config>
int64_t w4a16_values(fp4aot_gemm_w4a16_params const& p) {
  return round_up(p.k, kWgmmaStep) << w4a16_weight_shift<Config>(p);
}

template <class Config>
WgmmaWorkspace w4a16_wgmma_workspace(fp4aot_gemm_w4a16_params const& p, TilePlan plan, int sms) {
  bool const cut = plan.sharing == TileSharing::kCut;
  if (w4a16_weight_shift<Config>(p) != 0) return wgmma_workspace<Config>(p.m, w4a16_values<Config>(p), cut, sms);
  WgmmaWorkspace workspace = wgmma_parts_workspace<Config>(cut, sms);
  workspace.chunk_rows = std::min(p.m, kMaxLaunchM);
  return workspace;
}

// What comes before the products of a chunk, if anything: splits its activations, sets the counters to zero. True in
// `launched` if a kernel was launched.
template <class Config>
fp4aot_status launch_before_w4a16_wgmma(fp4aot_gemm_w4a16_params const& p, LaunchTarget const& target, bool first,
                                        WgmmaWorkspace const& workspace, bool* launched) {
  uint8_t* const memory = static_cast<uint8_t*>(p.workspace);
  Counters const counters = {reinterpret_cast<uint32_t*>(memory + workspace.activation_bytes + workspace.partial_bytes),
                             static_cast<int32_t>(workspace.counter_bytes / 4)};
  *launched = true;
  if constexpr (Config::kMaySplit) {
    if (w4a16_weight_shift<Config>(p) != 0) {
      SplitArgs args = {};
      args.a = static_cast<uint8_t const*>(p.a);
      args.stride = p.a_stride * 2;
      args.m = p.m;
      args.rows = round_up(p.m, Config::kTokens);
      args.k = static_cast<int32_t>(p.k);
      args.steps = static_cast<int32_t>((p.k + kWgmmaStep - 1) / kWgmmaStep);
      args.out = memory;
      args.counters = counters;
      dim3 const grid(static_cast<unsigned>((args.rows + kSplitRows - 1) / kSplitRows * split_ctas(args.steps)));
      return launch(target, reinterpret_cast<void const*>(split_activations_kernel<Config::kFormat>), grid,
                    kSplitThreads, args);
    }
  }
  if (first && counters.count != 0) {  // a product leaves them at zero
    dim3 const grid(static_cast<unsigned>((counters.count + kClearThreads - 1) / kClearThreads));
    return launch(target, reinterpret_cast<void const*>(clear_counters_kernel<Config::kFormat, Config::kBf16>), grid,
                  kClearThreads, counters);
  }
  *launched = false;
  return FP4AOT_OK;
}

// One launch: p.m and p.n at most kMaxLaunchM and kMaxLaunchN. after_counters: see WgmmaGemmArgs.
template <class Config>
fp4aot_status launch_w4a16_wgmma(fp4aot_gemm_w4a16_params const& p, LaunchTarget const& target, bool after_counters,
                                 TilePlan plan, int sms, WgmmaWorkspace const& workspace) {
  using Weights = typename Config::Weights;
  uint8_t* const memory = static_cast<uint8_t*>(p.workspace);
  int64_t const values = w4a16_values<Config>(p);
  WgmmaGemmArgs args = {};
  args.alpha = p.alpha;
  args.bias = p.bias;
  args.d = p.d;
  args.d_stride = p.d_stride;
  args.m = static_cast<int32_t>(p.m);
  args.n = static_cast<int32_t>(p.n);
  args.k = static_cast<int32_t>(p.k);
  args.d_dtype = p.d_dtype;
  args.bias_dtype = p.bias_dtype;
  args.schedule = schedule_tiles(p.m, p.n, values, Config::kTokens, plan, sms);
  args.partials = reinterpret_cast<float*>(memory + workspace.activation_bytes);
  args.counters = reinterpret_cast<uint32_t*>(memory + workspace.activation_bytes + workspace.partial_bytes);
  args.weight_shift = w4a16_weight_shift<Config>(p);
  args.after_counters = after_counters;

  uint32_t const box_rows = Config::kTokens / args.schedule.pair;
  CUresult maps;
  if (args.weight_shift != 0) {
    maps = encode_rows(&args.a_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, memory, round_up(p.m, Config::kTokens), values,
                       values * 2, box_rows, 64, CU_TENSOR_MAP_SWIZZLE_128B);
  } else {
    int64_t const a_row =
        (p.m > 1 ? p.a_stride : round_up(p.k, 8)) * 2;  // bytes; a single row's stride may be anything
    maps = encode_rows(&args.a_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, p.a, p.m, p.k, a_row, box_rows, 64,
                       CU_TENSOR_MAP_SWIZZLE_128B);
  }
  if (maps == CUDA_SUCCESS) {
    int64_t const row_tile_bytes = w4a16_k_tiles(p.k) * Weights::kTileBytes;
    maps = encode_rows(&args.b_map, CU_TENSOR_MAP_DATA_TYPE_UINT64, p.prepared, w4a16_row_tiles(p.n),
                       row_tile_bytes / Weights::kElementBytes, row_tile_bytes, Weights::kRowTiles,
                       Weights::kBoxColumns, CU_TENSOR_MAP_SWIZZLE_NONE);
  }
  return queue_wgmma_gemm<Config>(target, args, plan.sharing == TileSharing::kCut, maps);
}

template <class Config>
fp4aot_status run_w4a16_wgmma(fp4aot_gemm_w4a16_params const& p, char const* op, TilePlan plan, int sms,
                              Message* message) {
  fp4aot_status const ready = wgmma_gemm_ready<Config>(p.device.index, op, message);
  if (ready != FP4AOT_OK) return ready;
  WgmmaWorkspace const workspace = w4a16_wgmma_workspace<Config>(p, plan, sms);
  LaunchTarget target = {op, p.stream, p.flags, message};
  for (int64_t m0 = 0; m0 < p.m; m0 += workspace.chunk_rows) {
    fp4aot_gemm_w4a16_params rows = p;
    rows.m = std::min(p.m - m0, workspace.chunk_rows);
    rows.a = static_cast<uint8_t const*>(p.a) + m0 * p.a_stride * 2;
    rows.d = static_cast<uint8_t*>(p.d) + m0 * p.d_stride * element_bytes(p.d_dtype);
    bool launched;
    fp4aot_status status = launch_before_w4a16_wgmma<Config>(rows, target, m0 == 0, workspace, &launched);
    bool after_counters = launched && w4a16_weight_shift<Config>(p) == 0 && (target.flags & FP4AOT_FLAG_PDL) == 0;
    if (launched) target.flags |= FP4AOT_FLAG_PDL;  // the next one's predecessor is ours
    for (int64_t n0 = 0; n0 < p.n && status == FP4AOT_OK; n0 += kMaxLaunchN) {
      fp4aot_gemm_w4a16_params part = rows;
      part.n = std::min(p.n - n0, kMaxLaunchN);
      part.prepared += w4a16_tile_offset(Config::kFormat, n0 / kW4a16TileRows, 0, p.k);
      if (p.bias != nullptr) part.bias = static_cast<uint8_t const*>(p.bias) + n0 * element_bytes(p.bias_dtype);
      part.d = static_cast<uint8_t*>(rows.d) + n0 * element_bytes(p.d_dtype);
      status = launch_w4a16_wgmma<Config>(part, target, after_counters, plan, sms, workspace);
      after_counters = false;
      target.flags |= FP4AOT_FLAG_PDL;
    }
    if (status != FP4AOT_OK) return status;
  }
  return FP4AOT_OK;
}

}  // namespace fp4aot

#endif
