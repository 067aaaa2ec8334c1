// How the W4A16 kernel of wgmma_few.cuh shares its work and its shared memory, for host and device.
#ifndef FP4AOT_KERNELS_W4A16_WGMMA_FEW_SCHEDULE_H_
#define FP4AOT_KERNELS_W4A16_WGMMA_FEW_SCHEDULE_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/w4a16_layout.h"

namespace fp4aot {

constexpr uint32_t kW4a16FewSumBytes = 16 * 8 * 4;  // of a unit: a row tile and 8 tokens

// What does not depend on a problem's sizes is constant, because code that runs before the first copies delays them.
struct W4a16FewTile {
  uint32_t tokens;
  uint32_t groups;      // warpgroups of a CTA, at most: such that two CTAs have the registers they need
  uint32_t slots;       // of the rings
  uint32_t slot_tiles;  // k tiles of a slot
};
constexpr W4a16FewTile kW4a16FewTiles[] = {{8, 4, 2, 4}, {16, 4, 3, 2}, {32, 4, 2, 2}, {64, 2, 2, 2}};
constexpr int kW4a16FewTileCount = 4;

// In shared memory: activations [part][slot], then weights [warp][slot], then barriers, then sums that come from the
// cluster. The sums of the CTA's parts overwrite activations and weights.
constexpr uint32_t w4a16_few_weights_offset(W4a16FewTile tile, uint32_t parts) {
  return parts * tile.slots * tile.slot_tiles * tile.tokens * kW4a16TileK * 2;
}
constexpr uint32_t w4a16_few_barriers(W4a16FewTile tile) {
  return 8 * (1 + tile.slots * (4 * tile.groups + 2 * tile.groups));
}

struct W4a16FewSchedule {
  uint32_t ctas_log2;      // of a cluster
  uint32_t groups, parts;  // warpgroups of a CTA: of row blocks (64 rows), of k
  uint32_t clusters;       // each has `groups` row blocks
  uint32_t split,
      longer;  // k tiles of a part, of which a cluster has parts << ctas_log2; one more for the first `longer`
  uint32_t weights_offset, barriers_offset, sums_offset, shared_bytes;
};

// Row blocks go to at most `clusters` clusters at a time, as evenly as can be; warpgroups that a CTA may still have share k.
constexpr W4a16FewSchedule w4a16_few_schedule(Format format, W4a16FewTile tile, int64_t row_tiles, int64_t k_tiles,
                                              int ctas_log2, int64_t clusters) {
  int64_t const blocks = (row_tiles + 3) / 4;
  int64_t const groups = std::clamp<int64_t>((blocks + clusters - 1) / clusters, 1, tile.groups);
  W4a16FewSchedule s = {};
  s.ctas_log2 = static_cast<uint32_t>(ctas_log2);
  s.clusters = static_cast<uint32_t>((blocks + groups - 1) / groups);
  s.groups = static_cast<uint32_t>((blocks + s.clusters - 1) / s.clusters);
  s.parts = static_cast<uint32_t>(std::clamp<int64_t>(k_tiles >> ctas_log2, 1, tile.groups / s.groups));
  uint32_t const all = s.parts << s.ctas_log2, tiles = static_cast<uint32_t>(k_tiles);
  s.split = tiles / all;
  s.longer = tiles % all;
  uint32_t const sums = 4 * s.groups * tile.tokens / 8 * kW4a16FewSumBytes;
  s.weights_offset = w4a16_few_weights_offset(tile, s.parts);
  uint32_t const weights =
      4 * s.groups * s.parts * tile.slots * tile.slot_tiles * static_cast<uint32_t>(w4a16_tile_bytes(format));
  s.barriers_offset = std::max(s.weights_offset + weights, s.parts * sums);
  s.sums_offset = (s.barriers_offset + w4a16_few_barriers(tile) + 15) / 16 * 16;
  s.shared_bytes = s.sums_offset + (s.ctas_log2 > 0 ? sums : 0);
  return s;
}

// The most that any schedule has: all warpgroups busy.
constexpr uint32_t w4a16_few_max_shared(Format format, W4a16FewTile tile) {
  uint32_t most = 0;
  for (uint32_t groups = 1; groups <= tile.groups; ++groups) {
    uint32_t const shared = w4a16_few_schedule(format, tile, 4 * groups, int64_t{1} << 20, 2, 1).shared_bytes;
    most = std::max(most, shared);
  }
  return most;
}
constexpr uint32_t kW4a16FewMaxShared = 110 * 1024;  // so that two CTAs of a chain find room
static_assert(w4a16_few_max_shared(Format::kNvfp4, kW4a16FewTiles[0]) <= kW4a16FewMaxShared);
static_assert(w4a16_few_max_shared(Format::kNvfp4, kW4a16FewTiles[1]) <= kW4a16FewMaxShared);
static_assert(w4a16_few_max_shared(Format::kNvfp4, kW4a16FewTiles[2]) <= kW4a16FewMaxShared);
static_assert(w4a16_few_max_shared(Format::kNvfp4, kW4a16FewTiles[3]) <= kW4a16FewMaxShared);

}  // namespace fp4aot

#endif
