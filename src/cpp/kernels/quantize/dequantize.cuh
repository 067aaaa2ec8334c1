// dequantize_*: a thread writes 16 bytes of output from each of a few places in a row.
#ifndef FP4AOT_KERNELS_QUANTIZE_DEQUANTIZE_CUH_
#define FP4AOT_KERNELS_QUANTIZE_DEQUANTIZE_CUH_

#include "device/launch.cuh"
#include "device/memory.cuh"
#include "device/pdl.cuh"
#include "kernels/quantize/block.cuh"

namespace fp4aot {

struct DequantizeArgs {
  uint8_t const* codes;
  int64_t codes_stride;
  uint8_t const* scales;
  float const* global_scale;
  void* output;
  int64_t output_stride;  // elements
  int64_t rows, row_tiles;
  int64_t pieces;   // 16-byte pieces of output a row
  int64_t columns;  // scales a row
  int32_t tile_width_log2;
  bool swizzled;
};

// Codes of 16-byte pieces of T to fp32, times the block's scale. Up to the scale of NVFP4 the arithmetic is fp16's, in
// which e2m1 x e4m3 is exact (6 significant bits, 2^-10 to 2688).
template <Format kFormat, int kElements>
__device__ __forceinline__ void decode(uint32_t codes, uint8_t scale, float (&x)[kElements]) {
  constexpr uint32_t kLow = 0x3E3C3800u, kHigh = 0x46444240u;  // the upper bytes of 0, .5, 1, 1.5 and 2, 3, 4, 6
  __half2 factor;
  if constexpr (kFormat == Format::kNvfp4) {
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(scale * 0x0101u)));
    factor = bit_cast<__half2>(halves);
  }
  float const scale_float = ue8m0_to_float(scale);  // unused for NVFP4
#pragma unroll
  for (int i = 0; i < kElements; i += 4) {
    uint32_t const four = codes >> 4 * i;
    uint32_t const doubled = __byte_perm(four, 0, 0x1100);
    uint32_t const bytes = __byte_perm(kLow, kHigh, four & 0x7777u) | (doubled << 4 & 0x00800080u) |
                           (doubled & 0x80008000u);  // upper bytes of four fp16 numbers
    uint32_t const pairs[2] = {__byte_perm(bytes, 0, 0x1404), __byte_perm(bytes, 0, 0x3424)};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      auto pair = bit_cast<__half2>(pairs[j]);
      if constexpr (kFormat == Format::kNvfp4) pair = __hmul2_rn(pair, factor);
      float2 const both = __half22float2(pair);
      x[i + 2 * j] = kFormat == Format::kNvfp4 ? both.x : __fmul_rn(both.x, scale_float);
      x[i + 2 * j + 1] = kFormat == Format::kNvfp4 ? both.y : __fmul_rn(both.y, scale_float);
    }
  }
}

__device__ __forceinline__ int64_t scale_row_offset(DequantizeArgs const& args, int64_t row) {
  return args.swizzled ? scale_offset(row, 0, args.columns) : row * args.columns;
}

constexpr int kDequantizeThreads = 256;
constexpr int kDequantizeUnroll = 4;

