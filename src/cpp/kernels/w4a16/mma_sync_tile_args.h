// Tiles, arguments and shared memory of the W4A16 kernel of mma_sync_tile.cuh, for host and device.
#ifndef FP4AOT_KERNELS_W4A16_MMA_SYNC_TILE_ARGS_H_
#define FP4AOT_KERNELS_W4A16_MMA_SYNC_TILE_ARGS_H_

#include <cuda.h>

#include <algorithm>
#include <cstdint>

#include "fp4aot/w4a16_layout.h"
#include "kernels/gemm/args.h"

namespace fp4aot {

struct W4a16TileArgs : GemmArgs {
  // What a box has outside of its tensor is zero.
  CUtensorMap a_map;  // activations, 16 bits, [m, k]; boxes of 64 x the tile's tokens
  CUtensorMap
      b_map;  // prepared weights, [row tile][bytes of its k tiles / 8]; boxes of a k tile x the tile's row tiles
  int32_t m_tiles, n_tiles, tiles, k_tiles;
  int32_t along_n;       // tiles in groups of neighbours along n, else along m
  int32_t cluster_log2;  // CTAs of a cluster: they share k
};

// Tiles of a group, along the dimension that along_n names: CTAs that run together share weights and activations.
constexpr int kW4a16TileGroup = 16;

struct W4a16TileStart {
  int32_t m0, n0;
};

// A CTA has kWarps warps of products, each with kRowTiles row tiles of 16 weight rows, and a thread that starts copies. A
// stage of its ring is a k tile: activations [token][64], swizzled, and prepared weights [row tile].
template <Format kFormatValue, bool kBf16Value, int kRowTilesValue, int kTokensValue, bool kRestartValue>
struct W4a16TileConfig {
  static constexpr Format kFormat = kFormatValue;
  static constexpr bool kBf16 = kBf16Value;         // activations, else fp16
  static constexpr int kRowTiles = kRowTilesValue;  // a warp
  static constexpr int kTokens = kTokensValue;
  static constexpr int kTokenTiles = kTokens / 8;
  static constexpr int kWarps = 8;
  static constexpr int kProducerThreads = 128;
  static constexpr int kThreads = kProducerThreads + 32 * kWarps;
  // setmaxnreg moves registers between the roles, within what the launch gave the CTA.
  static constexpr int kConsumerRegisters = 240, kProducerRegisters = 24;
  static_assert(kWarps / 4 * kConsumerRegisters + kProducerRegisters <= kThreads / 128 * (65536 / kThreads / 8 * 8));
  static constexpr int kRows = kWarps * kRowTiles * kW4a16TileRows;
  static_assert(kTokens % 16 == 0 && kTokens <= 256);

  // fp16 cannot hold the scales of MXFP4: they go to the sums of their blocks.
  static constexpr bool kScaledSums = kFormat == Format::kMxfp4 && !kBf16;
  // For fp32 results sums restart every kRestartTiles k tiles and are added outside of the tensor cores, which truncate
  // (rule.h); sums of blocks do so anyway.
  static constexpr bool kRestart = kRestartValue && !kScaledSums;
  static constexpr int kRestartTiles = 4;

  static constexpr int kTileBytes = w4a16_tile_bytes(kFormat);
  static constexpr int kElementBytes = 8;  // of b_map
  static constexpr int kBoxColumns = kTileBytes / kElementBytes;
  static constexpr int kBoxRows = kWarps * kRowTiles;
  static constexpr int kActivationBytes = kTokens * kW4a16TileK * 2;
  static constexpr int kWeightBytes = kBoxRows * kTileBytes;
  static_assert(kActivationBytes % 1024 == 0, "the 128-byte swizzle repeats every 1024 bytes");
  static_assert(kWeightBytes % 128 == 0 && kTileBytes % 16 == 0, "where tensor maps may go, and 16-byte loads");

  // Results of 16 tokens, 16 bits each, on their way from fragments to rows of d.
  static constexpr int kChunks = 2 * kRowTiles;  // of 16 bytes, a token
  static constexpr int kStagingBytes = 16 * 16 * kChunks;
  // Sums of the CTAs that share k, sent to the one that adds them: [CTA][its token tiles][row tile][warp][lane] x 16 bytes.
  static constexpr int kMaxCtas = kTokens == 64 ? 4 : 1;
  static constexpr int kSumBytes = kMaxCtas == 1 ? 0 : kTokenTiles * kRowTiles * kWarps * 512;

  // Offsets in shared memory, from a multiple of 1024. Activations of all stages come first.
  static constexpr int kMaxShared = 99 * 1024;
  static constexpr int kOtherBytes = 1024 + kWarps * kStagingBytes + kSumBytes + 128;
  static constexpr int kStages = std::min(4, (kMaxShared - kOtherBytes) / (kActivationBytes + kWeightBytes));
  static_assert(kStages >= 3);
  static constexpr int kWeightOffset = kStages * kActivationBytes;
  static constexpr int kStagingOffset = kWeightOffset + kStages * kWeightBytes;
  static constexpr int kSumOffset = kStagingOffset + kWarps * kStagingBytes;
  static constexpr int kBarrierOffset = kSumOffset + kSumBytes;  // full and empty ones of the stages, one of the sums
  static_assert(kStagingOffset % 16 == 0 && kSumOffset % 16 == 0 && kBarrierOffset % 8 == 0);
  static constexpr int kSharedBytes = 1024 + kBarrierOffset + (2 * kStages + 1) * 8;  // 1024: to align the start
  static_assert(kSharedBytes <= kMaxShared);
};

}  // namespace fp4aot

#endif
