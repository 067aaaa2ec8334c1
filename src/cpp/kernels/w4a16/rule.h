// Tactics of the W4A16 kernel of mma_sync.cuh, and which of them serves which problem: data and one rule.
//
// Tactics count from 0 here, in the C ABI from 1:
//   4 * i + c    mma_sync_<rows>x<tokens>_cluster<2^c>: warps of kW4a16Tiles[i], clusters of 2^c CTAs, which share k
#ifndef FP4AOT_KERNELS_W4A16_RULE_H_
#define FP4AOT_KERNELS_W4A16_RULE_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/fp4aot.h"
#include "kernels/residency.h"
#include "kernels/w4a16/schedule.h"

namespace fp4aot {

// Costs in picoseconds, fitted to measurements on an H200; an empty kernel's launch is in none of them.
struct W4a16TileCost {
  W4a16Tile tile;
  int tile_cost;   // of a row tile x k tile; warps that do as much as kW4a16IdleTiles of them never overlap with others
  int chain_cost;  // of a warp's k tile, however few warps a multiprocessor has
  int fixed;       // of a launch, and filling the pipeline
  int part_cost;   // of a second, third and fourth part of k of a CTA
};
constexpr W4a16TileCost kW4a16Tiles[] = {{{1, 1}, 15300, 231000, 2930000, 92000},
                                         {{2, 1}, 19550, 227000, 2646000, 600000},
                                         {{4, 2}, 32500, 464000, 3100000, 640000}};
constexpr int kW4a16TileCount = 3;
constexpr int kW4a16ClusterSizes = 4;  // 1, 2, 4, 8
constexpr int kW4a16MmaSyncTactics = kW4a16TileCount * kW4a16ClusterSizes;
constexpr int64_t kW4a16PerFurtherPart = 180000;  // of a fifth to an eighth one; others hide behind them
constexpr int64_t kW4a16PerWave = 1810000;        // of each further wave of CTAs
constexpr int64_t kW4a16PerResident = 62000;      // of a CTA that shares a multiprocessor with one before it
constexpr int64_t kW4a16PerAhead = 10500;  // of 1000 bytes of activations that a multiprocessor asks for at the start
constexpr int64_t kW4a16IdleTiles = 135;   // hundredths
// Of the costs of tiles and chains.
constexpr int64_t kW4a16MxfpPercent = 106;

#define FP4AOT_CLUSTERS(tile) tile "_cluster1", tile "_cluster2", tile "_cluster4", tile "_cluster8"
constexpr char const* kW4a16MmaSyncNames[] = {FP4AOT_CLUSTERS("mma_sync_16x8"), FP4AOT_CLUSTERS("mma_sync_16x16"),
                                              FP4AOT_CLUSTERS("mma_sync_32x32")};
#undef FP4AOT_CLUSTERS
static_assert(sizeof kW4a16MmaSyncNames / sizeof kW4a16MmaSyncNames[0] == kW4a16MmaSyncTactics);

// What a device gives its CTAs.
struct W4a16Device {
  int sms;
  uint32_t shared;                           // bytes of a multiprocessor
  uint32_t max_shared;                       // of a CTA
  W4a16TileCost const* tiles = kW4a16Tiles;  // the same tiles, with this device's costs
};

constexpr int64_t kW4a16MaxK = INT32_MAX / kW4a16TileK * kW4a16TileK;
constexpr int64_t kW4a16MaxN = int64_t{1} << 30;  // of one launch; larger ones are split
constexpr int64_t kW4a16SharedPerCta = 1024;      // that the system takes

struct W4a16Plan {
  W4a16Schedule schedule;
  int64_t cost;
};

// fp32 results: the tensor cores cut off what they add to their sums, by about 2e-8 of them for each 16 k, so that a part
// of k must not be too long for an error of 1e-6 * max(1, k / 4096).
constexpr bool w4a16_is_exact(fp4aot_gemm_w4a16_params const& p, W4a16Schedule const& s) {
  return p.d_dtype != FP4AOT_FP32 || s.split + (s.longer > 0) <= std::max<int64_t>(12, 3 * w4a16_k_tiles(p.k) / 16);
}

// The better of one and two CTAs a multiprocessor. A warp's k tiles come in whole slots, and warps wait for each other.
constexpr W4a16Plan w4a16_plan(Format format, fp4aot_gemm_w4a16_params const& p, int tactic,
                               W4a16Device const& device) {
  W4a16TileCost const& tile = device.tiles[tactic / kW4a16ClusterSizes];
  int const ctas_log2 = tactic % kW4a16ClusterSizes;
  int64_t const row_tiles = w4a16_row_tiles(std::min(p.n, kW4a16MaxN)), k_tiles = w4a16_k_tiles(p.k);
  int64_t const slices = (p.m + 8 * tile.tile.token_tiles - 1) / (8 * tile.tile.token_tiles);
  W4a16Plan best = {};
  for (int resident = 1; resident <= 2; ++resident) {
    int64_t const clusters = clusters_at_once(ctas_log2, resident, device.sms);
    W4a16Schedule const s =
        w4a16_schedule(format, tile.tile, row_tiles, k_tiles, ctas_log2, clusters, device.max_shared, p.m);
    if (s.shared_bytes > device.max_shared) {
      if (resident == 1) best = {s, INT64_MAX};
      continue;
    }
    bool const fits = resident * (s.shared_bytes + kW4a16SharedPerCta) <= device.shared;
    if (resident > 1 && !fits) continue;
    int64_t const at_once = 2 * (s.shared_bytes + kW4a16SharedPerCta) <= device.shared ? 2 : 1;
    int64_t const running = clusters_at_once(ctas_log2, 1, device.sms);
    int64_t const of_multiprocessor = (s.clusters * slices + running - 1) / running;  // CTAs
    int64_t const slot = w4a16_slot_tiles(tile.tile.row_tiles);
    int64_t const longest = (s.split + (s.longer > 0) + slot - 1) / slot * slot;
    int64_t const of_cta = int64_t{s.warps} * s.parts * tile.tile.row_tiles;  // row tiles, those of idle warps too
    auto const wave = [&](int64_t ctas) {
      return longest *
                 std::max<int64_t>(tile.chain_cost, tile.tile_cost * (ctas * of_cta * 100 + kW4a16IdleTiles) / 100) +
             kW4a16PerResident * (ctas - 1);
    };
    int64_t const full = of_multiprocessor / at_once, rest = of_multiprocessor % at_once;
    int64_t const streaming = full * wave(at_once) + (rest > 0 ? wave(rest) : 0);
    int64_t const waves = full + (rest > 0);
    int64_t const percent = format == Format::kMxfp4 ? kW4a16MxfpPercent : 100;
    int64_t const ahead = std::min(of_multiprocessor, at_once) * s.parts * s.buffers * s.buffer_bytes;
    int64_t const cost = tile.fixed + tile.part_cost * std::min<int64_t>(s.parts - 1, 3) +
                         kW4a16PerFurtherPart * std::clamp<int64_t>(int64_t{s.parts} - 4, 0, 4) +
                         kW4a16PerAhead * ahead / 1000 + kW4a16PerWave * (waves - 1) + streaming * percent / 100;
    bool const exact = w4a16_is_exact(p, s), best_is = w4a16_is_exact(p, best.schedule);
    if (resident == 1 || exact > best_is || (exact == best_is && cost < best.cost)) best = {s, cost};
  }
  return best;
}

constexpr bool w4a16_mma_sync_valid(Format format, fp4aot_gemm_w4a16_params const& p, int tactic,
                                    W4a16Device const& device) {
  if (tactic < 0 || tactic >= kW4a16MmaSyncTactics || p.k > kW4a16MaxK) return false;
  int64_t const k_tiles = w4a16_k_tiles(p.k);
  if (k_tiles >> tactic % kW4a16ClusterSizes == 0) return false;
  W4a16Schedule const s = w4a16_plan(format, p, tactic, device).schedule;
  return s.shared_bytes <= device.max_shared && w4a16_is_exact(p, s);
}

}  // namespace fp4aot

#endif
