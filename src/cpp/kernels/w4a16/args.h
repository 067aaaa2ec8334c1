// The arguments of the W4A16 kernel of mma_sync.cuh, as a launch passes them by value.
#ifndef FP4AOT_KERNELS_W4A16_ARGS_H_
#define FP4AOT_KERNELS_W4A16_ARGS_H_

#include <cstdint>

namespace fp4aot {

// What the first copies need comes first: the constant cache loads arguments line by line.
struct W4a16Args {
  uint8_t const* prepared;
  uint8_t const* a;
  int64_t a_stride;  // bytes

  // How the work is shared (schedule.h).
  uint32_t row_tiles;      // of the weights
  uint32_t cluster_log2;   // CTAs of a cluster
  uint32_t group;          // row tiles of a cluster
  uint32_t split, longer;  // k tiles of each part of k, one more for the first `longer` ones
  uint32_t k_tiles;
  // In shared memory, bytes: the rings come first.
  uint32_t buffer_offset, barriers_offset;
  uint32_t chunks, buffers;  // of a part's activations: chunks of k there are, and have room in shared memory
  uint32_t buffer_bytes;
  uint32_t interleaved;  // parts take chunks of k in turn (schedule.h)
  uint32_t m, n, k;      // the launcher splits problems that are larger
  uint32_t sums_offset;

  float const* alpha;  // null: 1
  void const* bias;    // null: none
  void* d;
  int64_t d_stride;  // elements
  int32_t d_dtype, bias_dtype;
};

}  // namespace fp4aot

#endif
