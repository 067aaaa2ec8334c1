// Sizes, shared memory and workspace of the warp-specialised kernel (wgmma.cuh), for host and device.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_LAYOUT_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_LAYOUT_CUH_

#include <algorithm>
#include <cstdint>

#include "fp4aot/formats.h"
#include "kernels/gemm/wgmma_args.h"
#include "kernels/gemm/wgmma_weights.cuh"

namespace fp4aot {

// A CTA's tile is 128 weight rows (n) x kTokens activation rows (m). kHalves consumer warpgroups have 64 of the weight rows
// each; with kGroups = 2 there are as many again, and the groups take the steps along k in turn.
// WeightsValue: how weights lie in memory and become operands, as CanonicalWeights says it. kPromoteValue: see kPromote.
template <class WeightsValue, int kTokensValue, bool kPromoteValue>
struct WgmmaTile {
  using Weights = WeightsValue;
  static constexpr Format kFormat = Weights::kFormat;
  static constexpr int kTokens = kTokensValue;
  static_assert(kTokens == 64 || kTokens == 128 || kTokens == 192 || kTokens == 256);
  static constexpr int kRows = kWgmmaRows;
  static constexpr int kHalves = 2;
  static_assert(kRows == 64 * kHalves && kRows == kScaleAtomRows);
  // A warp has too little to do while it waits for an instruction's result: four on a scheduler hide more than two, where
  // there are registers for them.
  static constexpr int kGroups = kTokens == 64 && !kPromoteValue ? 2 : 1;
  static constexpr int kProducerThreads = 128;
  static constexpr int kThreads = kProducerThreads + 128 * kHalves * kGroups;
  // setmaxnreg moves registers between the roles, within what the launch gave the CTA.
  static constexpr int kConsumerRegisters = kGroups == 2 ? 112 : 232;
  static constexpr int kProducerRegisters = kGroups == 2 ? 32 : 40;
  static_assert(kHalves * kGroups * kConsumerRegisters + kProducerRegisters <=
                kThreads / 128 * (65536 / kThreads / 8 * 8));

  // Whether clusters may share tiles (CutTiles).
  static constexpr bool kCut = false;

  // For fp32 results partial sums restart every kPromoteSteps steps and are added outside of the tensor cores, which
  // truncate: the error then grows with 256 values, not with k. Larger tiles have no registers for it.
  static constexpr bool kPromote = kPromoteValue;
  static constexpr int kPromoteSteps = 2;
  static_assert(!kPromote || kTokens <= 128);

  // Short products leave little time: a warp starts those of two words (of 32 values along k) together, not of one, and
  // looks ahead (wgmma.cuh).
  static constexpr bool kEarly = kTokens <= 128;
  static constexpr int kGroupWords = kEarly ? 2 : 1;

  static constexpr int kStepValues = kWgmmaStep;

  // Rings: weights as stored, in steps; units of activations, 64 values (128 bytes) a row, swizzled for wgmma.
  static constexpr int kUnits = kTokens == 256 ? 4 : kTokens == 192 ? 5 : 8;
  static constexpr int kWeightStages = kTokens == 256 ? 3 : kTokens == 192 ? 4 : kTokens == 128 ? 5 : 8;
  static constexpr int kUnitBytes = kTokens * 128;
  static constexpr int kWeightBytes = Weights::kBytes;
  static constexpr int kWeightScaleBytes = Weights::kScaleBytes;
  static constexpr int kSumBytes = 64 * kTokens * 4;   // of 64 weight rows
  static constexpr int kStagingBytes = kTokens * 128;  // 16-bit results of 64 weight rows

  // Offsets in shared memory, from a multiple of 1024.
  static constexpr int kUnitOffset = 0;
  static constexpr int kStagingOffset = kUnitOffset + kUnits * kUnitBytes;
  static constexpr int kWeightOffset = kStagingOffset + kHalves * kStagingBytes;
  static constexpr int kWeightScaleOffset = kWeightOffset + kWeightStages * kWeightBytes;
  static constexpr int kSumOffset = kWeightScaleOffset + kWeightStages * kWeightScaleBytes;  // of the second group
  static constexpr int kBarrierOffset = kSumOffset + (kGroups - 1) * kHalves * kSumBytes;
  static constexpr int kBarriers = 2 * (kWeightStages + kUnits) + kHalves + 1;
  static constexpr int kCountOffset = kBarrierOffset + kBarriers * 8;  // a word for each half
  static_assert(kUnitBytes / 2 % 1024 == 0 && kStagingOffset % 1024 == 0 && kStagingBytes % 1024 == 0,
                "the 128-byte swizzle repeats every 1024 bytes");
  static_assert(kWeightOffset % 128 == 0 && kWeightScaleOffset % 128 == 0 && kSumOffset % 16 == 0 &&
                kBarrierOffset % 8 == 0);

  static constexpr int kSharedBytes = 1024 + kCountOffset + kHalves * 4;  // 1024: to align the start
  static_assert(kSharedBytes <= 227 * 1024);

  // Floats of a part of a shared tile.
  static constexpr int64_t kPartialFloats = int64_t{kRows} * kTokens;
};

// The same with tiles that clusters may share: a kernel of its own, as others begin and end sooner without that code.
template <class Tile>
struct CutTiles : Tile {
  static constexpr bool kCut = true;
};

// W4A4.
template <Format kFormatValue, int kTokensValue, bool kPromoteValue = false>
struct WgmmaConfig : WgmmaTile<CanonicalWeights<kFormatValue>, kTokensValue, kPromoteValue> {};

// What a product takes from its workspace: a chunk of activations, then the sums and counters of shared tiles.
struct WgmmaWorkspace {
  int64_t chunk_rows;   // of A at once
  int64_t padded_rows;  // of whole tiles: copies of what lies outside of a tensor are slow
  int64_t activation_bytes, partial_bytes, counter_bytes;
  int64_t bytes() const { return activation_bytes + partial_bytes + counter_bytes; }
};

constexpr int64_t kMaxActivationBytes = int64_t{128}
                                        << 20;  // 2^19 rows of one step, which a grid's second dimension holds

// Of shared tiles alone. cut: tiles may be shared by clusters. sms: multiprocessors of the device.
template <class Config>
WgmmaWorkspace wgmma_parts_workspace(bool cut, int sms) {
  WgmmaWorkspace workspace = {};
  if (cut) {
    workspace.partial_bytes = int64_t{sms} * 2 * Config::kPartialFloats * 4;
    workspace.counter_bytes = round_up(int64_t{sms} * 2 * Config::kHalves * 4, 16);
  }
  return workspace;
}

// With activations of m rows and k values, 2 bytes each.
template <class Config>
WgmmaWorkspace wgmma_workspace(int64_t m, int64_t k, bool cut, int sms) {
  constexpr int64_t kGranule = 256;  // rows, a multiple of every tile but the one of 192 and of a scale atom
  int64_t const row_bytes = round_up(k, Config::kStepValues) * 2;
  int64_t const most = std::max(kGranule, kMaxActivationBytes / row_bytes / kGranule * kGranule);
  int64_t const chunks = (m + most - 1) / most;
  WgmmaWorkspace workspace = wgmma_parts_workspace<Config>(cut, sms);
  workspace.chunk_rows = chunks <= 1 ? m : round_up((m + chunks - 1) / chunks, kGranule);
  workspace.padded_rows = round_up(workspace.chunk_rows, Config::kTokens);
  workspace.activation_bytes = workspace.padded_rows * row_bytes;
  return workspace;
}

}  // namespace fp4aot

#endif
