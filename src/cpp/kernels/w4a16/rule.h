// Tactics of the W4A16 kernel of mma_sync.cuh, and which of them serves which problem: data and one rule.
//
// Tactics count from 0 here, in the C ABI from 1:
//   4 * i + c    mma_sync_<rows>x<tokens>_cluster<2^c>: warps of kW4a16Tiles[i], clusters of 2^c CTAs, which share k
#ifndef FP4AOT_KERNELS_W4A16_RULE_H_
#define FP4AOT_KERNELS_W4A16_RULE_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/fp4aot.h"
#include "kernels/w4a16/schedule.h"

namespace fp4aot {

// Costs in picoseconds of a multiprocessor, fitted to measurements on an H200.
struct W4a16TileCost {
  W4a16Tile tile;
  int tile_cost;   // of a row tile x k tile, and for w warps kW4a16FewWarps / w of it more
  int chain_cost;  // of a warp's k tile, however few warps there are
};
constexpr W4a16TileCost kW4a16Tiles[] = {{{1, 1}, 16500, 160000}, {{2, 2}, 22000, 330000}, {{4, 2}, 30000, 450000}};
constexpr int kW4a16TileCount = 3;
constexpr int kW4a16ClusterSizes = 4;  // 1, 2, 4, 8
constexpr int kW4a16MmaSyncTactics = kW4a16TileCount * kW4a16ClusterSizes;
// Of a launch, for each doubling of the cluster, and for each further part of k of a CTA.
constexpr int64_t kW4a16Fixed = 2900000, kW4a16PerCluster = 400000, kW4a16PerPart = 500000;
constexpr int64_t kW4a16FewWarps = 4;
constexpr int64_t kW4a16ActivationCost = 10;  // of a byte of activations

#define FP4AOT_CLUSTERS(tile) tile "_cluster1", tile "_cluster2", tile "_cluster4", tile "_cluster8"
constexpr char const* kW4a16MmaSyncNames[] = {FP4AOT_CLUSTERS("mma_sync_16x8"), FP4AOT_CLUSTERS("mma_sync_32x16"),
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

// Clusters of 2^ctas_log2 CTAs that run at once with `resident` CTAs a multiprocessor. Larger ones lie within a GPC, so
// that some multiprocessors are left over: on an H200 30 clusters of 4 run at once, not 33.
constexpr int64_t w4a16_clusters(int ctas_log2, int resident, int sms) {
  int64_t const ctas = int64_t{resident} * sms;
  return std::max<int64_t>((ctas_log2 > 1 ? ctas * 15 / 16 : ctas) >> ctas_log2, 1);
}

// The better of one and two CTAs a multiprocessor.
constexpr W4a16Plan w4a16_plan(Format format, fp4aot_gemm_w4a16_params const& p, int tactic,
                               W4a16Device const& device) {
  W4a16TileCost const& tile = device.tiles[tactic / kW4a16ClusterSizes];
  int const ctas_log2 = tactic % kW4a16ClusterSizes;
  int64_t const row_tiles = w4a16_row_tiles(std::min(p.n, kW4a16MaxN)), k_tiles = w4a16_k_tiles(p.k);
  int64_t const slices = (p.m + 8 * tile.tile.token_tiles - 1) / (8 * tile.tile.token_tiles);
  W4a16Plan best = {};
  for (int resident = 1; resident <= 2; ++resident) {
    int64_t const clusters = w4a16_clusters(ctas_log2, resident, device.sms);
    W4a16Schedule const s =
        w4a16_schedule(format, tile.tile, row_tiles, k_tiles, ctas_log2, clusters, device.max_shared);
    if (s.shared_bytes > device.max_shared) {
      if (resident == 1) best = {s, INT64_MAX};
      continue;
    }
    bool const fits = resident * (s.shared_bytes + kW4a16SharedPerCta) <= device.shared;
    if (resident > 1 && !fits) continue;
    int64_t const all = s.clusters * slices, waves = (all + clusters - 1) / clusters;
    int64_t const at_once =
        (std::min(all, clusters) * s.ctas() + device.sms - 1) / device.sms;  // CTAs a multiprocessor
    int64_t const longest = s.split + (s.longer > 0), k_of_cta = longest * s.parts;
    int64_t const warps = at_once * s.warps * s.parts;
    int64_t const tile_cost = s.group * int64_t{tile.tile_cost} * (warps + kW4a16FewWarps) / warps;
    int64_t const activations = 8 * tile.tile.token_tiles * kW4a16TileK * 2 * kW4a16ActivationCost;
    int64_t const streaming = at_once * k_of_cta * (tile_cost + activations);
    int64_t const fixed = kW4a16Fixed + kW4a16PerCluster * ctas_log2 + kW4a16PerPart * (s.parts - 1);
    int64_t const cost = fixed + waves * std::max(streaming, longest * int64_t{tile.chain_cost});
    if (resident == 1 || cost < best.cost) best = {s, cost};
  }
  return best;
}

// fp32 results: the tensor cores cut off what they add to their sums, by about 2e-8 of them for each 16 k, so that a part
// of k must not be too long for an error of 1e-6 * max(1, k / 4096).
constexpr bool w4a16_mma_sync_valid(Format format, fp4aot_gemm_w4a16_params const& p, int tactic,
                                    W4a16Device const& device) {
  if (tactic < 0 || tactic >= kW4a16MmaSyncTactics || p.k > kW4a16MaxK) return false;
  int64_t const k_tiles = w4a16_k_tiles(p.k);
  if (k_tiles >> tactic % kW4a16ClusterSizes == 0) return false;
  W4a16Schedule const s = w4a16_plan(format, p, tactic, device).schedule;
  if (s.shared_bytes > device.max_shared) return false;
  return p.d_dtype != FP4AOT_FP32 || s.split + (s.longer > 0) <= std::max<int64_t>(12, 3 * k_tiles / 16);
}

}  // namespace fp4aot

#endif
