// Sizes, shared memory and arguments of the warp-specialised W4A4 kernel (wgmma.cuh), for host and device.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_LAYOUT_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_LAYOUT_CUH_

#include <cuda.h>

#include <cstdint>

#include "fp4aot/formats.h"
#include "kernels/gemm/args.h"

namespace fp4aot {

struct WgmmaGemmArgs : GemmArgs {
  CUtensorMap a_map, b_map;              // the codes, uint8 [rows, k/2]; boxes of kStepBytes columns
  CUtensorMap a_scale_map, b_scale_map;  // uint32 [row block][atom][128]; boxes of kAtoms atoms, of b two row blocks
  int32_t m_tiles, n_tiles, tiles;       // tiles = m_tiles * n_tiles
  int32_t steps;                         // ceil(k / 128)
  int32_t splits;                        // = CTAs of a cluster: each takes a share of the steps of the cluster's tile
};

// A tile is 256 weight rows (n) x kTokens activation rows (m).
template <Format kFormatValue, int kTokensValue>
struct WgmmaConfig {
  static constexpr Format kFormat = kFormatValue;
  static constexpr int kTokens = kTokensValue;
  static_assert(kTokens == 32 || kTokens == 64 || kTokens == 128);
  static constexpr int kRows = 256;
  static constexpr int kRowBlocks = kTokens >= 64 ? 2 : 1;  // 64-row products a consumer warpgroup holds
  static constexpr int kGroupRows = 64 * kRowBlocks;        // weight rows of a consumer warpgroup
  static constexpr int kConsumers = kRows / kGroupRows;     // warpgroups
  static constexpr int kProducers = kRowBlocks;
  static constexpr int kProducerThreads = 128 * kProducers;
  static constexpr int kThreads = 128 * (kConsumers + kProducers);
  // setmaxnreg moves registers between the roles, within what the launch gave the CTA: 640 x 96 or 512 x 128.
  static constexpr int kConsumerRegisters = kRowBlocks == 1 ? 104 : 208;
  static constexpr int kProducerRegisters = kRowBlocks == 1 ? 64 : 48;
  static_assert(kConsumers * kConsumerRegisters + kProducers * kProducerRegisters <=
                kThreads / 128 * (65536 / kThreads / 8 * 8));

  // A producer warp makes pieces: 32 rows of a unit (64 values along k). kStepsAtOnce steps are in the making.
  static constexpr int kUnitPieces = kTokens / 32;
  static constexpr int kPieces = 2 * kUnitPieces;  // of a step
  static constexpr int kStepsAtOnce = 4 * kProducers / kPieces;

  // fp32 partial sums restart every kPromoteSteps steps and are added outside of the tensor cores, which truncate: the
  // error then grows with 256 values, not with k. The largest tile has no registers for it.
  static constexpr bool kPromote = kTokens <= 64;
  static constexpr int kPromoteSteps = 2;

  // A step is 128 values along k: 64 bytes a row and kAtoms scale atoms a row block.
  static constexpr int kStepValues = 128;
  static constexpr int kStepBytes = kStepValues / 2;
  static constexpr int kAtoms = kStepValues / (kVector<kFormat> * kScaleAtomColumns);

  // Rings: weights and activations as stored, in steps; units of dequantised activations, 64 values (128 bytes) a row,
  // swizzled for wgmma.
  static constexpr int kWeightStages = kTokens == 128 ? 5 : kTokens == 64 ? 6 : 8;
  static constexpr int kTokenStages = kTokens == 32 ? 6 : 4;
  static constexpr int kUnits = kTokens == 128 ? 6 : 8;
  static_assert(kStepsAtOnce < kTokenStages && kTokenStages <= kWeightStages && 2 * kStepsAtOnce <= kUnits);
  // While a piece of step s is finished, copies are started for the activations and weights of steps s + these: their
  // slots have been freed, since finishing it took a unit slot of step s - kUnits / 2.
  static constexpr int kTokensAhead = kTokenStages - kStepsAtOnce;
  static constexpr int kWeightsAhead = kWeightStages - kUnits / 2;
  static constexpr int kWeightBytes = kRows * kStepBytes;
  static constexpr int kTokenBytes = kTokens * kStepBytes;
  static constexpr int kUnitBytes = kTokens * 128;
  static constexpr int kWeightScaleBytes = 2 * kAtoms * kScaleAtomBytes;  // two row blocks
  static constexpr int kTokenScaleBytes = kAtoms * kScaleAtomBytes;

  // Offsets in shared memory, from a multiple of 1024.
  static constexpr int kUnitOffset = 0;
  static constexpr int kTokenOffset = kUnitOffset + kUnits * kUnitBytes;
  static constexpr int kWeightOffset = kTokenOffset + kTokenStages * kTokenBytes;
  static constexpr int kTokenScaleOffset = kWeightOffset + kWeightStages * kWeightBytes;
  static constexpr int kWeightScaleOffset = kTokenScaleOffset + kTokenStages * kTokenScaleBytes;
  static constexpr int kBarrierOffset = kWeightScaleOffset + kWeightStages * kWeightScaleBytes;
  static constexpr int kBarriers = 2 * (kWeightStages + kTokenStages + kUnits);
  static_assert(kTokenOffset % 1024 == 0 && kTokenBytes % 512 == 0, "the 64-byte swizzle repeats every 512 bytes");
  static_assert(kWeightOffset % 128 == 0 && kTokenScaleOffset % 128 == 0 && kWeightScaleOffset % 128 == 0 &&
                kBarrierOffset % 8 == 0);

  // Partial sums of a split tile, [kTokens][kRows] floats, over the then idle rings. The padding spreads the rows that a
  // warp writes together over the banks.
  static constexpr int kPartialPitch = kRows + 4;
  static constexpr int kPartialBytes = kTokens * kPartialPitch * 4;
  static_assert(kPartialBytes <= kBarrierOffset);

  static constexpr int kSharedBytes = 1024 + kBarrierOffset + kBarriers * 8;  // 1024: to align the start
  static_assert(kSharedBytes <= 227 * 1024);
};

}  // namespace fp4aot

#endif
