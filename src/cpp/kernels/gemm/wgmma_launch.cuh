// Launches the W4A4 kernel of wgmma.cuh behind that of expand.cuh: workspace and tensor maps.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_LAUNCH_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_LAUNCH_CUH_

#include <algorithm>

#include "kernels/gemm/expand.cuh"
#include "kernels/gemm/wgmma_queue.cuh"

namespace fp4aot {

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

  using Weights = typename Config::Weights;
  int64_t const values = int64_t{args.schedule.steps} * Config::kStepValues;
  CUresult result =
      encode_rows(&args.a_map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, memory, round_up(p.m, Config::kTokens), values,
                  values * 2, Config::kTokens / args.schedule.pair, 64, CU_TENSOR_MAP_SWIZZLE_128B);
  if (result == CUDA_SUCCESS) {
    result = encode_rows(&args.b_map, CU_TENSOR_MAP_DATA_TYPE_UINT8, p.b_codes, p.n, p.k / 2, p.b_stride, Config::kRows,
                         Weights::kStepBytes, CU_TENSOR_MAP_SWIZZLE_NONE);
  }
  int64_t const atoms = (p.k / kVector<Config::kFormat> + kScaleAtomColumns - 1) / kScaleAtomColumns;
  if (result == CUDA_SUCCESS) result = encode_scales(&args.b_scale_map, p.b_scales, p.n, atoms, Weights::kAtoms);
  // The kernel before is ours.
  return queue_wgmma_gemm<Config>({op, p.stream, p.flags | FP4AOT_FLAG_PDL, message}, args, cut, result);
}

// Expands activations to the workspace and multiplies, chunk by chunk.
template <class Config>
fp4aot_status run_wgmma_gemm(fp4aot_gemm_params const& p, char const* op, bool cut, int sms, Message* message) {
  fp4aot_status const ready = wgmma_gemm_ready<Config>(p.device.index, op, message);
  if (ready != FP4AOT_OK) return ready;
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
