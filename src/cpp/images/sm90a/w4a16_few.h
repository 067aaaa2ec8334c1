// gemm_w4a16_* on the kernel of kernels/w4a16/wgmma_few.cuh, in a unit of its own (w4a16_few.cu): its tactics, and what the
// ops' slots call. Tactics follow the first eight of w4a16_wgmma_policy.h in the op's table; here they count from 0:
//   3 * i + c    wgmma_64x<tokens>_cluster<2^c>: kW4a16FewTiles[i], clusters of 2^c CTAs, which share k; _groups4:
//                with CTAs of four warpgroups, two of which do not fit into a multiprocessor
#ifndef FP4AOT_IMAGES_SM90A_W4A16_FEW_H_
#define FP4AOT_IMAGES_SM90A_W4A16_FEW_H_

#include <algorithm>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "images/image.h"
#include "images/sm90a/w4a16_wgmma_policy.h"
#include "kernels/w4a16/rule.h"
#include "kernels/w4a16/wgmma_few_schedule.h"

namespace fp4aot::sm90a {

constexpr int kW4a16FewClusterSizes = 3;  // 1, 2, 4
constexpr int kW4a16FewTactics = kW4a16FewTileCount * kW4a16FewClusterSizes;
#define FP4AOT_CLUSTERS(tile) tile "_cluster1", tile "_cluster2", tile "_cluster4"
constexpr char const* kW4a16FewNames[] = {FP4AOT_CLUSTERS("wgmma_64x8"),          FP4AOT_CLUSTERS("wgmma_64x16"),
                                          FP4AOT_CLUSTERS("wgmma_64x32"),         FP4AOT_CLUSTERS("wgmma_64x64"),
                                          FP4AOT_CLUSTERS("wgmma_64x64_groups4"), FP4AOT_CLUSTERS("wgmma_64x128")};
#undef FP4AOT_CLUSTERS
static_assert(sizeof kW4a16FewNames / sizeof kW4a16FewNames[0] == kW4a16FewTactics);

// Costs in picoseconds, fitted to measurements on an H200; an empty kernel's launch is in none of them (rule.h).
struct W4a16FewCost {
  int block;  // of a row block x k tile, if a multiprocessor has others
  int chain;  // of a warpgroup's k tile besides
  int fixed;  // of a launch, filling the pipeline, and storing
};
constexpr W4a16FewCost kW4a16FewCosts[] = {{56200, 69200, 3100000},  {81800, 71900, 3700000},
                                           {85700, 129800, 2690000}, {90600, 171000, 3350000},
                                           {103500, 86000, 4110000}, {75900, 345100, 3150000}};
static_assert(sizeof kW4a16FewCosts / sizeof kW4a16FewCosts[0] == kW4a16FewTileCount);
constexpr int64_t kW4a16FewPerCluster = 658000;    // for each doubling of the cluster
constexpr int64_t kW4a16FewPerPart = 20000;        // for each further part of k of a CTA
constexpr int64_t kW4a16FewPerWave = 780000;       // of each further wave of CTAs
constexpr int64_t kW4a16FewPerResident = 1930000;  // of a CTA that shares a multiprocessor with one before it
constexpr int64_t kW4a16FewActivations = 124;      // of a token of a part's k tile, which its row blocks share
constexpr int64_t kW4a16FewMxfpPercent = 103;      // of the costs of blocks and chains
constexpr int64_t kW4a16FewMissing = 390;          // of a row that a copy of a k tile's activations does not find

// max_shared: two CTAs a multiprocessor.
constexpr W4a16Device w4a16_device(int sms) { return {sms, kMultiprocessorShared, 110 * 1024}; }

struct W4a16FewPlan {
  W4a16FewSchedule schedule;
  int64_t clusters;  // that the schedule has at a time
  int64_t cost;      // nanoseconds
};

// A tactic's schedule, for all launches of a problem: the better of those for one and for two CTAs a multiprocessor. A
// warpgroup's k tiles come in whole slots, and the warpgroups of a multiprocessor take turns.
constexpr W4a16FewPlan w4a16_few_plan(fp4aot_gemm_w4a16_params const& p, Format format, int tactic, int sms) {
  W4a16FewTile const& tile = kW4a16FewTiles[tactic / kW4a16FewClusterSizes];
  W4a16FewCost const& costs = kW4a16FewCosts[tactic / kW4a16FewClusterSizes];
  int const ctas_log2 = tactic % kW4a16FewClusterSizes;
  int64_t const row_tiles = w4a16_row_tiles(std::min(p.n, kW4a16MaxN)), k_tiles = w4a16_k_tiles(p.k);
  int64_t const running = clusters_at_once(ctas_log2, 1, sms), slices = divide_up(p.m, tile.tokens);
  W4a16FewPlan best = {};
  for (int resident = 1; resident <= tile.planned; ++resident) {
    int64_t const clusters = clusters_at_once(ctas_log2, resident, sms);
    W4a16FewSchedule const s = w4a16_few_schedule(format, tile, row_tiles, k_tiles, ctas_log2, clusters);
    int64_t const longest = divide_up(s.split + (s.longer > 0), tile.slot_tiles) * tile.slot_tiles;
    int64_t const groups = int64_t{s.groups} * s.parts;
    int64_t const at_once = std::clamp<int64_t>(w4a16_device(sms).shared / (s.shared_bytes + kW4a16SharedPerCta), 1,
                                                tile.resident * tile.groups / groups);
    int64_t const of_multiprocessor = divide_up(s.clusters * slices, running);  // CTAs
    auto const wave = [&](int64_t ctas) {
      int64_t const activations = kW4a16FewActivations * tile.tokens * s.parts;  // of a CTA's k tile
      return longest * (costs.chain + (costs.block * groups + activations) * ctas) + kW4a16FewPerResident * (ctas - 1);
    };
    int64_t const full = of_multiprocessor / at_once, rest = of_multiprocessor % at_once, waves = full + (rest > 0);
    int64_t const streaming = full * wave(at_once) + (rest > 0 ? wave(rest) : 0);
    int64_t const missing = (slices * tile.tokens - p.m) * longest * kW4a16FewMissing * waves;
    int64_t const percent = format == Format::kMxfp4 ? kW4a16FewMxfpPercent : 100;
    int64_t const cost = (costs.fixed + kW4a16FewPerCluster * ctas_log2 + kW4a16FewPerPart * (s.parts - 1) +
                          kW4a16FewPerWave * (waves - 1) + missing + streaming * percent / 100) /
                         1000;
    if (resident == 1 || cost < best.cost) best = {s, clusters, cost};
  }
  return best;
}

constexpr int64_t w4a16_few_cost(fp4aot_gemm_w4a16_params const& p, Format format, int tactic, int sms) {
  return w4a16_few_plan(p, format, tactic, sms).cost;
}

// fp32 results: a part of k must not be too long (rule.h).
constexpr bool w4a16_few_valid(fp4aot_gemm_w4a16_params const& p, Format format, int tactic, int sms) {
  if (tactic < 0 || tactic >= kW4a16FewTactics || p.k > kW4a16MaxK) return false;
  if (format == Format::kMxfp4 && p.a_dtype == FP4AOT_FP16) return false;
  if (p.m > 1 && p.a_stride > kW4a16WgmmaMaxStride) return false;
  int64_t const k_tiles = w4a16_k_tiles(p.k);
  if (k_tiles >> tactic % kW4a16FewClusterSizes == 0) return false;
  if (p.d_dtype != FP4AOT_FP32) return true;
  W4a16FewSchedule const s = w4a16_few_plan(p, format, tactic, sms).schedule;
  return s.split + (s.longer > 0) <= std::max<int64_t>(12, 3 * k_tiles / 16);
}

template <Format kFormat>
struct W4a16Few {
  static fp4aot_status launch(fp4aot_gemm_w4a16_params const& p, int tactic, int sms, Message* message);
  static void preload(int device);
};
extern template struct W4a16Few<Format::kNvfp4>;
extern template struct W4a16Few<Format::kMxfp4>;

}  // namespace fp4aot::sm90a

#endif
