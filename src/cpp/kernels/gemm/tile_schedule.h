// Which clusters of CTAs compute which tiles of a product (wgmma.cuh), for host and device.
#ifndef FP4AOT_KERNELS_GEMM_TILE_SCHEDULE_H_
#define FP4AOT_KERNELS_GEMM_TILE_SCHEDULE_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/formats.h"
#include "kernels/residency.h"

namespace fp4aot {

constexpr int kWgmmaRows = 128;  // weight rows of a CTA's tile
constexpr int kWgmmaStep = 128;  // values along k

// Divides by a number that the host knows, without the machine's dozens of instructions. For 0 <= x < 2^31.
struct Divisor {
  int32_t value;
  uint32_t multiplier;
  int32_t shift;

  Divisor() = default;
  // of > 0. With 2^(s - 1) < of <= 2^s the error of the multiplier 2^(31 + s) / of, rounded up, is less than 2^s / 2^31 of x.
  explicit Divisor(int32_t of) : value(of), multiplier(0), shift(31) {
    while ((int64_t{1} << (shift - 31)) < of) ++shift;
    multiplier = static_cast<uint32_t>((uint64_t{1} << shift) / static_cast<uint32_t>(of) + 1);
  }
  FP4AOT_HOST_DEVICE int32_t operator()(int32_t x) const {
    return static_cast<int32_t>((uint64_t{static_cast<uint32_t>(x)} * multiplier) >> shift);
  }
};

// Tiles below `whole` are taken in turn, one cluster each; the steps of the others are cut into ranges, one for each of the
// first `sharers` clusters, so that none idles while the last tiles are computed. A range has less than two tiles. If it begins
// inside of one, these steps come first of all that the cluster does; if it ends inside of one, those come last. Who has a
// tile's first steps is its owner: it adds the others' sums, which have long been there.
struct TileSchedule {
  int32_t pair;              // CTAs, 1 or 2, that share activations and have neighbouring weight rows
  int32_t split;             // 1 or 2: slices of k; a cluster has `pair` CTAs for each
  int32_t m_tiles, n_tiles;  // of a cluster: pair * kWgmmaRows weight rows
  int32_t tiles, whole;      // whole: tiles, or a multiple of clusters
  int32_t steps;             // of a tile
  int32_t clusters, sharers;
  int32_t range, longer;  // range steps for each sharer, one more for the first `longer` ones; 0 if no tiles are shared
  int32_t along_n;        // 1: neighbouring clusters have neighbouring weights, not activations

  FP4AOT_HOST_DEVICE int32_t ctas() const { return pair * split; }  // of a cluster
  // The first step of a slice of k, of a tile that is not shared by clusters.
  FP4AOT_HOST_DEVICE int32_t slice_begin(int32_t slice) const { return split == 1 ? slice * steps : slice * steps / 2; }
  // The first of the shared steps that are a cluster's.
  FP4AOT_HOST_DEVICE int32_t range_begin(int32_t cluster) const {
    int32_t const before = cluster < sharers ? cluster : sharers;
    return before * range + (before < longer ? before : longer);
  }
};

// Tiles of kWgmmaRows x tokens. cut: tiles may be shared by clusters. sms: multiprocessors of the device.
constexpr TileSchedule schedule_tiles(int64_t m, int64_t n, int64_t k, int tokens, bool cut, int sms) {
  constexpr int kMinRange = 4;  // steps that are worth a cluster
  TileSchedule s = {};
  s.split = 1;
  int64_t const columns = (n + kWgmmaRows - 1) / kWgmmaRows;
  s.pair = sms > 1 && (columns % 2 == 0 || columns > 8) ? 2 : 1;
  s.m_tiles = static_cast<int32_t>((m + tokens - 1) / tokens);
  s.n_tiles = static_cast<int32_t>((columns + s.pair - 1) / s.pair);
  s.tiles = s.whole = s.m_tiles * s.n_tiles;
  s.steps = static_cast<int32_t>((k + kWgmmaStep - 1) / kWgmmaStep);
  int32_t const most = sms / s.pair;
  s.clusters = std::min(most, s.tiles);
  int32_t shared = s.tiles % most;
  if (!cut || shared == 0) return s;
  if (s.tiles > most && shared * 2 < most) shared += most;  // not many parts of few tiles
  int64_t const useful = std::max<int64_t>(shared, int64_t{shared} * s.steps / kMinRange);
  int32_t const even = most / shared * shared;  // as many parts of every tile
  s.sharers = static_cast<int32_t>(std::min<int64_t>(useful, even * 10 >= most * 9 ? even : most));
  if (s.sharers == shared) return s;
  s.whole -= shared;
  s.clusters = std::max(s.sharers, std::min(most, s.whole));
  s.range = shared * s.steps / s.sharers;
  s.longer = shared * s.steps % s.sharers;
  return s;
}

// Tiles are in groups of so many rows of tiles, column by column: the CTAs that run together share weights and activations.
// Along n, in groups of so many columns, row by row.
constexpr int tile_group(int tokens) { return 2048 / tokens; }
constexpr int tile_group_along_n(int pair) { return 32 / pair; }

// What positions of tiles and parts of them are divided by.
struct TileDivisors {
  Divisor steps;
  Divisor group_tiles;          // of a whole group
  Divisor group;                // lines of tiles of a group
  Divisor last_group;           // of the last group
  Divisor range, longer_range;  // shared steps of a cluster

