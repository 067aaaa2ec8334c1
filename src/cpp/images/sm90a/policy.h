// Which W4A4 kernel serves which problem on sm90a: data and one rule.
//
// A tactic is a tile of 256 weight rows x 8..128 activation rows and a number of CTAs (a cluster) that share the
// k range of a tile. Number = 8 * (index in kGemmTiles) + splits - 1.
#ifndef FP4AOT_IMAGES_SM90A_POLICY_H_
#define FP4AOT_IMAGES_SM90A_POLICY_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/fp4aot.h"

namespace fp4aot::sm90a {

constexpr int kGemmRows = 256;
constexpr int kGemmStep = 128;     // values along k that a CTA handles at once
constexpr int kGemmMaxSplits = 8;

// Costs in clock cycles of one multiprocessor, fitted to measurements on an H200.
struct GemmTile {
  int tokens;
  int step_cycles;    // one step of 128 values
  int fixed_cycles;   // filling the pipeline, storing the tile
  int reduce_cycles;  // more for a split tile with all rows in use
};
constexpr GemmTile kGemmTiles[] = {
    {8, 750, 2000, 1200}, {16, 780, 2000, 1400}, {32, 850, 2200, 1800}, {64, 1100, 2600, 2600}, {128, 2150, 4000, 5000}};
constexpr int kGemmTileCount = sizeof kGemmTiles / sizeof kGemmTiles[0];
constexpr int kGemmTacticCount = kGemmTileCount * kGemmMaxSplits;
constexpr int kGemmBytesACycle = 2300;  // of device memory, all multiprocessors together

constexpr GemmTile const& gemm_tile(int tactic) { return kGemmTiles[tactic / kGemmMaxSplits]; }
constexpr int gemm_splits(int tactic) { return tactic % kGemmMaxSplits + 1; }

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t gemm_tiles(GemmTile const& tile, int64_t m, int64_t n) {
  return divide_up(m, tile.tokens) * divide_up(n, kGemmRows);
}

// Every split needs a step. fp32 results need the kernels that restart their partial sums (wgmma_layout.cuh), which the
// largest tile is not. A split problem is one launch of a CTA for each tile and split.
constexpr bool gemm_tactic_valid(fp4aot_gemm_params const& p, int tactic) {
  if (tactic < 0 || tactic >= kGemmTacticCount) return false;
  GemmTile const& tile = gemm_tile(tactic);
  int const splits = gemm_splits(tactic);
  if (p.d_dtype == FP4AOT_FP32 && tile.tokens > 64) return false;
  return splits == 1 || (splits <= divide_up(p.k, kGemmStep) && gemm_tiles(tile, p.m, p.n) * splits <= 0x7FFFFFFF);
}

// Clusters must lie within a group of 16 (a few: 18) multiprocessors.
constexpr int64_t gemm_resident_ctas(int sms, int splits) {
  return splits <= 2 ? sms : int64_t{sms} / 16 * (16 / splits) * splits;
}

// Waves of CTAs times a CTA's cost, but never less than reading the operands takes.
constexpr int64_t gemm_cost(fp4aot_gemm_params const& p, int tactic, int sms, int64_t bytes) {
  GemmTile const& tile = gemm_tile(tactic);
  int const splits = gemm_splits(tactic);
  int64_t const waves = divide_up(gemm_tiles(tile, p.m, p.n) * splits, gemm_resident_ctas(sms, splits));
  int64_t const used = std::min<int64_t>(p.m, tile.tokens);
  int64_t const work = divide_up(divide_up(p.k, kGemmStep), splits) * tile.step_cycles;
  int64_t const reduce = splits > 1 ? 800 + (tile.reduce_cycles - 800) * used / tile.tokens : 0;
  return std::max(waves * work, bytes / kGemmBytesACycle) + waves * (tile.fixed_cycles + reduce);
}

// The cheapest valid tactic; the first of equals.
constexpr int32_t gemm_default_tactic(fp4aot_gemm_params const& p, int sms) {
  int64_t const bytes = (p.m + p.n) * p.k / 2;
  int32_t best = 0;
  int64_t best_cost = INT64_MAX;
  for (int32_t tactic = 0; tactic < kGemmTacticCount; ++tactic) {
    if (!gemm_tactic_valid(p, tactic)) continue;
    int64_t const cost = gemm_cost(p, tactic, sms, bytes);
    if (cost < best_cost) best = tactic, best_cost = cost;
  }
  return best;
}

}  // namespace fp4aot::sm90a

#endif
