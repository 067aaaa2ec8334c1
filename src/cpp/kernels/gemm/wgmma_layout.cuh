// Sizes, shared memory, division of the work and arguments of the warp-specialised kernel (wgmma.cuh), for host and device.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_LAYOUT_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_LAYOUT_CUH_

#include <cuda.h>

#include <algorithm>
#include <cstdint>

#include "fp4aot/formats.h"
#include "kernels/gemm/args.h"
#include "kernels/gemm/tile_schedule.h"

namespace fp4aot {

struct WgmmaGemmArgs : GemmArgs {
  CUtensorMap a_map;  // activations, bf16 [m, 128 * steps], in the order of expand.cuh; boxes of 64 x kTokens / pair
  CUtensorMap b_map;  // weights' codes, uint8 [n, k / 2]; boxes of kStepBytes x kRows
  CUtensorMap b_scale_map;  // uint32 [row block][atom][128]; boxes of kAtoms atoms
  CUtensorMap d_map;        // 16-bit results [m, n]; boxes of 64 x kTokens; if `staged`
  TileSchedule schedule;
  bool staged;         // results go through shared memory and d_map
  float* partials;     // sums of shared tiles: [CTA][2][consumer warpgroup][kTokens / 8][128] x 4
  uint32_t* counters;  // of finished parts: [shared tile][rank in the cluster][consumer warpgroup]; zero
};

// A CTA's tile is 128 weight rows (n) x kTokens activation rows (m); each of two consumer warpgroups has 64 of the rows.
template <Format kFormatValue, int kTokensValue>
struct WgmmaConfig {
  static constexpr Format kFormat = kFormatValue;
  static constexpr int kTokens = kTokensValue;
  static_assert(kTokens == 64 || kTokens == 128 || kTokens == 192 || kTokens == 256);
  static constexpr int kConsumers = 2;  // warpgroups
  static constexpr int kRows = kWgmmaRows;
  static_assert(kRows == 64 * kConsumers && kRows == kScaleAtomRows);
  static constexpr int kProducerThreads = 128;
  static constexpr int kThreads = kProducerThreads + 128 * kConsumers;
  // setmaxnreg moves registers between the roles, within what the launch gave the CTA.
  static constexpr int kConsumerRegisters = 232;
  static constexpr int kProducerRegisters = 40;
  static_assert(kConsumers * kConsumerRegisters + kProducerRegisters <= kThreads / 128 * (65536 / kThreads / 8 * 8));

  // fp32 partial sums restart every kPromoteSteps steps and are added outside of the tensor cores, which truncate: the
  // error then grows with 256 values, not with k. Larger tiles have no registers for it.
  static constexpr bool kPromote = kTokens <= 128;
  static constexpr int kPromoteSteps = 2;

  // A step is 128 values along k: 64 bytes of codes a weight row and kAtoms scale atoms.
  static constexpr int kStepValues = kWgmmaStep;
  static constexpr int kStepBytes = kStepValues / 2;
  static constexpr int kAtoms = kStepValues / (kVector<kFormat> * kScaleAtomColumns);

  // Rings: weights as stored, in steps; units of activations, 64 values (128 bytes) a row, swizzled for wgmma.
  static constexpr int kUnits = kTokens == 256 ? 4 : kTokens == 192 ? 5 : 8;
  static constexpr int kWeightStages = kTokens == 256 ? 3 : kTokens == 192 ? 4 : kTokens == 128 ? 5 : 8;
  static constexpr int kUnitBytes = kTokens * 128;
  static constexpr int kWeightBytes = kRows * kStepBytes;
  static constexpr int kWeightScaleBytes = kAtoms * kScaleAtomBytes;
  static constexpr int kStagingBytes = kTokens * 128;  // 16-bit results of a consumer warpgroup

  // Offsets in shared memory, from a multiple of 1024.
  static constexpr int kUnitOffset = 0;
  static constexpr int kStagingOffset = kUnitOffset + kUnits * kUnitBytes;
  static constexpr int kWeightOffset = kStagingOffset + kConsumers * kStagingBytes;
  static constexpr int kWeightScaleOffset = kWeightOffset + kWeightStages * kWeightBytes;
  static constexpr int kBarrierOffset = kWeightScaleOffset + kWeightStages * kWeightScaleBytes;
  static constexpr int kBarriers = 2 * (kWeightStages + kUnits);
  static constexpr int kCountOffset = kBarrierOffset + kBarriers * 8;  // a word for each consumer warpgroup
  static_assert(kUnitBytes / 2 % 1024 == 0 && kStagingOffset % 1024 == 0 && kStagingBytes % 1024 == 0,
                "the 128-byte swizzle repeats every 1024 bytes");
  static_assert(kWeightOffset % 128 == 0 && kWeightScaleOffset % 128 == 0 && kBarrierOffset % 8 == 0);

  static constexpr int kSharedBytes = 1024 + kCountOffset + kConsumers * 4;  // 1024: to align the start
  static_assert(kSharedBytes <= 227 * 1024);

  // Floats of a part of a shared tile.
  static constexpr int64_t kPartialFloats = int64_t{kRows} * kTokens;
};

// What a product takes from its workspace: a chunk of expanded activations, then the sums and counters of shared tiles.
struct WgmmaWorkspace {
  int64_t chunk_rows;  // of A at once
  int64_t activation_bytes, partial_bytes, counter_bytes;
  int64_t bytes() const { return activation_bytes + partial_bytes + counter_bytes; }
};

constexpr int64_t kMaxActivationBytes = int64_t{128} << 20;

// cut: tiles may be shared by clusters. sms: multiprocessors of the device.
template <class Config>
WgmmaWorkspace wgmma_workspace(int64_t m, int64_t k, bool cut, int sms) {
  constexpr int64_t kGranule = 256;  // rows, a multiple of every tile but the one of 192 and of a scale atom
  int64_t const row_bytes = round_up(k, Config::kStepValues) * 2;
  int64_t const most = std::max(kGranule, kMaxActivationBytes / row_bytes / kGranule * kGranule);
  int64_t const chunks = (m + most - 1) / most;
  WgmmaWorkspace workspace = {};
  workspace.chunk_rows = chunks <= 1 ? m : round_up((m + chunks - 1) / chunks, kGranule);
  workspace.activation_bytes = workspace.chunk_rows * row_bytes;
  if (cut) {
    workspace.partial_bytes = int64_t{sms} * 2 * Config::kPartialFloats * 4;
    workspace.counter_bytes = round_up(int64_t{sms} * 2 * Config::kConsumers * 4, 16);
  }
  return workspace;
}

}  // namespace fp4aot

#endif
