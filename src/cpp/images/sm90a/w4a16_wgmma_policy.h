// Tactics of gemm_w4a16_* on the wgmma kernel on sm90a: data and one rule, as policy.h has them for W4A4. The first
// eight follow the small-M kernel's tactics in the op's table, the others come last (w4a16_policy.h); here they count from 0:
//   2 * i + c    wgmma_128x<tokens>: tiles of 128 weight rows x kW4a16WgmmaTiles[i].tokens; c = 1: tiles may be cut along k
//   8 + i        wgmma_128x<tokens>_cluster2: the same tiles, two CTAs of a cluster share k
//   12 + 2 * i + c  wgmma_128x<tokens>_along_n: as the first eight, but neighbouring tiles are taken along n, not m
#ifndef FP4AOT_IMAGES_SM90A_W4A16_WGMMA_POLICY_H_
#define FP4AOT_IMAGES_SM90A_W4A16_WGMMA_POLICY_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "images/sm90a/policy.h"

namespace fp4aot::sm90a {

// Costs in nanoseconds, fitted to measurements on an H200; an empty kernel's launch is in none of them (rule.h).
struct W4a16WgmmaTile {
  int tokens;
  int step;   // of one step
  int fixed;  // storing the tile, as far as the next one does not hide it
  int cut;    // of a range of shared steps, besides adding parts
};
constexpr W4a16WgmmaTile kW4a16WgmmaTiles[] = {
    {64, 550, 963, 5500}, {128, 785, 248, 4300}, {192, 991, 276, 4600}, {256, 1299, 209, 6200}};
constexpr int kW4a16WgmmaTileCount = 4;
constexpr int kW4a16WgmmaFirstSplit = kW4a16WgmmaTileCount * 2;
constexpr int kW4a16WgmmaFirstAlongN = kW4a16WgmmaFirstSplit + kW4a16WgmmaTileCount;
constexpr int kW4a16WgmmaTactics = kW4a16WgmmaFirstAlongN + kW4a16WgmmaTileCount * 2;
constexpr int kW4a16WgmmaLaunch = 3800;   // and filling the pipeline
constexpr int kW4a16WgmmaBefore = 1340;   // a kernel before it, that clears counters or splits activations
constexpr int kW4a16WgmmaPart = 550;      // adding a part of 64 rows of activations
constexpr int kW4a16WgmmaLong = 3000;     // of ranges of more than a tile
constexpr int kW4a16WgmmaMissing = 98;    // of 64 rows that a copy of a step's activations does not find
constexpr int kW4a16WgmmaExchange = 200;  // of a tile whose steps two CTAs share, besides for each row of activations
constexpr int kW4a16WgmmaExchangeRow = 8;
constexpr int kW4a16WgmmaRefill = 2000;  // filling the pipeline for a further wave of such tiles, each a launch of CTAs
constexpr int kW4a16WgmmaSplit = 900;    // values split in a nanosecond: an estimate, not measured

constexpr char const* kW4a16WgmmaNames[] = {
    "wgmma_128x64",          "wgmma_128x64_cut",          "wgmma_128x128",          "wgmma_128x128_cut",
    "wgmma_128x192",         "wgmma_128x192_cut",         "wgmma_128x256",          "wgmma_128x256_cut",
    "wgmma_128x64_cluster2", "wgmma_128x128_cluster2",    "wgmma_128x192_cluster2", "wgmma_128x256_cluster2",
    "wgmma_128x64_along_n",  "wgmma_128x64_cut_along_n",  "wgmma_128x128_along_n",  "wgmma_128x128_cut_along_n",
    "wgmma_128x192_along_n", "wgmma_128x192_cut_along_n", "wgmma_128x256_along_n",  "wgmma_128x256_cut_along_n"};
static_assert(sizeof kW4a16WgmmaNames / sizeof kW4a16WgmmaNames[0] == kW4a16WgmmaTactics);

constexpr int64_t kW4a16WgmmaMaxK = INT32_MAX / 8 / 32 * 32;      // values are counted in 32 bits, twice if split
constexpr int64_t kW4a16WgmmaMaxStride = (int64_t{1} << 39) - 8;  // of a, in elements: of a tensor map

struct W4a16WgmmaTactic {
  int tile;  // index of kW4a16WgmmaTiles
  TilePlan plan;
};
constexpr W4a16WgmmaTactic w4a16_wgmma_tactic(int number) {
  bool const along_n = number >= kW4a16WgmmaFirstAlongN;
  if (!along_n && number >= kW4a16WgmmaFirstSplit)
    return {number - kW4a16WgmmaFirstSplit, {TileSharing::kSplit, false}};
  int const first = along_n ? kW4a16WgmmaFirstAlongN : 0;
  return {(number - first) / 2, {(number - first) % 2 != 0 ? TileSharing::kCut : TileSharing::kNone, along_n}};
}

constexpr bool w4a16_wgmma_split(fp4aot_gemm_w4a16_params const& p, Format format) {
  return format == Format::kMxfp4 && p.a_dtype == FP4AOT_FP16;
}

// fp32 results need the kernels that restart their partial sums (wgmma_layout.cuh), which larger tiles are not. With a
// single tile along m or n both orders are the same.
constexpr bool w4a16_wgmma_valid(fp4aot_gemm_w4a16_params const& p, int number) {
  if (number < 0 || number >= kW4a16WgmmaTactics || p.k > kW4a16WgmmaMaxK) return false;
  if (p.m > 1 && p.a_stride > kW4a16WgmmaMaxStride) return false;
  W4a16WgmmaTactic const tactic = w4a16_wgmma_tactic(number);
  int const tokens = kW4a16WgmmaTiles[tactic.tile].tokens;
  if (tactic.plan.along_n && (p.m <= tokens || p.n <= kWgmmaRows)) return false;
  return (p.d_dtype != FP4AOT_FP32 || tokens <= 128) &&
         (tactic.plan.sharing != TileSharing::kSplit || p.k > kWgmmaStep);
}

// What a tile costs along k and besides, for the CTAs that have most of them, as gemm_cost.
constexpr int64_t w4a16_wgmma_cost(fp4aot_gemm_w4a16_params const& p, Format format, int number, int sms) {
  bool const split = w4a16_wgmma_split(p, format);
  W4a16WgmmaTactic const tactic = w4a16_wgmma_tactic(number);
  TileSharing const sharing = tactic.plan.sharing;
  W4a16WgmmaTile const& tile = kW4a16WgmmaTiles[tactic.tile];
  int64_t const steps = divide_up(p.k, kWgmmaStep) << split;
  int64_t const m = std::clamp<int64_t>(p.m, 1, kMaxCost), n = std::clamp<int64_t>(p.n, 1, kMaxCost);
  int64_t const scale = divide_up(p.m, m) * divide_up(p.n, n);
  TileSchedule const schedule = schedule_tiles(m, n, steps * kWgmmaStep, tile.tokens, tactic.plan, sms);
  // Of a workspace, which has whole tiles, no row is missing.
  int64_t const missing = split ? 0 : (int64_t{schedule.m_tiles} * tile.tokens - m) / schedule.m_tiles;
  int64_t const step = tile.step + missing * kW4a16WgmmaMissing / 64;
  int64_t of_tile = divide_up(steps, schedule.split) * step + tile.fixed;
  if (schedule.split > 1) of_tile += kW4a16WgmmaExchange + tile.tokens * kW4a16WgmmaExchangeRow;
  int64_t const at_once = schedule.split > 1 ? split_clusters(schedule.pair, sms) : schedule.clusters;
  int64_t const waves = divide_up(schedule.whole, at_once);
  int64_t const whole = waves * of_tile + (schedule.split > 1 ? (waves - 1) * kW4a16WgmmaRefill : 0);
  int64_t cost = kW4a16WgmmaLaunch + whole * scale;
  if (split) cost += p.m * p.k / kW4a16WgmmaSplit;
  if (split || sharing == TileSharing::kCut) cost += kW4a16WgmmaBefore;
  int64_t const shared = schedule.tiles - schedule.whole;
  if (shared > 0) {
    // The most parts that an owner adds. A cluster with a range of more than a tile stores a tile between.
    int64_t const helpers = divide_up(schedule.sharers, shared) - (schedule.sharers % shared == 0 ? 1 : 0);
    cost += (schedule.range + (schedule.longer > 0)) * step + tile.fixed + tile.cut +
            helpers * tile.tokens / 64 * kW4a16WgmmaPart;
    if (shared > schedule.sharers) cost += tile.fixed + kW4a16WgmmaLong;
    cost += whole * scale / kCutSlower;
  }
  return cost;
}

}  // namespace fp4aot::sm90a

#endif
