// A tile of prepared weights (fp4aot/w4a16_layout.h) from shared memory to the registers of a warp, in the order of k.
#ifndef FP4AOT_KERNELS_W4A16_PREPARED_TILE_CUH_
#define FP4AOT_KERNELS_W4A16_PREPARED_TILE_CUH_

#include "device/shared_memory.cuh"
#include "kernels/w4a16/operand.cuh"

namespace fp4aot {

// kBf16: the operand's type.
template <Format kFormat, bool kBf16>
struct PreparedTile {
  static constexpr bool kNvfp4 = kFormat == Format::kNvfp4;
  static_assert(kNvfp4 || kBf16, "the scales of MXFP4 do not fit into fp16");
  static constexpr int kSteps = kW4a16TileK / kW4a16StepK;

  uint32_t codes[kSteps];
  uint32_t scales[kNvfp4 ? 2 : 1];  // bytes: (block, row g), (block, row g + 8), the next block ...

  __device__ __forceinline__ void load(uint32_t tile, int lane) {
    uint32_t const scale_address = tile + kW4a16CodeBytes + w4a16_scale_byte(kFormat, lane / 4, 0);
    if constexpr (kNvfp4) {
      uint2 const v = shared_load8(scale_address);
      scales[0] = v.x, scales[1] = v.y;
    } else {
      scales[0] = shared_load4(scale_address);
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      codes[i] = shared_load4(tile + 4 * w4a16_code_word(lane / 4, i * kW4a16StepK + lane % 4 * 2));
  }

  // Operand registers: four for each 16 k, as mma.m16n8k16 has them.
  __device__ __forceinline__ void dequantize(uint32_t (&operand)[4 * kSteps]) const {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      int const block = kNvfp4 ? i : i / 2;
      RowFactors<kFormat, kBf16> const factors(scales[block / 2] >> block % 2 * 16);
      uint32_t a[4];
      spread_codes<kBf16>(codes[i], a);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if constexpr (!kNvfp4) a[j] = multiply_pair<kBf16>(a[j], 0x7D807D80u);
        operand[4 * i + j] = multiply_pair<kBf16>(a[j], factors.row[j % 2]);
      }
    }
  }
};

}  // namespace fp4aot

#endif
