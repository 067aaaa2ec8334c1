// Weights of the W4A4 kernel (wgmma.cuh) as checkpoints hold them. Tensor maps: b_map has the codes, uint8 [n, k / 2], with
// boxes of kStepBytes x kWgmmaRows; b_scale_map the swizzled scales, uint32 [row block][atom][128], kAtoms atoms a box.
//
// Order along k. Within a step of 128 values, thread t of a quad reads the 16 bytes of values 32t..32t+31 of a weight row,
// so the product of word q = 0..3 and half j = 0, 1 takes, as its k index 2t + e (+ 8), value 32t + 8q + 2j (+ 1) + 4e: the
// order in which dequantize_word yields pairs. Activations lie in that same order (expand.cuh).
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_WEIGHTS_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_WEIGHTS_CUH_

#include "device/shared_memory.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "kernels/gemm/dequant.cuh"
#include "kernels/gemm/wgmma_args.h"

namespace fp4aot {

// Byte of (row, 0) within a scale atom of 128 rows.
__device__ __forceinline__ uint32_t atom_row(int row) { return row % 32 * 16 + row / 32 * 4; }

template <Format kFormatValue>
struct CanonicalWeights {
  static constexpr Format kFormat = kFormatValue;
  // A step is 64 bytes of codes a weight row and kAtoms scale atoms.
  static constexpr int kStepBytes = kWgmmaStep / 2;
  static constexpr int kAtoms = kWgmmaStep / (kVector<kFormat> * kScaleAtomColumns);
  static constexpr int kBytes = kWgmmaRows * kStepBytes;  // in shared memory
  static constexpr int kScaleBytes = kAtoms * kScaleAtomBytes;
  static_assert(kWgmmaRows == kScaleAtomRows);

  static constexpr float kUnshift = BlockFactors<kFormat>::kUnshift;

  // The producer: copies a step of the weight rows from n0 on to a slot of shared memory (SharedMap). One thread. Scale atoms beyond the tensor
  // arrive as zero, but the padding inside of the last one may be anything: `complete` masks it.
  template <class Map>
  __device__ __forceinline__ static void load_step(WgmmaGemmArgs const& args, int step, int n0, Map const& map,
                                                   uint32_t slot, uint32_t full) {
    tma_load_2d(map.weights(slot), &args.b_map, step * kStepBytes, n0, full);
    tma_load_3d(map.weight_scales(slot), &args.b_scale_map, 0, step * kAtoms, n0 / kScaleAtomRows, full);
  }
  __device__ __forceinline__ static void prefetch_step(WgmmaGemmArgs const& args, int step, int n0) {
    tma_prefetch_2d(&args.b_map, step * kStepBytes, n0);
    tma_prefetch_3d(&args.b_scale_map, 0, step * kAtoms, n0 / kScaleAtomRows);
  }
  __device__ __forceinline__ static void prefetch_maps(WgmmaGemmArgs const& args) {
    tma_prefetch_map(&args.b_map);
    tma_prefetch_map(&args.b_scale_map);
  }

  // Where a consumer's thread reads from a step in shared memory: weight rows `row` and row + 8 of the tile.
  struct Place {
    uint32_t codes, scales;
    int t;
  };
  __device__ __forceinline__ static Place place(int row, int lane) {
    Place place;
    place.t = lane % 4;
    place.codes = row * kStepBytes + place.t * 16;
    place.scales =
        atom_row(row) + (kFormat == Format::kNvfp4 ? place.t / 2 * kScaleAtomBytes + place.t % 2 * 2 : place.t);
    return place;
  }

  struct Step {  // a thread's part of a step
    uint32_t codes[2][4];
    BlockFactors<kFormat> factors[2];
  };
  using Pending = uint32_t[2];  // what has been loaded but not yet looked at: scales

  // All of a step, or words 2 * kHalf and 2 * kHalf + 1, when it is there; half 0 first.
  template <class Map>
  __device__ __forceinline__ static void load(Map const& map, uint32_t slot, Place const& place, Step& step,
                                              Pending& pending) {
    load_scales(map, slot, place, pending);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint4 const v = shared_load16(map.weights(slot) + place.codes + h * 8 * kStepBytes);
      step.codes[h][0] = v.x, step.codes[h][1] = v.y, step.codes[h][2] = v.z, step.codes[h][3] = v.w;
    }
  }
  template <int kHalf, class Map>
  __device__ __forceinline__ static void load_half(Map const& map, uint32_t slot, Place const& place, Step& step,
                                                   Pending& pending) {
    if constexpr (kHalf == 0) load_scales(map, slot, place, pending);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint2 const v = shared_load8(map.weights(slot) + place.codes + h * 8 * kStepBytes + kHalf * 8);
      step.codes[h][2 * kHalf] = v.x, step.codes[h][2 * kHalf + 1] = v.y;
    }
  }
  // Afterwards, when its place in shared memory is free again.
  __device__ __forceinline__ static void complete(WgmmaGemmArgs const& args, Place const& place, int step,
                                                  Pending const& pending, Step& weights) {
    bool const inside = 32 * place.t < args.k - step * kWgmmaStep;  // scales beyond k may be anything
#pragma unroll
    for (int h = 0; h < 2; ++h) weights.factors[h] = BlockFactors<kFormat>(inside ? pending[h] : 0);
  }

  // Word q of a step as the operands of its two products.
  __device__ __forceinline__ static void dequantize(Step const& step, int q, uint32_t (&operand)[2][4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint32_t pairs[4];
      dequantize_word(step.codes[h][q], step.factors[h].of_word(q), pairs);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        operand[j][h] = pairs[2 * j];
        operand[j][h + 2] = pairs[2 * j + 1];
      }
    }
  }

  template <int kCount>
  __device__ __forceinline__ static void multiply(float (&d)[kCount], uint32_t const (&a)[4], uint32_t b,
                                                  int accumulate) {
    wgmma_m64k16(d, a, b, accumulate);
  }

 private:
  template <class Map>
  __device__ __forceinline__ static void load_scales(Map const& map, uint32_t slot, Place const& place,
                                                     Pending& pending) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      // 16 bytes from row to row, within 32 rows
      uint32_t const address = map.weight_scales(slot) + place.scales + h * 8 * 16;
      pending[h] = kFormat == Format::kNvfp4 ? shared_load2(address) : shared_load1(address);
    }
  }
};

}  // namespace fp4aot

#endif
