// What an image's quantise family is built from: `QuantizePolicy` in its quantize_policy.h derives from this.
#ifndef FP4AOT_KERNELS_QUANTIZE_POLICY_H_
#define FP4AOT_KERNELS_QUANTIZE_POLICY_H_

#include <cstdint>

namespace fp4aot {

// Codec: how e2m1 codes are made (SoftwareE2m1, HardwareE2m1). kMultiprocessors: of the image's largest chip.
template <class Codec, int kMultiprocessors>
struct QuantizePolicyFor {
  using E2m1 = Codec;

  // Blocks that a thread of quantize_* loads before it converts the first, for matrices of at least
  // kQuantizeLargeBlocks blocks. Smaller ones take one a thread: latency is all there is.
  static constexpr int kQuantizeTiles = 2;
  static constexpr int64_t kQuantizeLargeBlocks = 1 << 16;
  // CTAs up to which blocks of 32 are split between threads (rows.cuh): more would wait for each other.
  static constexpr int64_t kQuantizeSplitCtas = kMultiprocessors * 2;

  // CTAs over the rows, when grid_x are needed for the columns. About kCtas in all share the tiles of rows evenly: few
  // enough that a thread's set-up is paid for by several tiles, enough that the last ones to end cost little.
  static int64_t quantize_grid_y(int64_t grid_x, int64_t row_tiles) {
    constexpr int64_t kCtas = kMultiprocessors * 24, kLimit = 65535;
    int64_t const most = grid_x >= kCtas ? 1 : kCtas / grid_x;
    int64_t const rounds = (row_tiles + most - 1) / most;
    int64_t const even = (row_tiles + rounds - 1) / rounds;
    return even < kLimit ? even : kLimit;
  }

  // rmsnorm_quantize_*: CTAs at most, which then take several rows each; rows that are few; and rows that are so few that
  // a thread has one block, whose weights it loads early (rmsnorm.cuh).
  static constexpr int64_t kRmsnormCtas = kMultiprocessors * 32;
  static constexpr int64_t kRmsnormFewRows = 512;
  static constexpr int64_t kRmsnormEarlyRows = 128;
};

}  // namespace fp4aot

#endif
