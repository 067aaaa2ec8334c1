// Which W4A4 kernel serves which problem on sm90a: data and one rule.
//
// Tactic numbers (stable). Here they count from 0, in the C ABI from 1 (there 0 is the default): gemm_slot.cuh converts.
//   8 * i + s - 1       wgmma_256x<tokens>: tiles of 256 weight rows x kWgmmaTiles[i].tokens; s CTAs, a cluster, share k
//   24 + 2 * i + w      mma_sync_<rows>x<tokens> of kMmaSyncTiles[i], CTAs of at most 8 << w warps, which share k
#ifndef FP4AOT_IMAGES_SM90A_POLICY_H_
#define FP4AOT_IMAGES_SM90A_POLICY_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/fp4aot.h"

namespace fp4aot::sm90a {

constexpr int kGemmStep = 128;  // values along k that both kernels handle at once

// Costs in nanoseconds, fitted to measurements on an H200 (132 multiprocessors).
struct WgmmaTile {
  int tokens;
  int step;   // of one step
  int fixed;  // filling the pipeline and storing the tile
  int split;  // instead of `fixed`, for a tile split over a cluster
};
constexpr WgmmaTile kWgmmaTiles[] = {{32, 950, 4700, 7700}, {64, 1240, 9000, 10500}, {128, 1550, 12000, 13400}};
constexpr int kWgmmaTileCount = 3;
constexpr int kWgmmaRows = 256;
constexpr int kWgmmaMaxSplits = 8;
constexpr int kWgmmaTactics = kWgmmaTileCount * kWgmmaMaxSplits;

struct MmaSyncTile {
  int rows, tokens;
  int step;  // of one step of a CTA, however many share a multiprocessor
  int fixed;
  int resident;  // CTAs of 8 warps on a multiprocessor
};
constexpr MmaSyncTile kMmaSyncTiles[] = {{32, 8, 106, 3100, 2}, {32, 16, 135, 2700, 2}, {32, 32, 208, 3800, 1},
                                         {56, 8, 168, 3600, 2}, {56, 16, 208, 5000, 1}, {56, 32, 285, 6100, 1}};
constexpr int kMmaSyncTileCount = 6;

constexpr int kGemmTacticCount = kWgmmaTactics + kMmaSyncTileCount * 2;

struct GemmTactic {
  bool mma_sync;
  int tile;  // index of the kernel's tiles
  int tokens;
  int splits;  // wgmma
  int warps;   // mma_sync
};

constexpr GemmTactic gemm_tactic(int number) {
  if (number < kWgmmaTactics) {
    int const tile = number / kWgmmaMaxSplits;
    return {false, tile, kWgmmaTiles[tile].tokens, number % kWgmmaMaxSplits + 1, 0};
  }
  int const tile = (number - kWgmmaTactics) / 2;
  return {true, tile, kMmaSyncTiles[tile].tokens, 1, 8 << (number - kWgmmaTactics) % 2};
}

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// wgmma: every split needs a step; fp32 results need the kernels that restart their partial sums (wgmma_layout.cuh), which
// the largest tile is not; a split problem is one launch with a CTA for each tile and split.
// mma_sync counts a row's bytes and values in 32 bits.
constexpr bool gemm_tactic_valid(fp4aot_gemm_params const& p, int number) {
  if (number < 0 || number >= kGemmTacticCount) return false;
  GemmTactic const tactic = gemm_tactic(number);
  if (tactic.mma_sync) return std::max(p.a_stride, p.b_stride) <= INT32_MAX && p.k <= INT32_MAX / 8;
  if (p.d_dtype == FP4AOT_FP32 && tactic.tokens > 64) return false;
  if (tactic.splits == 1) return true;
  return tactic.splits <= divide_up(p.k, kGemmStep) &&
         divide_up(p.m, tactic.tokens) * divide_up(p.n, kWgmmaRows) * tactic.splits <= 0x7FFFFFFF;
}

// CTAs of clusters that run at once, out of 132: a cluster lies within a group of up to 18 multiprocessors. (Measured.)
constexpr int kResidentOf132[kWgmmaMaxSplits] = {132, 132, 117, 120, 110, 102, 105, 120};

// Waves of CTAs times a CTA's cost.
constexpr int64_t gemm_cost(fp4aot_gemm_params const& p, GemmTactic tactic, int sms) {
  int64_t const steps = divide_up(p.k, kGemmStep);
  if (tactic.mma_sync) {
    MmaSyncTile const& tile = kMmaSyncTiles[tactic.tile];
    int64_t const ctas = divide_up(p.m, tile.tokens) * divide_up(p.n, tile.rows);
    int64_t const per_sm = divide_up(ctas, sms);
    int64_t const resident = tactic.warps > 8 ? 1 : tile.resident;
    int64_t const cost = divide_up(per_sm, resident) * tile.fixed + per_sm * steps * tile.step;
    return tactic.warps > 8 ? cost + cost / 32 : cost;  // more warps have more to set up, and were never faster
  }
  WgmmaTile const& tile = kWgmmaTiles[tactic.tile];
  int64_t const ctas = divide_up(p.m, tile.tokens) * divide_up(p.n, kWgmmaRows) * tactic.splits;
  int64_t const waves = divide_up(ctas, std::max(1, sms * kResidentOf132[tactic.splits - 1] / 132));
  return waves * (divide_up(steps, tactic.splits) * tile.step + (tactic.splits > 1 ? tile.split : tile.fixed));
}

// The cheapest valid tactic; the first of equals.
constexpr int32_t gemm_default_tactic(fp4aot_gemm_params const& p, int sms) {
  int32_t best = 0;
  int64_t best_cost = INT64_MAX;
  for (int32_t number = 0; number < kGemmTacticCount; ++number) {
    if (!gemm_tactic_valid(p, number)) continue;
    int64_t const cost = gemm_cost(p, gemm_tactic(number), sms);
    if (cost < best_cost) best = number, best_cost = cost;
  }
  return best;
}

}  // namespace fp4aot::sm90a

#endif
