// Prepared weights (fp4aot/w4a16_layout.h) in the kernel of kernels/gemm/wgmma.cuh. Tensor map b_map: the prepared bytes as
// [row tile][bytes of its k tiles], in elements of 8 bytes, with boxes of kTiles k tiles x kRowTiles row tiles. What lies
// outside has codes 0 and scales 0, so neither rows beyond n nor values beyond k need anything else. Activations are in
// their natural order along k.
//
// kBf16: the type of both operands. MXFP4 with fp16 activations runs on bf16 ones, see split_activations.cuh.
#ifndef FP4AOT_KERNELS_W4A16_WGMMA_WEIGHTS_CUH_
#define FP4AOT_KERNELS_W4A16_WGMMA_WEIGHTS_CUH_

#include "device/shared_memory.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "fp4aot/w4a16_layout.h"
#include "kernels/gemm/wgmma_args.h"
#include "kernels/w4a16/operand.cuh"

namespace fp4aot {

template <Format kFormatValue, bool kBf16>
struct PreparedWeights {
  static constexpr Format kFormat = kFormatValue;
  static constexpr bool kNvfp4 = kFormat == Format::kNvfp4;
  static_assert(kNvfp4 || kBf16, "the scales of MXFP4 do not fit into fp16");
  static constexpr int kTileBytes = w4a16_tile_bytes(kFormat);
  static constexpr int kTiles = kWgmmaStep / kW4a16TileK;        // of a row tile, in a step
  static constexpr int kRowTiles = kWgmmaRows / kW4a16TileRows;  // a warp's 16 rows are one
  static constexpr int kRowTileBytes = kTiles * kTileBytes;      // of a step
  static constexpr int kElementBytes = 8;
  static constexpr int kBoxColumns = kRowTileBytes / kElementBytes;
  static_assert(kRowTileBytes % 16 == 0 && kBoxColumns <= 256);
  static constexpr int kBytes = kRowTiles * kRowTileBytes;
  static_assert(kBytes % 128 == 0, "slots are where bulk copies may go");
  static constexpr int kScaleBytes = 0;  // they lie in the tiles

  static constexpr float kUnshift = kW4a16Unscale<kFormat, kBf16>;

  template <class Map>
  __device__ __forceinline__ static void load_step(WgmmaGemmArgs const& args, int step, int n0, Map const& map,
                                                   uint32_t slot, uint32_t full) {
    tma_load_2d(map.weights(slot), &args.b_map, (step >> args.weight_shift) * kBoxColumns, n0 / kW4a16TileRows, full);
  }
  __device__ __forceinline__ static void prefetch_step(WgmmaGemmArgs const& args, int step, int n0) {
    tma_prefetch_2d(&args.b_map, (step >> args.weight_shift) * kBoxColumns, n0 / kW4a16TileRows);
  }
  __device__ __forceinline__ static void prefetch_maps(WgmmaGemmArgs const& args) { tma_prefetch_map(&args.b_map); }

  static constexpr int kTileSteps = kW4a16TileK / kW4a16StepK;
  struct Place {
    uint32_t codes[kTileSteps], scales;
  };
  __device__ __forceinline__ static Place place(int row, int lane) {
    Place place;
    uint32_t const tile = row / kW4a16TileRows * kRowTileBytes;
#pragma unroll
    for (int i = 0; i < kTileSteps; ++i)
      place.codes[i] = tile + 4 * w4a16_code_word(lane / 4, i * kW4a16StepK + lane % 4 * 2);
    place.scales = tile + kW4a16CodeBytes + w4a16_scale_byte(kFormat, lane / 4, 0);
    return place;
  }

  static constexpr int kScaleWords = kNvfp4 ? 2 : 1;
  struct Step {
    uint32_t codes[kTiles][kTileSteps];
    uint32_t scales[kTiles][kScaleWords];  // bytes: (block, row g), (block, row g + 8), the next block ...
  };
  struct Pending {};

  template <class Map>
  __device__ __forceinline__ static void load(Map const& map, uint32_t slot, Place const& place, Step& step,
                                              Pending& pending) {
    load_half<0>(map, slot, place, step, pending);
    load_half<1>(map, slot, place, step, pending);
  }
  template <int kHalf, class Map>
  __device__ __forceinline__ static void load_half(Map const& map, uint32_t slot, Place const& place, Step& step,
                                                   Pending&) {
    uint32_t const tile = map.weights(slot) + kHalf * kTileBytes;
    if constexpr (kNvfp4) {
      uint2 const v = shared_load8(tile + place.scales);
      step.scales[kHalf][0] = v.x, step.scales[kHalf][1] = v.y;
    } else {
      step.scales[kHalf][0] = shared_load4(tile + place.scales);
    }
#pragma unroll
    for (int i = 0; i < kTileSteps; ++i) step.codes[kHalf][i] = shared_load4(tile + place.codes[i]);
  }
  __device__ __forceinline__ static void complete(WgmmaGemmArgs const&, Place const&, int, Pending const&, Step&) {}

  __device__ __forceinline__ static void dequantize(Step const& step, int q, uint32_t (&operand)[2][4]) {
    int const tile = q / 2;
    RowFactors<kFormat, kBf16> factors[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      int const tile_step = q % 2 * 2 + j, block = kNvfp4 ? tile_step : q % 2;
      factors[j].set(row_factors<kFormat, kBf16>(step.scales[tile][block / 2] >> block % 2 * 16));
      spread_codes<kBf16>(step.codes[tile][tile_step], operand[j]);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (!kNvfp4) operand[j][i] = multiply_pair<kBf16>(operand[j][i], 0x7D807D80u);
        operand[j][i] = multiply_pair<kBf16>(operand[j][i], factors[j].row[i % 2]);
      }
    }
  }

  template <int kCount>
  __device__ __forceinline__ static void multiply(float (&d)[kCount], uint32_t const (&a)[4], uint32_t b,
                                                  int accumulate) {
    if constexpr (kBf16) {
      wgmma_m64k16(d, a, b, accumulate);
    } else {
      wgmma_m64k16_f16(d, a, b, accumulate);
    }
  }
};

}  // namespace fp4aot

#endif
