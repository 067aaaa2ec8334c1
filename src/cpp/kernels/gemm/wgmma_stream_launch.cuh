// Launches the W4A4 kernels of wgmma_stream.cuh and wgmma_stream_cut.cuh behind that of stream_operands.cuh.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_STREAM_LAUNCH_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_STREAM_LAUNCH_CUH_

#include "device/launch.cuh"
#include "kernels/gemm/launch_blocks.h"
#include "kernels/gemm/wgmma_stream_cut.cuh"

namespace fp4aot {

// cut: the kernel of wgmma_stream_cut.cuh.
template <class Config, bool kCut>
cudaError_t prepare_wgmma_stream_gemm(int device) {
  static PreparedDevices prepared;
  return prepared.once(device, [] {
    if constexpr (kCut) {
      return cudaFuncSetAttribute(wgmma_stream_cut_gemm_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  StreamCut<Config>::kSharedBytes);
    } else {
      return cudaFuncSetAttribute(wgmma_stream_gemm_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  Config::kMaxSharedBytes);
    }
  });
}

// Rows of A are taken in chunks of so many: of whole blocks of tokens, and of scale atoms.
struct StreamWorkspace {
  int64_t chunk_rows;
  int64_t operand_bytes, partial_bytes, counter_bytes;
  int64_t bytes() const { return operand_bytes + partial_bytes + counter_bytes; }
};

// sms: multiprocessors of the device.
template <class Config, bool kCut>
StreamWorkspace stream_workspace(fp4aot_gemm_params const& p, int sms) {
  constexpr int64_t kMostBytes = int64_t{128} << 20, kMostRows = int64_t{1} << 18;
  int64_t const row_bytes = round_up(p.k, Config::kStep * Config::kDepthGroups) * 2;
  int64_t const most = std::min(kMostRows, kMostBytes / row_bytes / kScaleAtomRows * kScaleAtomRows);
  StreamWorkspace workspace = {};
  workspace.chunk_rows = std::min(p.m, std::max<int64_t>(most, kScaleAtomRows));
  workspace.operand_bytes = round_up(workspace.chunk_rows, Config::kTokens) * row_bytes;
  if constexpr (kCut) {
    StreamSchedule const schedule =
        stream_schedule(workspace.chunk_rows, std::min(p.n, kMaxLaunchN), p.k, Config::kRows, Config::kTokens, sms);
    workspace.partial_bytes = int64_t{std::min(schedule.total(), sms)} * kStreamMaxParts * Config::kWarps *
                              StreamCut<Config>::kShare * Config::kBlockBytes;
    workspace.counter_bytes = int64_t{schedule.tiles} * Config::kWarps * 4;
  }
  return workspace;
}

// Expands activations to the workspace, and clears the counters there.
template <class Config>
fp4aot_status launch_stream_expansion(fp4aot_gemm_params const& p, char const* op, StreamWorkspace const& workspace,
                                      Message* message) {
  uint8_t* const memory = static_cast<uint8_t*>(p.workspace);
  StreamExpandArgs args = {};
  args.codes = p.a_codes;
  args.stride = p.a_stride;
  args.scales = p.a_scales;
  args.scale_block = round_up(p.k / kVector<Config::kFormat>, kScaleAtomColumns) * kScaleAtomRows;
  args.m = static_cast<int32_t>(p.m);
  args.k = static_cast<int32_t>(p.k);
  args.steps = static_cast<int32_t>(round_up(p.k, Config::kStep * Config::kDepthGroups) / Config::kStep);
  args.block_tiles = Config::kTokenTiles;
  args.out = memory;
  args.counters = reinterpret_cast<uint32_t*>(memory + workspace.operand_bytes + workspace.partial_bytes);
  args.counter_count = static_cast<int32_t>(workspace.counter_bytes / 4);
  dim3 const grid(static_cast<unsigned>((args.steps + kStreamExpandWarps - 1) / kStreamExpandWarps),
                  static_cast<unsigned>(round_up(p.m, Config::kTokens) / 8));
  return launch({op, p.stream, p.flags, message},
                reinterpret_cast<void const*>(expand_stream_operands_kernel<Config::kFormat>), grid,
                32 * kStreamExpandWarps, args);
}

template <class Config>
StreamArgs stream_args(fp4aot_gemm_params const& p) {
  StreamArgs args = {};
  args.gemm = gemm_args(p);
  args.scale_block = round_up(p.k / kVector<Config::kFormat>, kScaleAtomColumns) * kScaleAtomRows;
  // What came before the expansion had ended when that began, unless the expansion was a programmatic launch.
  args.ready = (p.flags & FP4AOT_FLAG_PDL) == 0;
  args.operands = static_cast<uint8_t const*>(p.workspace);
  return args;
}

// One launch of activations that the launch before expands. slices: of k, which make a cluster; 1..8.
template <class Config>
fp4aot_status launch_wgmma_stream(fp4aot_gemm_params const& p, char const* op, int slices, Message* message) {
  WgmmaStreamArgs args = {};
  static_cast<StreamArgs&>(args) = stream_args<Config>(p);
  // Whole rounds, as the operands have; the last steps may be all zeros.
  args.steps = static_cast<int32_t>(round_up(p.k, Config::kStep * Config::kDepthGroups) / Config::kStep);
  args.slice_steps = (args.steps + slices - 1) / slices;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(slices), 1, 1};
  cudaLaunchConfig_t config = {};
  config.attrs = attributes;
  config.numAttrs = slices > 1 ? 2 : 1;
  // All tiles of a row block, whose groups of 64 rows are not neighbours.
  int64_t const rows = round_up(p.n, std::max(Config::kRows, kScaleAtomRows));
  config.gridDim = dim3(static_cast<unsigned>(slices), static_cast<unsigned>(rows / Config::kRows),
                        static_cast<unsigned>((p.m + Config::kTokens - 1) / Config::kTokens));
  config.blockDim = dim3(Config::kThreads);
  config.dynamicSmemBytes = Config::shared_bytes(slices);
  config.stream = static_cast<cudaStream_t>(p.stream);
  void* arguments[] = {&args};
  cudaError_t const error =
      cudaLaunchKernelExC(&config, reinterpret_cast<void const*>(wgmma_stream_gemm_kernel<Config>), arguments);
  if (error == cudaSuccess) return FP4AOT_OK;
  return launch_failed({op, p.stream, p.flags, message}, error, config.gridDim, Config::kThreads,
                       config.dynamicSmemBytes);
}

