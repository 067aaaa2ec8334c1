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

  for (int64_t tile = blockIdx.y; tile < args.row_tiles; tile += gridDim.y) {
    int64_t const row = tile * tile_rows + (threadIdx.x >> args.tile_width_log2);
    if (row >= args.rows) continue;
    uint32_t codes[kDequantizeUnroll];
    uint8_t scales[kDequantizeUnroll];
#pragma unroll
    for (int i = 0; i < kDequantizeUnroll; ++i) {
      int64_t const piece = first + i * static_cast<int64_t>(width);
      if (piece >= args.pieces) continue;
      uint8_t const* const p = args.codes + row * args.codes_stride + piece * kCodeBytes;
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
      scales[i] = args.scales[args.swizzled ? scale_offset(row, column, args.columns) : row * args.columns + column];
    }
#pragma unroll
    for (int i = 0; i < kDequantizeUnroll; ++i) {
      int64_t const piece = first + i * static_cast<int64_t>(width);
      if (piece >= args.pieces) continue;
      float const scale = scale_to_float<kFormat>(scales[i]);
      float x[kElements];
#pragma unroll
      for (int j = 0; j < kElements; ++j) x[j] = __fmul_rn(e2m1_to_float(codes[i] >> 4 * j & 15u), scale);
      if (scaled) {
#pragma unroll
        for (int j = 0; j < kElements; ++j) x[j] = __fdiv_rn(x[j], global_scale);
      }
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) words[j] = Element<T>::pack(x + j * Element<T>::kPerWord);
      store_words<T, 4, kAligned>(static_cast<T*>(args.output) + row * args.output_stride + piece * kElements, words);
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
    switch (dtype) {
      case FP4AOT_BF16: return kernel<__nv_bfloat16>(aligned);
      case FP4AOT_FP16: return kernel<__half>(aligned);
      default: return kernel<float>(aligned);
    }
  }

  static void preload() {
    for (int32_t dtype : {FP4AOT_BF16, FP4AOT_FP16, FP4AOT_FP32}) {
      for (bool aligned : {false, true}) preload_kernel(choose(dtype, aligned));
    }
  }

  static fp4aot_status launch(char const* op, fp4aot_dequantize_params const& p, Message* message) {
    if (p.rows == 0 || p.k == 0) return FP4AOT_OK;
    int64_t const element_bytes = p.output_dtype == FP4AOT_FP32 ? 4 : 2;
    DequantizeArgs args = {};
    args.codes = p.codes;
    args.codes_stride = p.codes_stride;
    args.scales = p.scales;
    args.global_scale = p.global_scale;
    args.output = p.output;
    args.output_stride = p.output_stride;
    args.rows = p.rows;
    args.pieces = p.k * element_bytes / 16;
    args.columns = p.k / kVector<kFormat>;
    args.swizzled = p.scale_layout == FP4AOT_SCALES_SWIZZLED;
    while (args.tile_width_log2 < 8 && int64_t{kDequantizeUnroll} << args.tile_width_log2 < args.pieces) {
      ++args.tile_width_log2;
    }
    int64_t const tile_rows = kDequantizeThreads >> args.tile_width_log2;
    args.row_tiles = (p.rows + tile_rows - 1) / tile_rows;
    int64_t const tile_pieces = int64_t{kDequantizeUnroll} << args.tile_width_log2;
    int64_t const grid_x = (args.pieces + tile_pieces - 1) / tile_pieces;
    if (grid_x > kMaxGridX) return too_wide(op, p.k, kMaxGridX * tile_pieces * 16 / element_bytes, message);
    bool const aligned = rows_aligned(p.output, p.output_stride * element_bytes, 16) &&
                         rows_aligned(p.codes, p.codes_stride, 8 / static_cast<size_t>(element_bytes));
    dim3 const grid(static_cast<unsigned>(grid_x),
                    static_cast<unsigned>(args.row_tiles < kMaxGridY ? args.row_tiles : kMaxGridY));
    return fp4aot::launch({op, p.stream, p.flags, message}, choose(p.output_dtype, aligned), grid, kDequantizeThreads,
                          args);
  }
};

}  // namespace fp4aot

#endif
