// quantize_* and silu_mul_quantize_*: a thread makes a whole block (or half of one, where a block is 128 bytes or
// more), so that scales need no reduction across threads (or one exchange with a neighbour). Small matrices: small.cuh.
//
// Swizzled scales: a CTA covers part of the rows of a scale atom, and a warp the blocks of 8 rows x 4 columns whose 32
// scale bytes are one sector of memory, so that they leave in one full write; each of its rows still reads 128
// contiguous bytes or more. Threads outside the matrix write the padding. Linear scales: a warp holds 32 columns of a
// row, or for narrow matrices several rows.
#ifndef FP4AOT_KERNELS_QUANTIZE_ROWS_CUH_
#define FP4AOT_KERNELS_QUANTIZE_ROWS_CUH_

#include "device/launch.cuh"
#include "device/pdl.cuh"
#include "kernels/quantize/block.cuh"
#include "kernels/quantize/block_source.cuh"
#include "kernels/quantize/small.cuh"

namespace fp4aot {

struct QuantizeRowsArgs {
  uint8_t const* input;
  int64_t input_stride;  // bytes
  int64_t up_distance;   // bytes from gate to up
  float const* global_scale;
  uint8_t* codes;
  int64_t codes_stride;
  uint8_t* scales;
  int64_t row_tiles;
  int64_t scale_tile_bytes;                    // from a tile of rows to the next
  int64_t input_step, codes_step, scale_step;  // bytes from a CTA's tile of rows to its next
  int32_t last_tile_rows;                      // that exist
  int32_t columns, columns_stored;             // blocks a row; with padding
  int32_t codes_alignment;
  int32_t tile_columns_log2;  // linear: a CTA's tile is 2^this columns wide
  bool swizzled, floor_rounding;
};

constexpr int kQuantizeThreads = 256;
constexpr int kLinearTileStep = 32;  // columns from a thread's block to its next

// Threads that share a block.
template <Format kFormat, class T, bool kSiluMul>
inline constexpr int kBlockThreads = kVector<kFormat> * sizeof(T) * (kSiluMul ? 2 : 1) >= 128 ? 2 : 1;

template <class Codec, Format kFormat, class T, bool kAligned, bool kSiluMul, int kTiles, unsigned kThreads>
__global__ void __launch_bounds__(kQuantizeThreads) quantize_rows_kernel(QuantizeRowsArgs const args) {
  pdl_launch_dependents();
  using Source = BlockSource<T, kVector<kFormat> / kThreads, kAligned, kSiluMul>;
  constexpr unsigned kBlocks = kQuantizeThreads / kThreads;  // of the CTA, in one of its tiles
  constexpr unsigned kAtomCtas = kScaleAtomBytes / kBlocks;  // that share an atom
  constexpr int kInputBytes = kVector<kFormat> * static_cast<int>(sizeof(T)), kCodeBytes = kVector<kFormat> / 2;
  unsigned const block = threadIdx.x / kThreads, part = threadIdx.x % kThreads;
  unsigned column, column_step, tile_rows, row_in_tile, scale_step;
  int64_t scale_index;  // within the tile of rows
  if (args.swizzled) {
    unsigned const in_atom = blockIdx.x % kAtomCtas * kBlocks + block;  // also the scale's place in the atom
    unsigned const atom = blockIdx.x / kAtomCtas * kTiles;
    column = atom * kScaleAtomColumns + in_atom % 4;
    column_step = kScaleAtomColumns;
    tile_rows = kScaleAtomRows;
    row_in_tile = in_atom / 4 % 4 * 32 + in_atom / 16;
    scale_index = static_cast<int64_t>(atom) * kScaleAtomBytes + in_atom;
    scale_step = kScaleAtomBytes;
  } else {
    unsigned const width_log2 = args.tile_columns_log2;
    unsigned const in_row = block & ((1u << width_log2) - 1);
    column = (blockIdx.x << width_log2) * kTiles + in_row / kLinearTileStep * (kLinearTileStep * kTiles) +
             in_row % kLinearTileStep;
    column_step = kLinearTileStep;
    tile_rows = kBlocks >> width_log2;
    row_in_tile = block >> width_log2;
    scale_index = static_cast<int64_t>(row_in_tile) * args.columns + column;
    scale_step = kLinearTileStep;
  }
  unsigned const columns = args.columns;
  unsigned const first_row = blockIdx.y * tile_rows + row_in_tile;  // at most 65535 * 256
  uint8_t const* input = args.input + first_row * args.input_stride + static_cast<int64_t>(column) * kInputBytes +
                         part * (kInputBytes / kThreads);
  pdl_wait();
  // The input first: a small launch is the time of one access to memory and little else.
  Source source[kTiles];
  auto const load = [&](int64_t tile) {
    bool const row_exists = row_in_tile < static_cast<unsigned>(args.last_tile_rows) || tile != args.row_tiles - 1;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      if (row_exists && column + i * column_step < columns) {
        source[i].load(input + i * column_step * kInputBytes, args.up_distance);
      }
    }
    return row_exists;
  };
  int64_t tile = blockIdx.y;
  bool row_exists = load(tile);
  Scaler<kFormat> const scaler(args.global_scale, args.floor_rounding);
  uint8_t* codes_out = args.codes + first_row * args.codes_stride + static_cast<int64_t>(column) * kCodeBytes +
                       part * (kCodeBytes / kThreads);
  uint8_t* scales_out = args.scales + blockIdx.y * args.scale_tile_bytes + scale_index;
  while (true) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      unsigned const c = column + i * column_step;
      bool const exists = row_exists && c < columns;
      uint8_t byte = 0;  // padding
      float amax = 0.0f;
      if (kThreads > 1) {
        if (exists) {
          source[i].apply();
          amax = amax_of<T>(source[i].words);
        }
#pragma unroll
        for (unsigned distance = 1; distance < kThreads; distance *= 2) {
          amax = max_nan(amax, __shfl_xor_sync(~0u, amax, distance));
        }
      }
      if (exists) {
        if (kThreads == 1) {
          source[i].apply();
          amax = amax_of<T>(source[i].words);
        }
        uint32_t codes[Source::kElements / 8];
        byte = encode<Codec, kFormat, T>(source[i].words, amax, scaler, codes);
        store_codes(codes_out + i * column_step * kCodeBytes, codes,
                    kAligned && args.codes_alignment < 8 ? 8 : args.codes_alignment);
      }
      if (part == 0 && c < static_cast<unsigned>(args.columns_stored) && (row_exists || args.swizzled)) {
        scales_out[i * scale_step] = byte;
      }
    }
    tile += gridDim.y;
    if (tile >= args.row_tiles) break;
    input += args.input_step;
    codes_out += args.codes_step;
    scales_out += args.scale_step;
    row_exists = load(tile);
  }
}

