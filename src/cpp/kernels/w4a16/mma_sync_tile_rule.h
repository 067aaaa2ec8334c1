// Tactics of the W4A16 kernel of mma_sync_tile.cuh and which of them serves which problem: data and one rule. They follow
// those of rule.h in an image's table; here they count from 0.
#ifndef FP4AOT_KERNELS_W4A16_MMA_SYNC_TILE_RULE_H_
#define FP4AOT_KERNELS_W4A16_MMA_SYNC_TILE_RULE_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "kernels/w4a16/mma_sync_tile_args.h"
#include "kernels/w4a16/rule.h"

namespace fp4aot {

// Costs in nanoseconds, estimates that nothing has measured: four fifths of the peak rate that NVIDIA publishes for an RTX
// PRO 6000, 504 TFLOP/s of dense bf16 with fp32 sums on 188 multiprocessors, and a tenth more for the smallest tile, which
// does least with what it dequantises.
struct W4a16TileShape {
  int row_tiles;  // of a warp, 16 weight rows each; eight warps
  int tokens;
  int k_tile;  // cost of a k tile
  constexpr int rows() const { return 8 * row_tiles * kW4a16TileRows; }
};
constexpr W4a16TileShape kW4a16TileShapes[] = {{2, 128, 1950}, {1, 128, 980}, {1, 64, 540}};
constexpr int kW4a16TileShapeCount = 3;

struct W4a16TileTactic {
  char const* name;
  int shape;         // of kW4a16TileShapes
  bool along_n;      // raster order
  int cluster_log2;  // CTAs that share k
};
constexpr W4a16TileTactic kW4a16TileTactics[] = {
    {"mma_sync_256x128", 0, false, 0},         {"mma_sync_256x128_along_n", 0, true, 0},
    {"mma_sync_128x128", 1, false, 0},         {"mma_sync_128x128_along_n", 1, true, 0},
    {"mma_sync_128x64", 2, false, 0},          {"mma_sync_128x64_along_n", 2, true, 0},
    {"mma_sync_128x64_cluster2", 2, false, 1}, {"mma_sync_128x64_cluster4", 2, false, 2},
};
constexpr int kW4a16TileTacticCount = 8;
static_assert(sizeof kW4a16TileTactics / sizeof kW4a16TileTactics[0] == kW4a16TileTacticCount);

constexpr int64_t kW4a16TileMaxK = INT32_MAX / 8 / kW4a16TileK * kW4a16TileK;  // places in tensor maps are 32 bits
constexpr int64_t kW4a16TileMaxStride = (int64_t{1} << 39) - 8;                // of a, in elements: of a tensor map

// fp32 results need sums that restart (mma_sync_tile_args.h), for which 256 x 128 sums leave no registers; those of blocks
// do so by themselves.
constexpr bool w4a16_tile_valid(fp4aot_gemm_w4a16_params const& p, Format format, int tactic) {
  if (tactic < 0 || tactic >= kW4a16TileTacticCount || p.k > kW4a16TileMaxK) return false;
  if (p.m > 1 && p.a_stride > kW4a16TileMaxStride) return false;
  if (w4a16_k_tiles(p.k) >> kW4a16TileTactics[tactic].cluster_log2 == 0) return false;
  bool const blocks = format == Format::kMxfp4 && p.a_dtype == FP4AOT_FP16;
  return p.d_dtype != FP4AOT_FP32 || blocks || kW4a16TileTactics[tactic].shape != 0;
}

constexpr int64_t kW4a16TileLaunch = 3500, kW4a16TileFixed = 1500;  // of a launch and of a wave
constexpr int64_t kW4a16TileShare = 1000;                           // of sums of CTAs that share k
constexpr int64_t kW4a16TileBandwidth = 1500;                       // of memory, bytes in a nanosecond
constexpr int64_t kW4a16TileMinTokens = 33;                         // fewer are for mma_sync.cuh

// Nanoseconds, by estimated rates (above): products or memory, whichever takes longer, and a little of the other.
constexpr int64_t w4a16_tile_cost(fp4aot_gemm_w4a16_params const& p, Format format, int tactic, int sms) {
  if (p.m < kW4a16TileMinTokens) return INT64_MAX;
  W4a16TileTactic const& t = kW4a16TileTactics[tactic];
  W4a16TileShape const& shape = kW4a16TileShapes[t.shape];
  auto const divide_up = [](int64_t x, int64_t y) { return (x + y - 1) / y; };
  constexpr int64_t kMost = int64_t{1} << 24;  // larger sizes are whole multiples of this
  int64_t const m = std::min(p.m, kMost), n = std::min(p.n, kMost), k_tiles = w4a16_k_tiles(p.k);
  int64_t const scale = divide_up(p.m, m) * divide_up(p.n, n);
  int64_t const m_tiles = divide_up(m, shape.tokens), n_tiles = divide_up(n, shape.rows());
  int64_t const at_once = clusters_at_once(t.cluster_log2, 1, sms);
  int64_t const waves = divide_up(m_tiles * n_tiles, at_once);
  int64_t const products = waves * (divide_up(k_tiles, int64_t{1} << t.cluster_log2) * shape.k_tile + kW4a16TileFixed);
  // A group of tiles keeps one operand in L2 while the other passes by.
  int64_t const weights =
      n / kW4a16TileRows * w4a16_tile_bytes(format) * (t.along_n ? 1 : divide_up(m_tiles, kW4a16TileGroup));
  int64_t const activations = m * kW4a16TileK * 2 * (t.along_n ? divide_up(n_tiles, kW4a16TileGroup) : 1);
  int64_t const memory = (weights + activations) * k_tiles / kW4a16TileBandwidth;
  int64_t const cost = std::max(products, memory) + std::min(products, memory) / 16;
  return kW4a16TileLaunch + (t.cluster_log2 > 0 ? kW4a16TileShare : 0) + scale * cost;
}

}  // namespace fp4aot

#endif
