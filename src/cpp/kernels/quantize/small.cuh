// quantize_* and silu_mul_quantize_* of small matrices, whose time is one access to memory and the instructions behind it,
// each waiting for the one before. So eight elements a thread, and threads only for rows that exist: a warp per scheduler
// of the chip as far as the matrix goes, instead of warps with idle lanes that take turns on a few multiprocessors.
#ifndef FP4AOT_KERNELS_QUANTIZE_SMALL_CUH_
#define FP4AOT_KERNELS_QUANTIZE_SMALL_CUH_

#include "device/launch.cuh"
#include "device/pdl.cuh"
#include "kernels/quantize/block.cuh"
#include "kernels/quantize/block_source.cuh"
#include "kernels/quantize/small_scales.cuh"

namespace fp4aot {

struct QuantizeSmallArgs {
  uint8_t const* input;  // aligned to 16 bytes, as are its rows
  int64_t input_stride;  // bytes
  int64_t up_distance;   // bytes from gate to up
  float const* global_scale;
  uint8_t* codes;
  int64_t codes_stride;
  uint8_t* scales;
  int32_t rows, columns, columns_stored;  // blocks a row; with padding
  bool swizzled, floor_rounding;
};

constexpr unsigned kSmallThreads = 128, kSmallElements = 8, kSmallRows = 4;  // of a CTA, a thread, a CTA

// Columns of blocks that a CTA covers: whole atoms.
template <Format kFormat>
inline constexpr unsigned kSmallColumns = kSmallThreads * kSmallElements / kVector<kFormat> / kSmallRows;

template <class Codec, Format kFormat, class T, bool kSiluMul>
__global__ void __launch_bounds__(kSmallThreads) quantize_small_kernel(QuantizeSmallArgs const args) {
  pdl_launch_dependents();
  constexpr unsigned kParts = kVector<kFormat> / kSmallElements;  // threads of a block
  constexpr unsigned kRowThreads = kParts * kScaleAtomColumns;    // of a row of an atom
  unsigned const part = threadIdx.x % kParts;
  unsigned const row = blockIdx.y * kSmallRows + threadIdx.x / kRowThreads % kSmallRows;
  unsigned const first_column = blockIdx.x * kSmallColumns<kFormat>;
  unsigned const column = first_column + threadIdx.x / (kRowThreads * kSmallRows) * kScaleAtomColumns +
                          threadIdx.x / kParts % kScaleAtomColumns;
  unsigned const rows = args.rows, columns = args.columns, columns_stored = args.columns_stored;
  bool const exists = row < rows && column < columns;
  unsigned const element = column * kVector<kFormat> + part * kSmallElements;
  uint8_t const* const input = args.input + row * args.input_stride + element * sizeof(T);

  pdl_wait();
  BlockSource<T, kSmallElements, true, kSiluMul> source = {};  // zeros where there is no element
  if (exists) source.load(input, args.up_distance);
  Scaler<kFormat> const scaler(args.global_scale, args.floor_rounding);

  unsigned const atoms_a_row = columns_stored / kScaleAtomColumns;
  uint8_t* scale = args.scales + small_scale_offset(args.swizzled, row, column, columns, columns_stored);
  if (args.swizzled) {  // while the input is on its way
    unsigned const first_atom = first_column / kScaleAtomColumns, last_tile = (rows - 1) / kScaleAtomRows;
    zero_scale_padding(args.scales + (last_tile * atoms_a_row + first_atom) * kScaleAtomBytes,
                       min(kSmallColumns<kFormat> / kScaleAtomColumns, atoms_a_row - first_atom),
                       gridDim.y * kSmallRows - last_tile * kScaleAtomRows, blockIdx.y * kSmallThreads + threadIdx.x,
                       gridDim.y * kSmallThreads);
  }

  source.apply();
  float amax = amax_of<T>(source.words);
#pragma unroll
  for (unsigned distance = 1; distance < kParts; distance *= 2) {
    amax = max_nan(amax, __shfl_xor_sync(~0u, amax, distance));
  }
  uint32_t codes[1];
  uint8_t const byte = encode<Codec, kFormat, T>(source.words, amax, scaler, codes);
  if (exists) store_codes(args.codes + row * args.codes_stride + element / 2, codes, 8);
  if (part == 0 && (args.swizzled ? column < columns_stored : exists)) *scale = exists ? byte : uint8_t{0};
}

template <class Policy, Format kFormat, bool kSiluMul>
struct QuantizeSmall {
  static int64_t grid_x(int64_t columns) { return (columns + kSmallColumns<kFormat> - 1) / kSmallColumns<kFormat>; }
  static int64_t grid_y(int64_t rows) { return (rows + kSmallRows - 1) / kSmallRows; }

  static bool takes(int64_t rows, int64_t columns) {
    return grid_x(columns) <= Policy::kQuantizeSmallCtas && grid_y(rows) <= Policy::kQuantizeSmallCtas &&
           grid_x(columns) * grid_y(rows) <= Policy::kQuantizeSmallCtas;
  }

  static void const* kernel(int32_t dtype) {
    return with_element_type(dtype, [](auto element) {
      return reinterpret_cast<void const*>(
          &quantize_small_kernel<typename Policy::E2m1, kFormat, decltype(element), kSiluMul>);
    });
  }

  static fp4aot_status launch(char const* op, fp4aot_quantize_params const& p, Message* message) {
    int64_t const columns = p.k / kVector<kFormat>;
    int64_t const element = element_bytes(p.input_dtype);
    QuantizeSmallArgs args = {};
    args.input = static_cast<uint8_t const*>(p.input);
    args.input_stride = p.input_stride * element;
    args.up_distance = p.k * element;
    args.global_scale = p.global_scale;
    args.codes = p.codes;
    args.codes_stride = p.codes_stride;
    args.scales = p.scales;
    args.rows = static_cast<int32_t>(p.rows);
    args.columns = static_cast<int32_t>(columns);
    args.swizzled = p.scale_layout == FP4AOT_SCALES_SWIZZLED;
    args.columns_stored = static_cast<int32_t>(args.swizzled ? round_up(columns, kScaleAtomColumns) : columns);
    args.floor_rounding = p.rounding == FP4AOT_ROUND_FLOOR;
    dim3 const grid(static_cast<unsigned>(grid_x(columns)), static_cast<unsigned>(grid_y(p.rows)));
    return fp4aot::launch({op, p.stream, p.flags, message}, kernel(p.input_dtype), grid, kSmallThreads, args);
  }
};

}  // namespace fp4aot

#endif
