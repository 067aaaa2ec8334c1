// The W4A4 kernels of sm100a: tcgen05.mma of one or two multiprocessors; few rows of A go where it has few.
#ifndef FP4AOT_IMAGES_SM100A_POLICY_H_
#define FP4AOT_IMAGES_SM100A_POLICY_H_

#include "kernels/gemm/cutlass_rule.h"

namespace fp4aot {

struct GemmPolicy {
  static constexpr int kSms = 148;         // if the device does not say
  static constexpr int kClusterCount = 4;  // of kClusters
  // Rows are only appended: tactic numbers (cutlass_rule.h) come from the order. Times are estimates from peak
  // rates, not measurements: a step takes what its products take, or what its operands take from L2, whichever is more.
  static constexpr CutlassTile kTiles[] = {
      // name, rows, columns, step, swap, ping-pong, multiprocessors, store, ns a step, ns a tile
      {"tcgen05_2sm_256x256", 256, 256, 256, false, false, 2, Store::kTma, 280, 2500},
      {"tcgen05_2sm_256x128", 256, 128, 256, false, false, 2, Store::kTma, 195, 2200},
      {"tcgen05_1sm_128x128", 128, 128, 256, false, false, 1, Store::kTma, 257, 2000},
      {"tcgen05_1sm_128x64", 128, 64, 256, false, false, 1, Store::kTma, 195, 1700},
      {"tcgen05_1sm_128x64_swapped", 128, 64, 256, true, false, 1, Store::kElement, 195, 1700},
  };
  static constexpr int kTileCount = sizeof kTiles / sizeof kTiles[0];
};

}  // namespace fp4aot

#endif
