// Arguments of the warp-specialised kernel (wgmma.cuh).
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_ARGS_H_
#define FP4AOT_KERNELS_GEMM_WGMMA_ARGS_H_

#include <cuda.h>

#include <cstdint>

#include "kernels/gemm/args.h"
#include "kernels/gemm/tile_schedule.h"

namespace fp4aot {

struct WgmmaGemmArgs : GemmArgs {
  // All that is read as values lies together, in few lines of the constant cache.
  TileSchedule schedule;
  bool pdl;              // launched with FP4AOT_FLAG_PDL
  bool after_counters;   // the kernel before only clears `counters`, and those before it have ended
  bool staged;           // results go through shared memory and d_map
  int32_t weight_shift;  // W4A16: 1 << weight_shift steps of activations have the same weights
  TileDivisors divisors;
  float* partials;     // sums of shared tiles: [CTA][helper's, owner's][half][kTokens / 8][128] x 4
  uint32_t* counters;  // of parts that are stored: [shared tile][rank in the cluster][half]; zero
  // Tensor maps. What a box has outside of its tensor is zero.
  CUtensorMap a_map;        // activations, 16 bits, [m, 128 * steps or fewer]; boxes of 64 x kTokens / pair
  CUtensorMap b_map;        // weights: see Config::Weights
  CUtensorMap b_scale_map;  // the same
  CUtensorMap d_map;        // 16-bit results [m, n]; boxes of 64 x kTokens / split; if `staged`
};

}  // namespace fp4aot

#endif
