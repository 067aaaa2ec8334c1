// kernels/w4a16/rule.h for test_w4a16_rule.py.
#include "kernels/w4a16/rule.h"

namespace {

constexpr fp4aot::W4a16Device kDevices[] = {
    {132, 228 * 1024, 110 * 1024}, {188, 100 * 1024, 99 * 1024}, {16, 100 * 1024, 99 * 1024}};

fp4aot_gemm_w4a16_params problem(int64_t m, int64_t n, int64_t k, int d_dtype) {
  fp4aot_gemm_w4a16_params p = {};
  p.m = m;
  p.n = n;
  p.k = k;
  p.d_dtype = d_dtype;
  return p;
}

fp4aot::Format format_of(int mxfp4) { return mxfp4 ? fp4aot::Format::kMxfp4 : fp4aot::Format::kNvfp4; }

}  // namespace

extern "C" {

int tactics() { return fp4aot::kW4a16MmaSyncTactics; }
int devices() { return sizeof kDevices / sizeof kDevices[0]; }

bool valid(int mxfp4, int64_t m, int64_t n, int64_t k, int d_dtype, int tactic, int device) {
  return fp4aot::w4a16_mma_sync_valid(format_of(mxfp4), problem(m, n, k, d_dtype), tactic, kDevices[device]);
}

// Why a valid tactic's schedule cannot be right; null if it can.
char const* fault(int mxfp4, int64_t m, int64_t n, int64_t k, int tactic, int device) {
  using namespace fp4aot;
  W4a16Schedule const s =
      w4a16_plan(format_of(mxfp4), problem(m, n, k, FP4AOT_BF16), tactic, kDevices[device]).schedule;
  W4a16Tile const tile = kW4a16Tiles[tactic / kW4a16ClusterSizes].tile;
  uint32_t const row_tiles = static_cast<uint32_t>(w4a16_row_tiles(n)),
                 k_tiles = static_cast<uint32_t>(w4a16_k_tiles(k));
  uint32_t const all_parts = s.parts << s.ctas_log2;
  if (s.warps * s.parts > static_cast<uint32_t>(w4a16_max_warps(tile.token_tiles, tile.row_tiles))) return "warps";
  if (s.warps * s.parts == 0 || s.parts > 64) return "shape of a CTA";
  if (uint64_t{s.clusters} * s.group < row_tiles) return "row tiles are left over";
  if (uint64_t{s.clusters - 1} * s.group >= row_tiles) return "a cluster without row tiles";
  if (s.warps * static_cast<uint32_t>(tile.row_tiles) < s.group) return "row tiles of a cluster are left over";
  if (uint64_t{s.split} * all_parts + s.longer != k_tiles || s.longer >= all_parts) return "k tiles";
  if (s.chunks * kW4a16ChunkTiles < s.split + (s.longer > 0)) return "chunks";
  if (s.buffers == 0 || s.buffers > s.chunks || (s.chunks > s.buffers && s.buffers < 2)) return "buffers";
  if (s.shared_bytes > kDevices[device].max_shared) return "shared memory";
  if (s.buffer_offset % 128 || s.sums_offset % 16 || s.barriers_offset % 16) return "alignment";
  // Copies of chunks that only longer parts have may still land when sums are written: not where the sums are.
  uint32_t const units = (s.group * static_cast<uint32_t>(tile.token_tiles) + s.ctas() - 1) >> s.ctas_log2;
  uint32_t const sums_end = s.sums_offset + units * all_parts * kW4a16SumBytes;
  bool const over_ring = w4a16_sums_over_ring(tile.token_tiles);
  uint32_t const buffers_end = s.buffer_offset + s.parts * s.buffers * s.buffer_bytes;
  if (over_ring ? sums_end > s.buffer_offset : s.sums_offset < buffers_end) return "sums over activations";
  if (sums_end > s.barriers_offset) return "sums over barriers";
  return nullptr;
}
}
