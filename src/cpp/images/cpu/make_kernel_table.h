// The table of one instruction set, from the templates. For kernels_<isa>.cpp only.
#ifndef FP4AOT_IMAGES_CPU_MAKE_KERNEL_TABLE_H_
#define FP4AOT_IMAGES_CPU_MAKE_KERNEL_TABLE_H_

#include <utility>

#include "kernels/gemm/cpu.h"
#include "kernels/gemm/cpu_stream.h"
#include "kernels/gemm/cpu_w4a16.h"
#include "kernels/quantize/cpu.h"
#include "kernels/quantize/cpu_fused.h"

namespace fp4aot::cpu {

template <class V, int... kRows>
constexpr KernelTable make_kernel_table(char const* name, std::integer_sequence<int, kRows...>) {
  constexpr Format kNv = Format::kNvfp4, kMx = Format::kMxfp4;
  return {
      name,
      {{quantize<V, kNv, Bf16>, quantize<V, kNv, Fp16>, quantize<V, kNv, float>},
       {quantize<V, kMx, Bf16>, quantize<V, kMx, Fp16>, quantize<V, kMx, float>}},
      {{silu_mul_quantize<V, kNv, Bf16>, silu_mul_quantize<V, kNv, Fp16>, silu_mul_quantize<V, kNv, float>},
       {silu_mul_quantize<V, kMx, Bf16>, silu_mul_quantize<V, kMx, Fp16>, silu_mul_quantize<V, kMx, float>}},
      {square_sum<V, Bf16>, square_sum<V, Fp16>, square_sum<V, float>},
      {scale_quantize<V, Bf16>, scale_quantize<V, Fp16>, scale_quantize<V, float>},
      {{dequantize<V, kNv, Bf16>, dequantize<V, kNv, Fp16>, dequantize<V, kNv, float>},
       {dequantize<V, kMx, Bf16>, dequantize<V, kMx, Fp16>, dequantize<V, kMx, float>}},
      {finite_amax_bits<V, Bf16>, finite_amax_bits<V, Fp16>, finite_amax_bits<V, float>},
      V::kTileVectors * V::kWidth,
      {decode_rows<V, kNv>, decode_rows<V, kMx>},
      {decode_panels<V, kNv>, decode_panels<V, kMx>},
      multiply<V>,
      {prepare_stream<V, kNv>, prepare_stream<V, kMx>},
      {{stream<V, kNv, kRows + 1>...}, {stream<V, kMx, kRows + 1>...}},
      {unprepare<V, kNv>, unprepare<V, kMx>},
      {{stream_w4a16<V, kNv, kRows + 1>...}, {stream_w4a16<V, kMx, kRows + 1>...}},
      {store_row<V, Bf16>, store_row<V, Fp16>, store_row<V, float>},
      {load_row<V, Bf16>, load_row<V, Fp16>, load_row<V, float>},
  };
}

template <class V>
constexpr KernelTable make_kernel_table(char const* name) {
  static_assert(kMBlock % V::kTileRows == 0 && kNTile % (V::kTileVectors * V::kWidth) == 0);
  return make_kernel_table<V>(name, std::make_integer_sequence<int, kStreamRows>());
}

}  // namespace fp4aot::cpu

#endif
