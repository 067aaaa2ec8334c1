// Tactics of the W4A16 kernel of tcgen05.cuh and what they cost: data and one rule. They follow those of rule.h in an op's
// table; here they count from 0, in the order of kTcgen05Tactics:
//   tcgen05_128x<tokens>           tiles of 128 weight rows x tokens; CTAs take neighbouring tiles along m, sharing weights
//   tcgen05_128x<tokens>_along_n   along n, sharing activations
//   tcgen05_128x<tokens>_cluster<c>  c CTAs share a tile's k and add their sums through shared memory
#ifndef FP4AOT_KERNELS_W4A16_TCGEN05_RULE_H_
#define FP4AOT_KERNELS_W4A16_TCGEN05_RULE_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "kernels/w4a16/rule.h"
#include "kernels/w4a16/tcgen05_layout.cuh"

namespace fp4aot {

// Costs in nanoseconds. Estimates, nothing was measured: on a B200 at 1.85 GHz a multiprocessor does 4096 bf16
// multiply-additions a cycle, and 8 warps take some 200 cycles to dequantise 128 x 64 weights.
struct Tcgen05Tile {
  int tokens;
  int step, split_step;  // of 64 values along k, and if activations are split
  int fixed;             // of a tile besides; more if its sums are not stored while the next tile's products run
};
constexpr Tcgen05Tile kTcgen05Tiles[] = {{64, 115, 150, 700}, {128, 150, 290, 900}, {256, 290, 570, 1900}};
constexpr int kTcgen05TileCount = 3;

struct Tcgen05Tactic {
  char const* name;
  int tile;  // of kTcgen05Tiles
  bool along_n;
  int cluster_log2;
};
constexpr Tcgen05Tactic kTcgen05Tactics[] = {
    {"tcgen05_128x64", 0, false, 0},           {"tcgen05_128x64_along_n", 0, true, 0},
    {"tcgen05_128x128", 1, false, 0},          {"tcgen05_128x128_along_n", 1, true, 0},
    {"tcgen05_128x256", 2, false, 0},          {"tcgen05_128x256_along_n", 2, true, 0},
    {"tcgen05_128x64_cluster2", 0, false, 1},  {"tcgen05_128x64_cluster4", 0, false, 2},
    {"tcgen05_128x64_cluster8", 0, false, 3},  {"tcgen05_128x128_cluster2", 1, false, 1},
    {"tcgen05_128x128_cluster4", 1, false, 2}, {"tcgen05_128x128_cluster8", 1, false, 3}};
constexpr int kTcgen05TacticCount = sizeof kTcgen05Tactics / sizeof kTcgen05Tactics[0];
constexpr int kTcgen05Launch = 5000;                            // and filling the pipeline
constexpr int kTcgen05WeightsPerNs = 14000;                     // values that memory delivers in a nanosecond
constexpr int kTcgen05SplitLaunch = 2500;                       // of the kernel that splits activations
constexpr int kTcgen05SplitPerNs = 1000;                        // values split in a nanosecond
constexpr int kTcgen05Cluster = 700, kTcgen05PerCluster = 300;  // of sums of a cluster, and for each doubling
constexpr int64_t kTcgen05FewestRows = 33;                      // the rule leaves fewer rows to mma.sync

constexpr int64_t kTcgen05MaxK = INT32_MAX / 8 / 64 * 64;      // values are counted in 32 bits, twice if split
constexpr int64_t kTcgen05MaxStride = (int64_t{1} << 39) - 8;  // of a, in elements: of a tensor map

constexpr bool tcgen05_split(fp4aot_gemm_w4a16_params const& p, Format format) {
  return format == Format::kMxfp4 && p.a_dtype == FP4AOT_FP16;
}

// With a single tile along m or n both orders are the same. fp32 results need room for sums, which the largest tile has not.
constexpr bool tcgen05_valid(fp4aot_gemm_w4a16_params const& p, int number) {
  if (number < 0 || number >= kTcgen05TacticCount || p.k > kTcgen05MaxK) return false;
  if (p.m > 1 && p.a_stride > kTcgen05MaxStride) return false;
  Tcgen05Tactic const& tactic = kTcgen05Tactics[number];
  int const tokens = kTcgen05Tiles[tactic.tile].tokens;
  if (tactic.along_n && (p.m <= tokens || p.n <= kTcgen05Rows)) return false;
  if (w4a16_k_tiles(p.k) >> tactic.cluster_log2 == 0) return false;
  return p.d_dtype != FP4AOT_FP32 || tokens <= 128;
}

// The time of the CTAs with most tiles, or of the weights if memory takes longer. Both orders cost the same: the first is
// chosen.
constexpr int64_t tcgen05_cost(fp4aot_gemm_w4a16_params const& p, Format format, int number, int sms) {
  if (p.m < kTcgen05FewestRows) return INT64_MAX / 2;
  bool const split = tcgen05_split(p, format);
  Tcgen05Tactic const& tactic = kTcgen05Tactics[number];
  Tcgen05Tile const& tile = kTcgen05Tiles[tactic.tile];
  int64_t const tiles = ((p.m + tile.tokens - 1) / tile.tokens) * ((p.n + kTcgen05Rows - 1) / kTcgen05Rows);
  int64_t const at_once = clusters_at_once(tactic.cluster_log2, 1, sms), waves = (tiles + at_once - 1) / at_once;
  int64_t const k_tiles = (w4a16_k_tiles(p.k) + (1 << tactic.cluster_log2) - 1) >> tactic.cluster_log2;
  int64_t of_tile = k_tiles * (split ? tile.split_step : tile.step) + tile.fixed;
  if (tactic.cluster_log2 > 0) of_tile += kTcgen05Cluster + tactic.cluster_log2 * kTcgen05PerCluster;
  constexpr int64_t kMost = int64_t{1} << 30;  // of rows and columns that are counted: products then do not overflow
  int64_t const products = std::min(waves, kMost) * of_tile;
  int64_t const weights = std::min(p.n, kMost) * p.k / kTcgen05WeightsPerNs;
  int64_t const before = split ? kTcgen05SplitLaunch + std::min(p.m, kMost) * p.k / kTcgen05SplitPerNs : 0;
  return kTcgen05Launch + std::max(products, weights) + before;
}

}  // namespace fp4aot

#endif