template <class Policy, Format kFormat, bool kSiluMul>
struct QuantizeRows {
  using Small = QuantizeSmall<Policy, kFormat, kSiluMul>;

  struct Choice {
    void const* kernel;
    int tiles;
    int blocks;  // of a CTA, a tile
  };

  template <class T, bool kAligned, int kTiles>
  static Choice choice() {
    constexpr int kThreads = kBlockThreads<kFormat, T, kSiluMul>;
    return {reinterpret_cast<void const*>(
                &quantize_rows_kernel<typename Policy::E2m1, kFormat, T, kAligned, kSiluMul, kTiles, kThreads>),
            kTiles, kQuantizeThreads / kThreads};
  }

  static Choice choose(int32_t dtype, bool aligned) {
    return with_element_type(dtype, [&](auto element) {
      using T = decltype(element);
      return aligned ? choice<T, true, Policy::kQuantizeTiles>() : choice<T, false, 1>();
    });
  }

  static void preload() {
    for (int32_t dtype : {FP4AOT_BF16, FP4AOT_FP16, FP4AOT_FP32}) {
      preload_kernel(Small::kernel(dtype));
      for (bool aligned : {false, true}) preload_kernel(choose(dtype, aligned).kernel);
    }
  }

  static fp4aot_status launch(char const* op, fp4aot_quantize_params const& p, Message* message) {
    int64_t const columns = p.k / kVector<kFormat>;
    if (p.rows == 0 || columns == 0) return FP4AOT_OK;
    if (columns > kMaxColumns) return too_wide(op, p.k, kMaxColumns * kVector<kFormat>, message);
    int64_t const element = element_bytes(p.input_dtype);
    QuantizeRowsArgs args = {};
    args.input = static_cast<uint8_t const*>(p.input);
    args.input_stride = p.input_stride * element;
    args.up_distance = p.k * element;
    args.global_scale = p.global_scale;
    args.codes = p.codes;
    args.codes_stride = p.codes_stride;
    args.scales = p.scales;
    args.columns = static_cast<int32_t>(columns);
    args.codes_alignment = codes_alignment(p.codes, p.codes_stride);
    args.swizzled = p.scale_layout == FP4AOT_SCALES_SWIZZLED;
    args.floor_rounding = p.rounding == FP4AOT_ROUND_FLOOR;
    bool const aligned = args.codes_alignment >= 8 && rows_aligned(p.input, args.input_stride, 16);
    if (aligned && Small::takes(p.rows, columns)) return Small::launch(op, p, message);
    Choice const chosen = choose(p.input_dtype, aligned);
    int64_t tile_rows, grid_x;
    if (args.swizzled) {
      args.columns_stored = static_cast<int32_t>(round_up(columns, kScaleAtomColumns));
      args.scale_tile_bytes = int64_t{args.columns_stored} * kScaleAtomRows;
      tile_rows = kScaleAtomRows;
      grid_x = (args.columns_stored / kScaleAtomColumns + chosen.tiles - 1) / chosen.tiles *
               (kScaleAtomBytes / chosen.blocks);
    } else {  // a warp wide, less if the matrix is narrower, more if it has few rows
      int width_log2 = 0;
      while (width_log2 < 5 && (1 << width_log2) < columns) ++width_log2;
      while (2 << width_log2 <= chosen.blocks && (chosen.tiles << width_log2) < columns &&
             chosen.blocks >> width_log2 > p.rows) {
        ++width_log2;
      }
      args.tile_columns_log2 = width_log2;
      args.columns_stored = args.columns;
      tile_rows = chosen.blocks >> width_log2;
      args.scale_tile_bytes = tile_rows * columns;
      grid_x = (columns + (chosen.tiles << width_log2) - 1) / (chosen.tiles << width_log2);
    }
    args.row_tiles = (p.rows + tile_rows - 1) / tile_rows;
    args.last_tile_rows = static_cast<int32_t>(p.rows - (args.row_tiles - 1) * tile_rows);
    int64_t const grid_y = Policy::quantize_grid_y(grid_x, args.row_tiles);
    args.input_step = grid_y * tile_rows * args.input_stride;
    args.codes_step = grid_y * tile_rows * args.codes_stride;
    args.scale_step = grid_y * args.scale_tile_bytes;
    dim3 const grid(static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y));
    return fp4aot::launch({op, p.stream, p.flags, message}, chosen.kernel, grid, kQuantizeThreads, args);
  }
};

}  // namespace fp4aot

#endif