// The same, cut.
template <class Config>
fp4aot_status launch_wgmma_stream_cut(fp4aot_gemm_params const& p, char const* op, int sms,
                                      StreamWorkspace const& workspace, Message* message) {
  uint8_t* const memory = static_cast<uint8_t*>(p.workspace);
  WgmmaStreamCutArgs args = {};
  static_cast<StreamArgs&>(args) = stream_args<Config>(p);
  args.schedule = stream_schedule(p.m, p.n, p.k, Config::kRows, Config::kTokens, sms);
  args.rounds = Divisor(args.schedule.rounds);
  args.range = Divisor(args.schedule.range);
  args.token_blocks = Divisor(args.schedule.token_blocks);
  args.partials = reinterpret_cast<float*>(memory + workspace.operand_bytes);
  args.counters = reinterpret_cast<uint32_t*>(memory + workspace.operand_bytes + workspace.partial_bytes);
  return launch({op, p.stream, p.flags | FP4AOT_FLAG_PDL, message},
                reinterpret_cast<void const*>(wgmma_stream_cut_gemm_kernel<Config>),
                dim3(static_cast<unsigned>(args.schedule.ctas())), Config::kThreads, args,
                StreamCut<Config>::kSharedBytes);
}

// slices: as launch_wgmma_stream takes them, if not kCut. sms: multiprocessors of the device.
template <class Config, bool kCut>
fp4aot_status run_wgmma_stream_gemm(fp4aot_gemm_params const& p, char const* op, int slices, int sms,
                                    Message* message) {
  cudaError_t const prepared = prepare_wgmma_stream_gemm<Config, kCut>(p.device.index);
  if (prepared != cudaSuccess)
    return gemm_failed(message, op, "cudaFuncSetAttribute", prepared, cudaGetErrorString(prepared));
  StreamWorkspace const workspace = stream_workspace<Config, kCut>(p, sms);
  for (int64_t m0 = 0; m0 < p.m; m0 += workspace.chunk_rows) {
    fp4aot_gemm_params const chunk = rows_of<Config::kFormat>(p, m0, workspace.chunk_rows);
    for (int64_t n0 = 0; n0 < p.n; n0 += kMaxLaunchN) {  // counters are cleared for each launch
      fp4aot_gemm_params const part = columns_of<Config::kFormat>(chunk, n0, kMaxLaunchN);
      fp4aot_status status = launch_stream_expansion<Config>(part, op, workspace, message);
      if (status == FP4AOT_OK) {
        if constexpr (kCut) {
          status = launch_wgmma_stream_cut<Config>(part, op, sms, workspace, message);
        } else {
          status = launch_wgmma_stream<Config>(part, op, slices, message);
        }
      }
      if (status != FP4AOT_OK) return status;
    }
  }
  return FP4AOT_OK;
}

}  // namespace fp4aot

#endif
