// What an image's quantise family is built from: `QuantizePolicy` in its quantize_policy.h derives from this.
#ifndef FP4AOT_KERNELS_QUANTIZE_POLICY_H_
#define FP4AOT_KERNELS_QUANTIZE_POLICY_H_

#include <cstdint>

namespace fp4aot {

// Codec: how e2m1 codes are made (SoftwareE2m1, HardwareE2m1). kMultiprocessors: of the image's largest chip.
template <class Codec, int kMultiprocessors>
struct QuantizePolicyFor {
  using E2m1 = Codec;
  static constexpr int64_t kMultiprocessorCount = kMultiprocessors;

  // CTAs of 1024 elements up to which a matrix is small (small.cuh): what the chip holds about at once.
  static constexpr int64_t kQuantizeSmallCtas = kMultiprocessors * 8;
  // Blocks that a thread of quantize_* loads before it converts the first, for larger ones.
  static constexpr int kQuantizeTiles = 2;

  // CTAs over the rows, when grid_x are needed for the columns. About kCtas in all share the tiles of rows evenly: few
  // enough that a thread's set-up is paid for by several tiles, enough that the last ones to end cost little.
  static int64_t quantize_grid_y(int64_t grid_x, int64_t row_tiles) {
    constexpr int64_t kCtas = kMultiprocessors * 24, kLimit = 65535;
    int64_t const most = grid_x >= kCtas ? 1 : kCtas / grid_x;
    int64_t const rounds = (row_tiles + most - 1) / most;
    int64_t const even = (row_tiles + rounds - 1) / rounds;
    return even < kLimit ? even : kLimit;
  }

  // rmsnorm_quantize_*: CTAs of a matrix that is not small, which then take several rows each; and rows that are few.
  static constexpr int64_t kRmsnormCtas = kMultiprocessors * 32;
  static constexpr int64_t kRmsnormFewRows = 512;
};

}  // namespace fp4aot

#endif