template <Format kFormat, class T, bool kAligned>
__global__ void __launch_bounds__(kDequantizeThreads) dequantize_kernel(DequantizeArgs const args) {
  pdl_launch_dependents();
  constexpr int kElements = 16 / static_cast<int>(sizeof(T));  // a piece
  constexpr int kCodeBytes = kElements / 2;
  constexpr int kPiecesABlock = kVector<kFormat> / kElements;
  unsigned const width = 1u << args.tile_width_log2;
  unsigned const tile_rows = kDequantizeThreads >> args.tile_width_log2;
  int64_t const first = static_cast<int64_t>(blockIdx.x) * kDequantizeUnroll * width + (threadIdx.x & (width - 1));
  pdl_wait();
  bool const scaled = args.global_scale != nullptr;
  float const global_scale = scaled ? *args.global_scale : 1.0f;
  bool const moderate = global_scale >= kGlobalScaleMin && global_scale <= kGlobalScaleMax;
  float const inverse = __frcp_rn(global_scale);

  for (int64_t tile = blockIdx.y; tile < args.row_tiles; tile += gridDim.y) {
    int64_t const row = tile * tile_rows + (threadIdx.x >> args.tile_width_log2);
    if (row >= args.rows) continue;
    uint8_t const* const scales_row = args.scales + scale_row_offset(args, row);
    uint8_t const* const codes_row = args.codes + row * args.codes_stride;
    T* const output_row = static_cast<T*>(args.output) + row * args.output_stride;
    uint32_t codes[kDequantizeUnroll];
    uint8_t scales[kDequantizeUnroll];
#pragma unroll
    for (int i = 0; i < kDequantizeUnroll; ++i) {
      int64_t const piece = first + i * static_cast<int64_t>(width);
      if (piece >= args.pieces) continue;
      uint8_t const* const p = codes_row + piece * kCodeBytes;
      if constexpr (!kAligned) {
        codes[i] = 0;
#pragma unroll
        for (int j = 0; j < kCodeBytes; ++j) codes[i] |= static_cast<uint32_t>(p[j]) << 8 * j;
      } else if constexpr (kCodeBytes == 4) {
        codes[i] = *reinterpret_cast<uint32_t const*>(p);
      } else {
        codes[i] = *reinterpret_cast<uint16_t const*>(p);
      }
      int64_t const column = piece / kPiecesABlock;
      scales[i] = scales_row[args.swizzled ? scale_offset(0, column, args.columns) : column];
    }
#pragma unroll
    for (int i = 0; i < kDequantizeUnroll; ++i) {
      int64_t const piece = first + i * static_cast<int64_t>(width);
      if (piece >= args.pieces) continue;
      float x[kElements];
      decode<kFormat>(codes[i], scales[i], x);
      if (scaled && moderate) {  // checked for every mantissa of the scale and of the products
#pragma unroll
        for (int j = 0; j < kElements; ++j) x[j] = divide_by_inverse(x[j], global_scale, inverse);
      } else if (scaled) {
#pragma unroll
        for (int j = 0; j < kElements; ++j) x[j] = __fdiv_rn(x[j], global_scale);
      }
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) words[j] = Element<T>::pack(x + j * Element<T>::kPerWord);
      store_words<T, 4, kAligned>(output_row + piece * kElements, words);
    }
  }
}

template <Format kFormat>
struct Dequantize {
  template <class T>
  static void const* kernel(bool aligned) {
    return aligned ? reinterpret_cast<void const*>(&dequantize_kernel<kFormat, T, true>)
                   : reinterpret_cast<void const*>(&dequantize_kernel<kFormat, T, false>);
  }

  static void const* choose(int32_t dtype, bool aligned) {
    return with_element_type(dtype, [&](auto element) { return kernel<decltype(element)>(aligned); });
  }

  static void preload() {
    for (int32_t dtype : {FP4AOT_BF16, FP4AOT_FP16, FP4AOT_FP32}) {
      for (bool aligned : {false, true}) preload_kernel(choose(dtype, aligned));
    }
  }

  static fp4aot_status launch(char const* op, fp4aot_dequantize_params const& p, Message* message) {
    if (p.rows == 0 || p.k == 0) return FP4AOT_OK;
    int64_t const element = element_bytes(p.output_dtype);
    DequantizeArgs args = {};
    args.codes = p.codes;
    args.codes_stride = p.codes_stride;
    args.scales = p.scales;
    args.global_scale = p.global_scale;
    args.output = p.output;
    args.output_stride = p.output_stride;
    args.rows = p.rows;
    args.pieces = p.k * element / 16;
    args.columns = p.k / kVector<kFormat>;
    args.swizzled = p.scale_layout == FP4AOT_SCALES_SWIZZLED;
    while (args.tile_width_log2 < 8 && int64_t{kDequantizeUnroll} << args.tile_width_log2 < args.pieces) {
      ++args.tile_width_log2;
    }
    int64_t const tile_rows = kDequantizeThreads >> args.tile_width_log2;
    args.row_tiles = (p.rows + tile_rows - 1) / tile_rows;
    int64_t const tile_pieces = int64_t{kDequantizeUnroll} << args.tile_width_log2;
    int64_t const grid_x = (args.pieces + tile_pieces - 1) / tile_pieces;
    if (grid_x > kMaxGridX) return too_wide(op, p.k, kMaxGridX * tile_pieces * 16 / element, message);
    bool const aligned = rows_aligned(p.output, p.output_stride * element, 16) &&
                         rows_aligned(p.codes, p.codes_stride, 8 / static_cast<size_t>(element));
    dim3 const grid(static_cast<unsigned>(grid_x),
                    static_cast<unsigned>(args.row_tiles < kMaxGridY ? args.row_tiles : kMaxGridY));
    return fp4aot::launch({op, p.stream, p.flags, message}, choose(p.output_dtype, aligned), grid, kDequantizeThreads,
                          args);
  }
};

}  // namespace fp4aot

#endif
