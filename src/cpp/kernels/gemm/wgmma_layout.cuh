// Sizes, shared memory and arguments of the warp-specialised W4A4 kernel (wgmma.cuh), for host and device.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_LAYOUT_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_LAYOUT_CUH_

#include <cuda.h>

#include <cstdint>

#include "fp4aot/formats.h"

namespace fp4aot {

// Everything a launch needs; passed by value. Sizes fit int32 because the launcher splits larger problems.
struct WgmmaGemmArgs {
  CUtensorMap a_codes, b_codes;  // uint8 [rows, k/2]; boxes of kStepBytes columns
  uint8_t const* a_scales;
  uint8_t const* b_scales;
  float const* alpha;
  void const* bias;
  void* d;
  int64_t d_stride;
  int32_t m, n, k;
  int32_t m_tiles, n_tiles, tiles;  // tiles = m_tiles * n_tiles
  int32_t steps;  // ceil(k / 128)
  int32_t splits;  // = CTAs of a cluster: each takes a share of the steps of the cluster's tile
  int32_t d_dtype, bias_dtype;
  bool aligned_stores;  // groups of 4 outputs of a row can be stored as one vector
};

// A tile is 256 weight rows (n) x kTokens activation rows (m). One warpgroup produces, the others multiply.
template <Format kFormatValue, int kTokensValue>
struct WgmmaConfig {
  static constexpr Format kFormat = kFormatValue;
  static constexpr int kTokens = kTokensValue;
  static constexpr int kRows = 256;                              // weight rows of a tile
  static constexpr int kRowBlocks = kTokens >= 64 ? 2 : 1;        // 64-row products a consumer warpgroup holds
  static constexpr int kConsumers = kRows / 64 / kRowBlocks;     // warpgroups
  static constexpr int kThreads = 128 * (kConsumers + 1);
  // setmaxnreg moves registers between the roles, within what the launch gave the CTA: 640 x 96 or 384 x 168.
  static constexpr int kConsumerRegisters = kRowBlocks == 1 ? 104 : kTokens == 64 ? 216 : 224;
  static constexpr int kProducerRegisters = kRowBlocks == 1 ? 64 : kTokens == 64 ? 72 : 56;
  static_assert(kConsumers * kConsumerRegisters + kProducerRegisters <= (kConsumers + 1) * (65536 / kThreads / 8 * 8));

  // fp32 partial sums restart every kPromoteSteps steps and are added outside of the tensor cores, which truncate: the
  // error then grows with 256 values, not with k. The largest tile has no registers for it.
  static constexpr bool kPromote = kTokens <= 64;
  static constexpr int kPromoteSteps = 2;

  // Raw ring: one step of both operands as stored. 128 values along k are 64 bytes a row and kAtoms scale atoms a row block.
  static constexpr int kStepValues = 128;
  static constexpr int kStepBytes = kStepValues / 2;
  static constexpr int kAtoms = kStepValues / (kVector<kFormat> * kScaleAtomColumns);
  static constexpr int kAtomBytes = kAtoms * kScaleAtomBytes;    // scales of 128 rows and one step
  static constexpr int kWeightBytes = kRows * kStepBytes;
  static constexpr int kTokenBytes = kTokens * kStepBytes;
  static constexpr int kRawStages = kTokens > 64 ? 4 : 8;

  // Unit ring: dequantised activations, 64 values (128 bytes) a row, swizzled for wgmma.
  static constexpr int kUnitBytes = kTokens * 128;
  static constexpr int kUnits = kTokens > 32 ? 4 : 8;

  // Offsets in shared memory, from a multiple of 1024.
  static constexpr int kUnitOffset = 0;
  static constexpr int kTokenOffset = kUnitOffset + kUnits * kUnitBytes;
  static constexpr int kWeightOffset = kTokenOffset + kRawStages * kTokenBytes;
  static constexpr int kWeightScaleOffset = kWeightOffset + kRawStages * kWeightBytes;
  static constexpr int kTokenScaleOffset = kWeightScaleOffset + kRawStages * 2 * kAtomBytes;
  static constexpr int kBarrierOffset = kTokenScaleOffset + kRawStages * kAtomBytes;
  static constexpr int kBarriers = 2 * (kRawStages + kUnits);

  // Partial sums of a split tile, [kTokens][kRows] floats, over the then idle rings. The padding spreads the rows that a
  // warp writes together over the banks.
  static constexpr int kPartialPitch = kRows + 4;
  static constexpr int kPartialBytes = kTokens * kPartialPitch * 4;

  static constexpr int kSharedBytes = 1024 + kBarrierOffset + kBarriers * 8;  // 1024: to align the start
  static_assert(kPartialBytes <= kBarrierOffset);
  static_assert(kSharedBytes <= 227 * 1024);
  static_assert(kTokenOffset % 1024 == 0 && kTokenBytes % 512 == 0, "the 64-byte swizzle repeats every 512 bytes");
};

}  // namespace fp4aot

#endif
