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
  uint32_t groups;      // warpgroups of a CTA, at most
  uint32_t slots;       // of the rings, at most; at least two
  uint32_t slot_tiles;  // k tiles of a slot
  int group_steps;      // products of a group
  int resident;         // CTAs of a multiprocessor, as registers allow
  int planned;          // and for how many there are schedules: two streaming CTAs are slower than one up to 16 tokens
  uint32_t max_shared;  // bytes of a CTA
};
// Up to 64 tokens a multiprocessor has room for two CTAs, of 32 K registers and 110 KB each; not with the four
// warpgroups of the fifth, which takes 48 K.
constexpr uint32_t kW4a16FewMaxShared = 110 * 1024;
constexpr W4a16FewTile kW4a16FewTiles[] = {
    {8, 4, 2, 4, 4, 2, 1, kW4a16FewMaxShared},  {16, 4, 3, 2, 2, 2, 1, kW4a16FewMaxShared},
    {32, 4, 2, 2, 2, 2, 2, kW4a16FewMaxShared}, {64, 3, 3, 2, 2, 2, 2, kW4a16FewMaxShared},
    {64, 4, 3, 2, 4, 1, 1, 200 * 1024},         {128, 2, 2, 2, 2, 2, 1, 227 * 1024}};
constexpr int kW4a16FewTileCount = 6;

// In shared memory: activations [part][slot], then weights [warp][slot], then barriers, then sums that come from the
// cluster. The sums of the CTA's parts overwrite activations and weights.
constexpr uint32_t w4a16_few_barriers(W4a16FewTile tile) {
  return 8 * (1 + tile.slots * (4 * tile.groups + 2 * tile.groups));
}

struct W4a16FewSchedule {
  uint32_t ctas_log2;      // of a cluster
  uint32_t groups, parts;  // warpgroups of a CTA: of row blocks (64 rows), of k
  uint32_t clusters;       // each has `groups` row blocks
  uint32_t split,
      longer;      // k tiles of a part, of which a cluster has parts << ctas_log2; one more for the first `longer`
  uint32_t slots;  // of the rings
  uint32_t weights_offset, barriers_offset, sums_offset, shared_bytes;
};

// Row blocks go to at most `clusters` clusters at a time, as evenly as can be; warpgroups that a CTA may still have
// share k, if there is room for their rings.
constexpr W4a16FewSchedule w4a16_few_schedule(Format format, W4a16FewTile tile, int64_t row_tiles, int64_t k_tiles,
                                              int ctas_log2, int64_t clusters) {
  int64_t const blocks = (row_tiles + 3) / 4;
  int64_t const groups = std::clamp<int64_t>((blocks + clusters - 1) / clusters, 1, tile.groups);
  W4a16FewSchedule s = {};
  s.ctas_log2 = static_cast<uint32_t>(ctas_log2);
  s.clusters = static_cast<uint32_t>((blocks + groups - 1) / groups);
  s.groups = static_cast<uint32_t>((blocks + s.clusters - 1) / s.clusters);
  uint32_t const sums = 4 * s.groups * tile.tokens / 8 * kW4a16FewSumBytes;
  uint32_t const activations = tile.slot_tiles * tile.tokens * kW4a16TileK * 2;  // of a slot of a part
  uint32_t const weights = 4 * s.groups * tile.slot_tiles * static_cast<uint32_t>(w4a16_tile_bytes(format));
  auto const fits = [&](uint32_t parts, uint32_t slots) {
    s.parts = parts;
    s.slots = slots;
    s.weights_offset = parts * slots * activations;
    s.barriers_offset = std::max(s.weights_offset + parts * slots * weights, parts * sums);
    s.sums_offset = (s.barriers_offset + w4a16_few_barriers(tile) + 15) / 16 * 16;
    s.shared_bytes = s.sums_offset + (s.ctas_log2 > 0 ? sums : 0);
    return s.shared_bytes <= tile.max_shared;
  };
  uint32_t parts = static_cast<uint32_t>(std::clamp<int64_t>(k_tiles >> ctas_log2, 1, tile.groups / s.groups));
  while (parts > 1 && !fits(parts, 2)) --parts;
  for (uint32_t slots = tile.slots; !fits(parts, slots) && slots > 2;) --slots;
  uint32_t const all = s.parts << s.ctas_log2, tiles = static_cast<uint32_t>(k_tiles);
  s.split = tiles / all;
  s.longer = tiles % all;
  return s;
}

// Whether every schedule fits: rows and k for all warpgroups, and for fewer.
constexpr bool w4a16_few_fits(Format format) {
  for (W4a16FewTile const& tile : kW4a16FewTiles) {
    for (uint32_t groups = 1; groups <= tile.groups; ++groups) {
      for (uint32_t parts = 1; parts <= tile.groups; ++parts) {
        for (int ctas_log2 = 0; ctas_log2 < 2; ++ctas_log2) {
          W4a16FewSchedule const s = w4a16_few_schedule(format, tile, 4 * groups, parts << ctas_log2, ctas_log2, 1);
          if (s.shared_bytes > tile.max_shared) return false;
        }
      }
    }
  }
  return true;
}
static_assert(w4a16_few_fits(Format::kNvfp4) && w4a16_few_fits(Format::kMxfp4));

}  // namespace fp4aot

#endif
