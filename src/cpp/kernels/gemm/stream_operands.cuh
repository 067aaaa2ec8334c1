// Expands FP4 activations to the operands of wgmma_stream.cuh, exactly (mma_operand.cuh), by a kernel that runs before it.
//
// The result: for each block of `tokens` rows of A and each step of 128 values along k the pieces that wgmma.cuh describes, in
// the order in which shared memory has them: [block][step][product of 16 values][8 rows][half of the values].
#ifndef FP4AOT_KERNELS_GEMM_STREAM_OPERANDS_CUH_
#define FP4AOT_KERNELS_GEMM_STREAM_OPERANDS_CUH_

#include "device/global_memory.cuh"
#include "device/pdl.cuh"
#include "kernels/gemm/mma_operand.cuh"
#include "kernels/gemm/stream_schedule.h"

namespace fp4aot {

constexpr int kStreamExpandWarps = 4;
// Of so many rows of A, a multiple of 8, and one step.
constexpr int64_t stream_operand_bytes(int64_t tokens) { return tokens * kStreamStep * 2; }

struct StreamExpandArgs {
  uint8_t const* codes;
  int64_t stride;  // bytes
  uint8_t const* scales;
  int64_t scale_block;  // bytes of the scales of 128 rows
  int32_t m, k;
  int32_t steps;        // of the result: those beyond k are zeros
  int32_t block_tiles;  // of 8 rows, of a block
  uint8_t* out;
  uint32_t* counters;  // set to zero
  int32_t counter_count;
};

// The grid: kStreamExpandWarps steps along k, one a warp; tiles of 8 rows, of whole blocks. A thread has 32 values.
template <Format kFormat>
__global__ void __launch_bounds__(32 * kStreamExpandWarps)
    expand_stream_operands_kernel(__grid_constant__ StreamExpandArgs const args) {
  constexpr int kAtoms = kStreamStep / (kVector<kFormat> * kScaleAtomColumns);  // of scales, a step
  pdl_wait();
  pdl_launch_dependents();
  for (int32_t i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x; i < args.counter_count;
       i += gridDim.x * gridDim.y * blockDim.x) {
    args.counters[i] = 0;
  }
  uint32_t const lane = threadIdx.x % 32, t = lane % 4, tile = blockIdx.y, token = tile * 8 + lane / 4;
  uint32_t const step = blockIdx.x * kStreamExpandWarps + threadIdx.x / 32;
  if (step >= static_cast<uint32_t>(args.steps)) return;
  uint4 codes = make_uint4(0, 0, 0, 0);
  uint32_t scales = 0;  // what lies outside becomes zeros
  if (token < static_cast<uint32_t>(args.m) && step * kStreamStep + t * 32 < static_cast<uint32_t>(args.k)) {
    codes = global_load16(args.codes + token * static_cast<uint64_t>(args.stride) +
                          (uint64_t{step} * (kStreamStep / 2) + t * 16));
    uint8_t const* const row = args.scales + token / kScaleAtomRows * static_cast<uint64_t>(args.scale_block) +
                               uint64_t{step} * (kAtoms * kScaleAtomBytes) +
                               (token % 32 * 16 + token % kScaleAtomRows / 32 * 4);
    if constexpr (kAtoms == 2) {
      scales = *reinterpret_cast<uint16_t const*>(row + (t / 2 * kScaleAtomBytes + t % 2 * 2));
    } else {
      scales = row[t];
    }
  }
  MmaOperand<kFormat> const operand(scales);
  uint32_t const words[4] = {codes.x, codes.y, codes.z, codes.w};
  uint32_t const block_tiles = static_cast<uint32_t>(args.block_tiles), block = tile / block_tiles;
  uint8_t* const out = args.out + (block * static_cast<uint64_t>(args.steps) + step) * (block_tiles * 2048) +
                       ((tile - block * block_tiles) * 256 + lane * 4);
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    uint32_t pairs[4];
    operand.dequantize(w, words[w], pairs);
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j)
      *reinterpret_cast<uint32_t*>(out + (2 * w + j / 2) * (block_tiles * 256) + j % 2 * 128) = pairs[j];
  }
}

}  // namespace fp4aot

#endif
