// Sizes, shared and tensor memory of the W4A16 kernel of tcgen05.cuh, and its arguments, for host and device.
#ifndef FP4AOT_KERNELS_W4A16_TCGEN05_LAYOUT_CUH_
#define FP4AOT_KERNELS_W4A16_TCGEN05_LAYOUT_CUH_

#include <cuda.h>

#include <cstdint>

#include "fp4aot/w4a16_layout.h"

namespace fp4aot {

constexpr int kTcgen05Rows = 128;     // weight rows of a tile
constexpr int kTcgen05SlotTiles = 2;  // k tiles of prepared weights that are copied at once

// kBf16: the type of both operands. kFp32: results are fp32, and sums restart every kSegmentUnits units, see kSegmentUnits;
// else they are bf16 or fp16.
template <Format kFormatValue, bool kBf16Value, int kTokensValue, bool kFp32Value>
struct W4a16Tcgen05Config {
  static constexpr Format kFormat = kFormatValue;
  static constexpr bool kBf16 = kBf16Value;
  static constexpr int kTokens = kTokensValue;
  static constexpr bool kFp32 = kFp32Value;
  static_assert(kTokens == 64 || kTokens == 128 || kTokens == 256);
  static_assert(!kFp32 || kTokens <= 128, "tensor memory has no room for the sums of segments");

  // Warps by their role. A warp reaches a quarter of tensor memory's lanes by its number modulo 4.
  static constexpr int kTransformWarps = 8;  // of 16 weight rows each
  static constexpr int kEpilogueWarp = kTransformWarps, kEpilogueWarps = 4;
  static constexpr int kWeightWarp = kEpilogueWarp + kEpilogueWarps;
  static constexpr int kActivationWarp = kWeightWarp + 1, kMultiplyWarp = kWeightWarp + 2;
  static constexpr int kThreads = 32 * (kMultiplyWarp + 1);
  static_assert(kTransformWarps * kW4a16TileRows == kTcgen05Rows && kEpilogueWarp % 4 == 0);

  // The tensor cores may truncate what they add to a sum, as those of other chips do: then its error grows with the
  // number of products. For fp32 results a sum has at most this many units (of 64 values along k), and the epilogue adds
  // the sums.
  static constexpr int kSegmentUnits = 8;

  // Tensor memory, in columns: sums being computed, of two tiles or segments where there is room; with kFp32 the sums of
  // the tile's earlier segments; weights as operands, 64 values of k in 32 columns.
  static constexpr int kAccumulators = kTokens <= 128 ? 2 : 1;
  static constexpr int kSumColumn = kAccumulators * kTokens;
  static constexpr int kOperandColumn = kSumColumn + (kFp32 ? kTokens : 0);
  static constexpr int kOperandColumns = kW4a16TileK / 2;
  static constexpr int kOperands =
      (512 - kOperandColumn) / kOperandColumns < 8 ? (512 - kOperandColumn) / kOperandColumns : 8;
  static_assert(kOperands >= 4);

  // Rings in shared memory: units of activations, 64 values (128 bytes) a token, swizzled; slots of prepared weights.
  static constexpr int kUnits = kTokens == 256 ? 5 : kTokens == 128 ? 7 : 12;
  static constexpr int kSlots = kTokens == 256 ? 3 : kTokens == 128 ? 5 : 8;
  static constexpr int kUnitBytes = kTokens * 128;
  static constexpr int kTileBytes = w4a16_tile_bytes(kFormat);
  static constexpr int kRowTileBytes = kTcgen05SlotTiles * kTileBytes;  // of a row tile, in a slot
  static constexpr int kRowTiles = kTcgen05Rows / kW4a16TileRows;
  static constexpr int kSlotBytes = kRowTiles * kRowTileBytes;
  static constexpr int kElementBytes = 8;  // of the weights' tensor map
  static constexpr int kTileColumns = kTileBytes / kElementBytes, kBoxColumns = kTcgen05SlotTiles * kTileColumns;
  static_assert(kBoxColumns <= 256 && kRowTileBytes % 16 == 0);

  // Results on their way to global memory: of 64 tokens, two buffers of two boxes of 64 weight rows.
  static constexpr int kStagingTokens = 64, kStagingBoxBytes = kStagingTokens * 128;
  static constexpr int kStagingBytes = 2 * kStagingBoxBytes, kStagings = kFp32 ? 0 : 2;
  // Instead, with CTAs that share k: fp32 sums of all CTAs of the cluster, for the tokens whose results are this one's.
  static constexpr bool kClusters = kTokens <= 128;
  static constexpr int kExchangeBytes = kClusters ? kTokens * kTcgen05Rows * 4 : 0;

  // Offsets from a multiple of 1024.
  static constexpr int kUnitOffset = 0;
  static constexpr int kStagingOffset = kUnitOffset + kUnits * kUnitBytes;
  static constexpr int kSlotOffset =
      kStagingOffset + (kExchangeBytes > kStagings * kStagingBytes ? kExchangeBytes : kStagings * kStagingBytes);
  static constexpr int kBarrierOffset = kSlotOffset + kSlots * kSlotBytes;
  static constexpr int kBarriers = 2 * (kUnits + kSlots + kOperands + kAccumulators) + 1;
  static constexpr int kTmemOffset = kBarrierOffset + 8 * kBarriers;
  static_assert(kUnitBytes % 1024 == 0 && kStagingOffset % 1024 == 0 && kStagingBoxBytes % 1024 == 0,
                "the 128-byte swizzle repeats every 1024 bytes");
  static_assert(kSlotOffset % 128 == 0 && kSlotBytes % 128 == 0 && kBarrierOffset % 8 == 0);
  static constexpr int kSharedBytes = 1024 + kTmemOffset + 4;  // 1024: to align the start
  static_assert(kSharedBytes <= 227 * 1024);
};

struct W4a16Tcgen05Args {
  // Tensor maps. What a box has outside of its tensor is zero.
  CUtensorMap a_map;   // activations, 16 bits, [m, k or, if split, 256 * ceil(k / 128)]; boxes of 64 x kTokens
  CUtensorMap b_map;   // prepared weights [row tile][bytes of its k tiles] in elements of 8 bytes; boxes: a slot
  CUtensorMap d_map;   // results [m, n]; boxes of 64 x kStagingTokens; if `staged`
  float const* alpha;  // null: 1
  void const* bias;    // null: none
  void* d;
  int64_t d_stride;  // elements
  int32_t m, n;
  int32_t k_tiles;
  int32_t m_tiles, n_tiles;
  int32_t d_dtype, bias_dtype;
  int32_t cluster_log2;  // CTAs of a cluster, which share the k of a tile; each cluster then has one tile
  bool along_n;  // CTAs take neighbouring tiles along n, with the same tokens; else along m, with the same weights
  bool split;    // activations as split_activations.cuh leaves them: two units for each k tile
  bool staged;   // results go through shared memory and d_map
};

}  // namespace fp4aot

#endif
