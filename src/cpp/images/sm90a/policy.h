// Which W4A4 kernel serves which problem on sm90a: data and one rule.
//
// Tactic numbers (stable). Here they count from 0, in the C ABI from 1 (there 0 is the default): gemm_slot.cuh converts.
//   2 * i + c    wgmma_128x<tokens>: tiles of 128 weight rows x kWgmmaTiles[i].tokens; c = 1: tiles may be cut along k
//   8 + 2 * i + w    mma_sync_<rows>x<tokens> of kMmaSyncTiles[i], CTAs of at most 8 << w warps, which share k
//   20 + i       wgmma_stream_<rows>x<tokens> of kStreamTiles[i]; a cluster shares k
//   26 + i       wgmma_stream_<rows>x<tokens>_cut of kStreamCuts[i]; tiles are cut along k
#ifndef FP4AOT_IMAGES_SM90A_POLICY_H_
#define FP4AOT_IMAGES_SM90A_POLICY_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/fp4aot.h"
#include "kernels/gemm/stream_schedule.h"

namespace fp4aot::sm90a {

constexpr int kGemmStep = 128;  // values along k that both kernels handle at once

// Costs in nanoseconds, fitted to measurements on an H200 (132 multiprocessors).
struct WgmmaTile {
  int tokens;
  int step;   // of one step
  int fixed;  // storing the tile, as far as the next one does not hide it
  int cut;    // adding the parts of shared tiles
};
constexpr WgmmaTile kWgmmaTiles[] = {
    {64, 545, 1704, 5734}, {128, 778, 1057, 6750}, {192, 1002, 590, 8426}, {256, 1224, 1199, 12163}};
constexpr int kWgmmaTileCount = 4;
constexpr int kWgmmaTactics = kWgmmaTileCount * 2;
constexpr int kWgmmaLaunch = 6000;    // both kernels, and filling the pipeline
constexpr int kWgmmaExpanded = 1800;  // values expanded in a nanosecond
constexpr int kWgmmaPart = 70;        // adding a part of 64 rows
// Whole tiles before cut ones take so much longer (a 64th), as no multiprocessor idles and the clock falls.
constexpr int kCutSlower = 64;

struct MmaSyncTile {
  int rows, tokens;
  int step;  // of one step of a CTA, however many share a multiprocessor
  int fixed;
  int resident;  // CTAs of 8 warps on a multiprocessor
};
constexpr MmaSyncTile kMmaSyncTiles[] = {{32, 8, 83, 3200, 2},  {32, 16, 105, 3280, 2}, {32, 32, 157, 4100, 2},
                                         {56, 8, 137, 3600, 2}, {56, 16, 181, 3730, 1}, {56, 32, 269, 4610, 1}};
constexpr int kMmaSyncTileCount = 6;
constexpr int kMmaSyncMoreWarps = 1500;  // setting up 16, which take less time a step if their CTAs are one wave

struct StreamTile {
  int rows, tokens, slots;
  int round;  // of 128 values for each of its 4 warpgroups
  int fixed;
  constexpr int depth_groups() const { return 256 / rows; }  // warpgroups that share k
};
constexpr StreamTile kStreamTiles[] = {{64, 16, 4, 755, 4000},  {128, 16, 3, 687, 3950}, {128, 32, 3, 751, 4277},
                                       {256, 32, 3, 720, 5682}, {128, 64, 4, 907, 5363}, {256, 64, 3, 883, 7067}};
constexpr int kStreamTileCount = 6;
constexpr int kStreamFirst = kWgmmaTactics + kMmaSyncTileCount * 2;
struct StreamCutTile {
  int tile;   // of kStreamTiles
  int round;  // as there, but with every multiprocessor busy
  int fixed;  // with the adding of parts
};
constexpr StreamCutTile kStreamCuts[] = {{1, 800, 5026}, {2, 880, 5735}};
constexpr int kStreamCutCount = 2;
constexpr int kStreamCutFirst = kStreamFirst + kStreamTileCount;
constexpr int kStreamCluster = 300;   // adding sums of several CTAs
constexpr int kStreamMeasuredM = 64;  // with more rows it must be clearly cheaper
// Clusters of 1, 2, .. 8 CTAs, of which a multiprocessor holds one, at a time on an H200: they lie within its GPCs.
constexpr int kStreamMaxSlices = 8;
constexpr int kStreamClusters[kStreamMaxSlices] = {132, 66, 39, 30, 22, 17, 15, 15};
constexpr int kStreamClustersOf = 132;  // multiprocessors

constexpr int kGemmTacticCount = kStreamCutFirst + kStreamCutCount;

enum class GemmKernel { kWgmma, kMmaSync, kStream, kStreamCut };

struct GemmTactic {
  GemmKernel kernel;
  int tile;  // index of the kernel's tiles; kStreamCut: of kStreamCuts
  int tokens;
  bool cut;   // wgmma: tiles may be shared
  int warps;  // mma_sync
};

constexpr GemmTactic gemm_tactic(int number) {
  if (number < kWgmmaTactics)
    return {GemmKernel::kWgmma, number / 2, kWgmmaTiles[number / 2].tokens, number % 2 != 0, 0};
  if (number >= kStreamCutFirst) {
    int const cut = number - kStreamCutFirst;
    return {GemmKernel::kStreamCut, cut, kStreamTiles[kStreamCuts[cut].tile].tokens, true, 0};
  }
  if (number >= kStreamFirst)
    return {GemmKernel::kStream, number - kStreamFirst, kStreamTiles[number - kStreamFirst].tokens, false, 0};
  int const tile = (number - kWgmmaTactics) / 2;
  return {GemmKernel::kMmaSync, tile, kMmaSyncTiles[tile].tokens, false, 8 << (number - kWgmmaTactics) % 2};
}

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The largest problem: wgmma counts values in 32 bits, and reads B through a tensor map, whose strides are less than 2^40.
constexpr int64_t kGemmMaxK = INT32_MAX / 4 / 32 * 32;
constexpr int64_t kGemmMaxBStride = (int64_t{1} << 40) - 16;  // bytes

// wgmma: fp32 results need the kernels that restart their partial sums (wgmma_layout.cuh), which larger tiles are not.
// mma_sync counts a row's bytes and values in 32 bits, wgmma_stream all rounds of a launch; and it does not restart either.
constexpr bool gemm_tactic_valid(fp4aot_gemm_params const& p, int number) {
  if (number < 0 || number >= kGemmTacticCount) return false;
  GemmTactic const tactic = gemm_tactic(number);
  if (tactic.kernel == GemmKernel::kMmaSync)
    return std::max(p.a_stride, p.b_stride) <= INT32_MAX && p.k <= INT32_MAX / 8;
  if (tactic.kernel == GemmKernel::kStream || tactic.kernel == GemmKernel::kStreamCut)
    return p.k <= kStreamMaxK && p.d_dtype != FP4AOT_FP32;
  return p.k <= kGemmMaxK && p.b_stride <= kGemmMaxBStride && (p.d_dtype != FP4AOT_FP32 || tactic.tokens <= 128);
}

constexpr int64_t kMaxCost = int64_t{1} << 18;  // more rows or columns count as so many launches

// What wgmma_stream costs with `slices` slices of k.
constexpr int64_t stream_cost(fp4aot_gemm_params const& p, StreamTile const& tile, int slices, int sms) {
  int64_t const clusters = std::max<int64_t>(1, int64_t{kStreamClusters[slices - 1]} * sms / kStreamClustersOf);
  int64_t const waves = divide_up(divide_up(p.m, tile.tokens) * divide_up(p.n, tile.rows), clusters);
  int64_t const rounds = divide_up(divide_up(divide_up(p.k, kGemmStep), slices), tile.depth_groups());
  return waves * (tile.fixed + rounds * tile.round + (slices > 1 ? kStreamCluster : 0));
}

// The cheapest number of slices; the first of equals.
constexpr int stream_slices(fp4aot_gemm_params const& p, StreamTile const& tile, int sms) {
  int best = 1;
  for (int slices = 2; slices <= kStreamMaxSlices; ++slices)
    if (stream_cost(p, tile, slices, sms) < stream_cost(p, tile, best, sms)) best = slices;
  return best;
}

// What a tile costs along k and besides, for the CTAs that have most of them.
constexpr int64_t gemm_cost(fp4aot_gemm_params const& p, GemmTactic tactic, int sms) {
  int64_t const steps = divide_up(p.k, kGemmStep);
  if (tactic.kernel == GemmKernel::kStream) {
    StreamTile const& tile = kStreamTiles[tactic.tile];
    int64_t const cost = stream_cost(p, tile, stream_slices(p, tile, sms), sms);
    return p.m > kStreamMeasuredM ? cost + cost / 16 : cost;
  }
  if (tactic.kernel == GemmKernel::kStreamCut) {
    StreamCutTile const& cut = kStreamCuts[tactic.tile];
    StreamTile const& tile = kStreamTiles[cut.tile];
    int64_t const tiles = divide_up(p.m, tile.tokens) * divide_up(p.n, tile.rows);
    int64_t const rounds = divide_up(tiles * divide_up(p.k, kGemmStep * tile.depth_groups()), sms);
    int64_t const cost = cut.fixed + rounds * cut.round;
    return p.m > kStreamMeasuredM ? cost + cost / 16 : cost;
  }
  if (tactic.kernel == GemmKernel::kMmaSync) {
    MmaSyncTile const& tile = kMmaSyncTiles[tactic.tile];
    int64_t const ctas = divide_up(p.m, tile.tokens) * divide_up(p.n, tile.rows);
    int64_t const per_sm = divide_up(ctas, sms);
    int64_t const resident = tactic.warps > 8 ? 1 : tile.resident;
    int64_t const cost = divide_up(per_sm, resident) * tile.fixed + per_sm * steps * tile.step;
    if (tactic.warps <= 8) return cost;
    return per_sm == 1 ? cost - cost / 12 + kMmaSyncMoreWarps : cost + cost / 32;
  }
  WgmmaTile const& tile = kWgmmaTiles[tactic.tile];
  int64_t const m = std::clamp<int64_t>(p.m, 1, kMaxCost), n = std::clamp<int64_t>(p.n, 1, kMaxCost);
  int64_t const scale = divide_up(p.m, m) * divide_up(p.n, n);
  TileSchedule const schedule = schedule_tiles(m, n, p.k, tile.tokens, tactic.cut, sms);
  int64_t const whole = divide_up(schedule.whole, schedule.clusters) * (steps * tile.step + tile.fixed);
  int64_t cost = kWgmmaLaunch + p.m * p.k / kWgmmaExpanded + whole * scale;
  if (schedule.whole < schedule.tiles) {
    cost += (schedule.range + (schedule.longer > 0)) * int64_t{tile.step} + tile.fixed + tile.cut +
            int64_t{schedule.clusters} * tile.tokens / 64 * kWgmmaPart / schedule.tiles + whole * scale / kCutSlower;
  }
  return cost;
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
