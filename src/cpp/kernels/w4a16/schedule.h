// How the W4A16 kernel of mma_sync.cuh shares its work, for host and device.
#ifndef FP4AOT_KERNELS_W4A16_SCHEDULE_H_
#define FP4AOT_KERNELS_W4A16_SCHEDULE_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/w4a16_layout.h"

namespace fp4aot {

constexpr int kW4a16ChunkTiles = 4;  // k tiles whose activations are waited for at once: 512 bytes of a token
constexpr int kW4a16TokenPitch = kW4a16ChunkTiles * kW4a16TileK * 2 + 16;  // bytes: no bank is hit twice
constexpr int kW4a16Slots = 2;                                             // of a warp's ring
constexpr int kW4a16SumBytes = 16 * 8 * 4;                                 // of a row tile and a token tile

// Buffers are as many as find room, unless a part has more chunks than the first of these: all its activations at once are
// the same lines for many CTAs and keep weights waiting (M = 8, N 19968, K 6656 on an H200: 28 us with 13 buffers, 25 with 4).
// But with fewer than the last of these a warp waits for all others at each chunk (M = 16: 30.4 us with 2, 29.1 with 4).
constexpr uint32_t kW4a16ManyChunks = 10, kW4a16ManyChunksBytes = 20 << 10, kW4a16LeastBuffers = 4;
// K tiles of parts that take chunks in turn: 4 to 6 % faster at N 6656, K 19968 (39), nothing or 1 % slower with fewer.
constexpr uint32_t kW4a16LongPart = 32;

constexpr int w4a16_slot_tiles(int row_tiles) { return row_tiles == 1 ? 4 : 2; }

// Warps of a CTA, so that two CTAs have the registers they need: 64, 80 or 96 and 128 a thread.
constexpr int w4a16_max_warps(int token_tiles, int row_tiles) {
  int const accumulators = token_tiles * row_tiles;
  return accumulators <= 2 ? 16 : accumulators <= 4 ? 12 : 8;
}

// Sums that are too many for shared memory of their own overwrite the rings and activations.
constexpr bool w4a16_sums_over_ring(int token_tiles) { return token_tiles >= 4; }

struct W4a16Tile {
  int token_tiles;  // of 8 tokens
  int row_tiles;    // a warp, of 16 weight rows
};

struct W4a16Schedule {
  uint32_t ctas_log2;     // of a cluster
  uint32_t warps, parts;  // blockDim.y: of row tiles; blockDim.z: of k
  uint32_t clusters;
  uint32_t group;          // row tiles of a cluster
  uint32_t split, longer;  // args.h
  bool interleaved;        // parts take chunks of k in turn; split is the same for all then
  uint32_t chunks, buffers, buffer_bytes;
  uint32_t buffer_offset, sums_offset, barriers_offset, shared_bytes;

  constexpr uint32_t ctas() const { return 1u << ctas_log2; }
};

// The rest of a schedule that has its clusters, warps and parts. A buffer has room for the tokens that exist.
constexpr W4a16Schedule w4a16_complete(Format format, W4a16Tile tile, int64_t k_tiles, W4a16Schedule s,
                                       uint32_t max_shared, int64_t tokens) {
  uint32_t const tiles = static_cast<uint32_t>(k_tiles), all_parts = s.parts << s.ctas_log2;
  s.split = tiles / all_parts;
  s.longer = tiles % all_parts;
  uint32_t const longest = s.split + (s.longer > 0);
  s.chunks = (longest + kW4a16ChunkTiles - 1) / kW4a16ChunkTiles;
  uint32_t const ring =
      static_cast<uint32_t>(kW4a16Slots * w4a16_slot_tiles(tile.row_tiles) * tile.row_tiles * w4a16_tile_bytes(format));
  s.interleaved = tile.row_tiles == 1 && s.longer == 0 && all_parts >= 4 && s.split >= kW4a16LongPart;
  uint32_t const buffer =
      static_cast<uint32_t>(std::clamp<int64_t>(tokens, 1, tile.token_tiles * 8) * kW4a16TokenPitch);
  s.buffer_bytes = buffer;
  uint32_t const units = (s.group * static_cast<uint32_t>(tile.token_tiles) + s.ctas() - 1) >> s.ctas_log2;
  uint32_t const sums = units * all_parts * kW4a16SumBytes;
  bool const over_ring = w4a16_sums_over_ring(tile.token_tiles);
  s.buffer_offset = s.warps * s.parts * ring;
  uint32_t const ring_barriers = 8 * s.warps * s.parts * kW4a16Slots, barriers = 16 * s.parts;  // of a buffer
  uint32_t const others = s.buffer_offset + (over_ring ? 0 : sums) + 16 + ring_barriers;
  uint32_t fit = others < max_shared ? (max_shared - others) / (s.parts * buffer + barriers) : 0;
  if (s.chunks > kW4a16ManyChunks) {
    fit = std::min(fit, std::max(kW4a16ManyChunksBytes / (s.parts * buffer), kW4a16LeastBuffers));
  }
  s.buffers = std::min(s.chunks, std::max<uint32_t>(fit, 2));
  uint32_t const end = s.buffer_offset + s.parts * s.buffers * buffer;
  s.sums_offset = over_ring ? 0 : end;
  s.barriers_offset = std::max(end, s.sums_offset + sums);
  s.shared_bytes = s.barriers_offset + 16 + ring_barriers + s.buffers * barriers;
  return s;
}

// Row tiles go to `clusters` clusters of 2^ctas_log2 CTAs, as evenly as can be; those of a cluster to its warps, and the
// warps that a CTA may still have share k. There are more clusters if row tiles are too many for a CTA's warps, and fewer
// warps if they do not find room in shared memory.
constexpr W4a16Schedule w4a16_schedule(Format format, W4a16Tile tile, int64_t row_tiles, int64_t k_tiles, int ctas_log2,
                                       int64_t clusters, uint32_t max_shared, int64_t tokens) {
  uint32_t const most = static_cast<uint32_t>(w4a16_max_warps(tile.token_tiles, tile.row_tiles));
  uint32_t const rows = static_cast<uint32_t>(tile.row_tiles);
  W4a16Schedule s = {};
  s.ctas_log2 = static_cast<uint32_t>(ctas_log2);
  for (uint32_t most_of_rows = most; most_of_rows > 0; --most_of_rows) {
    int64_t const group = std::min<int64_t>((row_tiles + clusters - 1) / clusters, most_of_rows * rows);
    s.clusters = static_cast<uint32_t>((row_tiles + group - 1) / group);
    s.group = static_cast<uint32_t>((row_tiles + s.clusters - 1) / s.clusters);
    s.warps = (s.group + rows - 1) / rows;
    s.parts = static_cast<uint32_t>(std::clamp<int64_t>(k_tiles >> ctas_log2, 1, most / s.warps));
    for (; s.parts > 0; --s.parts) {
      W4a16Schedule const complete = w4a16_complete(format, tile, k_tiles, s, max_shared, tokens);
      if (complete.shared_bytes <= max_shared) return complete;
    }
  }
  s.shared_bytes = UINT32_MAX;
  return s;
}

}  // namespace fp4aot

#endif
