// The W4A4 kernels of sm120a: mma.sync with block scales; few rows of A go where the tile is narrow.
#ifndef FP4AOT_IMAGES_SM120A_POLICY_H_
#define FP4AOT_IMAGES_SM120A_POLICY_H_

#include "kernels/gemm/cutlass_rule.h"

namespace fp4aot {

struct GemmPolicy {
  static constexpr int kSms = 188;         // if the device does not say
  static constexpr int kClusterCount = 1;  // of kClusters
  // Rows are only appended: tactic numbers (cutlass_rule.h) come from the order. Times are estimates from peak
  // rates, not measurements: a step takes what its products take, or what its operands take from L2, whichever is more.
  static constexpr CutlassTile kTiles[] = {
      // name, rows, columns, step, swap, ping-pong, multiprocessors, store, ns a step, ns a tile
      {"mma_sync_128x128", 128, 128, 128, false, false, 1, Store::kTma, 430, 2500},
      {"mma_sync_128x128_ping_pong", 128, 128, 128, false, true, 1, Store::kTma, 430, 2400},
      {"mma_sync_128x32_swapped", 128, 32, 256, true, false, 1, Store::kElement, 660, 2000},
      {"mma_sync_128x16_swapped", 128, 16, 256, true, false, 1, Store::kElement, 620, 2000},
      {"mma_sync_128x8_swapped", 128, 8, 256, true, false, 1, Store::kElement, 600, 2000},
  };
  static constexpr int kTileCount = sizeof kTiles / sizeof kTiles[0];
};

}  // namespace fp4aot

#endif
