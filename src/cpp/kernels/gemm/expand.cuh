// Expands FP4 activations to bf16, exactly (dequant.cuh), for products that read them as a plain bf16 operand.
//
// Row r of the result has the values of row r in the order of dequantize_word within each 128: with value 32t + 8q + i of
// a block (t, q = 0..3), i = 2j + h + 4e (e, h, j = 0, 1), at place 32q + 16j + 8h + 2t + e. That is the order in which the
// thread t of a quad that holds 32 values of a weight row puts them into the k index of eight products (wgmma.cuh).
// Values beyond k, up to the next multiple of 128, are zero.
#ifndef FP4AOT_KERNELS_GEMM_EXPAND_CUH_
#define FP4AOT_KERNELS_GEMM_EXPAND_CUH_

#include "device/global_memory.cuh"
#include "device/mbarrier.cuh"
#include "device/pdl.cuh"
#include "device/shared_memory.cuh"
#include "kernels/gemm/args.h"
#include "kernels/gemm/dequant.cuh"

namespace fp4aot {

constexpr int kExpandBlock = 128;  // values along k that change places among themselves
constexpr int kExpandThreads = 128;

struct ExpandArgs {
  uint8_t const* codes;
  int64_t stride;  // bytes
  uint8_t const* scales;
  int64_t m, rows;     // of A and of the result: those beyond m become zero
  int32_t k, blocks;   // blocks = ceil(k / 128)
  int32_t row_mask;    // 3: the rows of a strip are shared out over the grid's z, 4; 0: z is 1
  uint8_t* out;        // bf16 [rows, 128 * blocks]
  uint32_t* counters;  // set to zero; fewer than there are threads in the grid's first CTAs
  int32_t counter_count;
};

// A warp's share: blocks [8x, 8x + 8) of rows r, r + 32, r + 64 and r + 96 of a row block: their scales are neighbours.
constexpr int kExpandWarpBlocks = 8;
constexpr int kExpandWarpBytes = kExpandWarpBlocks * kExpandBlock * 2;  // of a row

// The grid: x along k, y over strips of 4 rows, which a chunk has few enough of.
constexpr int64_t expand_strips(int64_t m) {
  return m / kScaleAtomRows * 32 + (m % kScaleAtomRows < 32 ? m % kScaleAtomRows : 32);
}

template <Format kFormat>
__global__ void __launch_bounds__(kExpandThreads) expand_activations_kernel(__grid_constant__ ExpandArgs const args) {
  __shared__ __align__(128) uint8_t shared[kExpandThreads / 32 * kExpandWarpBytes];
  pdl_wait();
  pdl_launch_dependents();
  int const warp = threadIdx.x / 32, lane = threadIdx.x % 32, t = lane % 4;
  if (blockIdx.y == 0 && blockIdx.z == 0) {
    for (int64_t i = int64_t{blockIdx.x} * kExpandThreads + threadIdx.x; i < args.counter_count;
         i += int64_t{gridDim.x} * kExpandThreads) {
      args.counters[i] = 0;
    }
  }
  int const first_block = static_cast<int>(blockIdx.x) * kExpandWarpBlocks, block = first_block + lane / 4;
  int64_t const strip = int64_t{blockIdx.y} * (kExpandThreads / 32) + warp;  // of 4 rows
  int64_t const first_row = strip / 32 * kScaleAtomRows + strip % 32;
  bool const inside = block * kExpandBlock + 32 * t < args.k;
  constexpr int kAtoms = kExpandBlock / (kVector<kFormat> * kScaleAtomColumns);
  int64_t const atoms = (args.k / kVector<kFormat> + kScaleAtomColumns - 1) / kScaleAtomColumns;

  uint32_t scales[4] = {};
  uint4 codes[4];
  if (first_row < args.m && inside) {
    int const atom = block * kAtoms + (kFormat == Format::kNvfp4 ? t / 2 : 0);
    int const shift = kFormat == Format::kNvfp4 ? t % 2 * 16 : t * 8;
    uint4 const words = global_load16(args.scales + (first_row / kScaleAtomRows * atoms + atom) * kScaleAtomBytes +
                                      first_row % 32 * 16);
    scales[0] = words.x >> shift, scales[1] = words.y >> shift, scales[2] = words.z >> shift,
    scales[3] = words.w >> shift;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int64_t const row = first_row + 32 * i;
    codes[i] = make_uint4(0, 0, 0, 0);
    if (row < args.m && inside && (i & args.row_mask) == static_cast<int>(blockIdx.z))
      codes[i] = global_load16(args.codes + row * args.stride + (block * (kExpandBlock / 2) + t * 16));
  }
  // Places of 16 bytes: the 16 of a block lie in an order that keeps both accesses free of bank conflicts.
  uint32_t const base = shared_address(shared) + warp * kExpandWarpBytes;
  uint32_t const own = base + lane / 4 * 256 + t * 4;
  int const places = min(kExpandWarpBlocks, args.blocks - first_block) * 16;  // of a row, in this warp's share
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int64_t const row = first_row + 32 * i;
    if (row >= args.rows || (i & args.row_mask) != static_cast<int>(blockIdx.z)) continue;
    BlockFactors<kFormat> const factors(row < args.m ? scales[i] : 0);
    uint32_t const words[4] = {codes[i].x, codes[i].y, codes[i].z, codes[i].w};
    __syncwarp();
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      uint32_t pairs[4];
      dequantize_word(words[q], factors.of_word(q), pairs);
#pragma unroll
      for (int c = 0; c < 4; ++c) shared_store4(own + ((4 * q + c) ^ lane / 4) * 16, pairs[c]);
    }
    __syncwarp();
    uint8_t* const out = args.out + (row * args.blocks + first_block) * (kExpandBlock * 2);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      int const place = n * 32 + lane;
      if (place < places) {
        global_store16(out + place * 16, shared_load16(base + place / 16 * 256 + (place % 16 ^ place / 16) * 16));
      }
    }
  }
}

}  // namespace fp4aot

#endif
