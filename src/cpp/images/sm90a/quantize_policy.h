// What the quantise family of this image is built from.
#ifndef FP4AOT_IMAGES_SM90A_QUANTIZE_POLICY_H_
#define FP4AOT_IMAGES_SM90A_QUANTIZE_POLICY_H_

#include "device/convert.cuh"

namespace fp4aot {

struct QuantizePolicy {
  using E2m1 = SoftwareE2m1;  // Hopper has no e2m1 conversion

  // Blocks that a thread of quantize_* loads before it converts the first, for matrices of at least
  // kQuantizeLargeBlocks blocks. Smaller ones take one a thread: latency is all there is.
  static constexpr int kQuantizeTiles = 2;
  static constexpr int64_t kQuantizeLargeBlocks = 1 << 16;

  // CTAs over the rows, when grid_x are needed for the columns. About kCtas in all share the tiles of rows evenly: few
  // enough that a thread's set-up is paid for by several tiles, enough that the last ones to end cost little.
  static int64_t quantize_grid_y(int64_t grid_x, int64_t row_tiles) {
    constexpr int64_t kCtas = 132 * 24, kLimit = 65535;
    int64_t const most = grid_x >= kCtas ? 1 : kCtas / grid_x;
    int64_t const rounds = (row_tiles + most - 1) / most;
    int64_t const even = (row_tiles + rounds - 1) / rounds;
    return even < kLimit ? even : kLimit;
  }

  // rmsnorm_quantize_*: CTAs at most, which then take several rows each; and rows that are few (rmsnorm.cuh).
  static constexpr int64_t kRmsnormCtas = 132 * 32;
  static constexpr int64_t kRmsnormFewRows = 512;
};

}  // namespace fp4aot

#endif