  TileDivisors() = default;
  TileDivisors(TileSchedule const& s, int tokens)
      : steps(s.steps),
        group_tiles((s.along_n ? tile_group_along_n(s.pair) * s.m_tiles : tile_group(tokens) * s.n_tiles)),
        group(s.along_n ? tile_group_along_n(s.pair) : tile_group(tokens)),
        last_group(((s.along_n ? s.n_tiles : s.m_tiles) - 1) % group.value + 1),
        range(std::max(s.range, 1)),
        longer_range(s.range + 1) {}

  // The cluster that has this one of the shared steps.
  FP4AOT_HOST_DEVICE int32_t cluster_of(TileSchedule const& s, int32_t step) const {
    int32_t const in_longer = s.longer * longer_range.value;
    return step < in_longer ? longer_range(step) : s.longer + range(step - in_longer);
  }
};

// Who shares a tile: none but a pair its activations, clusters cut it along k (TileSchedule), the CTAs of a cluster do.
enum class TileSharing { kNone, kCut, kSplit };

struct TilePlan {
  TileSharing sharing;
  bool along_n;  // raster order: neighbouring tiles along n, not m
};

// Clusters of two CTAs (pair = 1) or four that run at once.
constexpr int64_t split_clusters(int pair, int sms) { return clusters_at_once(pair, 1, sms); }

// Two CTAs, or two pairs, share the steps of each tile, and have no other. k: at least two steps.
constexpr TileSchedule schedule_split_tiles(int64_t m, int64_t n, int64_t k, int tokens, int sms) {
  TileSchedule s = {};
  s.split = 2;
  int64_t const columns = (n + kWgmmaRows - 1) / kWgmmaRows, m_tiles = (m + tokens - 1) / tokens;
  auto const waves = [&](int pair) {
    int64_t const at_once = split_clusters(pair, sms);
    return (m_tiles * ((columns + pair - 1) / pair) + at_once - 1) / at_once;
  };
  s.pair = columns > 1 && waves(2) <= waves(1) ? 2 : 1;
  s.m_tiles = static_cast<int32_t>(m_tiles);
  s.n_tiles = static_cast<int32_t>((columns + s.pair - 1) / s.pair);
  s.tiles = s.whole = s.clusters = s.m_tiles * s.n_tiles;
  s.steps = static_cast<int32_t>((k + kWgmmaStep - 1) / kWgmmaStep);
  return s;
}

constexpr TileSchedule schedule_tiles(int64_t m, int64_t n, int64_t k, int tokens, TilePlan plan, int sms) {
  TileSchedule s = plan.sharing == TileSharing::kSplit
                       ? schedule_split_tiles(m, n, k, tokens, sms)
                       : schedule_tiles(m, n, k, tokens, plan.sharing == TileSharing::kCut, sms);
  s.along_n = plan.along_n;
  return s;
}

}  // namespace fp4aot

#endif
