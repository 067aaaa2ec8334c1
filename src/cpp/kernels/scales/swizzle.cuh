// swizzle_scales and unswizzle_scales: a thread moves 16 bytes of a scale atom, which are 4 columns of the rows r, r +
// 32, r + 64, r + 96, and a warp an atom. A CTA passes 8 neighbouring atoms through shared memory, so that each row of
// linear bytes is moved by whole sectors.
#ifndef FP4AOT_KERNELS_SCALES_SWIZZLE_CUH_
#define FP4AOT_KERNELS_SCALES_SWIZZLE_CUH_

#include "device/launch.cuh"
#include "device/memory.cuh"
#include "device/pdl.cuh"

namespace fp4aot {

struct ScaleLayoutArgs {
  uint8_t* linear;
  int64_t linear_stride;
  uint8_t* swizzled;
  int64_t rows, columns;
  int64_t atoms;  // a row of atoms
  int64_t row_tiles;
  bool linear_aligned;    // to 4 bytes, rows too
  bool swizzled_aligned;  // to 16 bytes
};

constexpr int kScaleLayoutThreads = 256;
constexpr int kScaleLayoutAtoms = kScaleLayoutThreads / 32;  // a CTA

template <bool kToSwizzled>
__global__ void __launch_bounds__(kScaleLayoutThreads) scale_layout_kernel(ScaleLayoutArgs const args) {
  pdl_launch_dependents();
  __shared__ uint32_t words[kScaleAtomRows][kScaleLayoutAtoms + 1];  // padded against bank conflicts
  // In the swizzled tensor this thread holds rows lane + 32 i of an atom; in the linear one, rows piece_row + 32 i of
  // the four columns of another.
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int const piece = threadIdx.x % kScaleLayoutAtoms, piece_row = threadIdx.x / kScaleLayoutAtoms;
  int64_t const first_atom = static_cast<int64_t>(blockIdx.x) * kScaleLayoutAtoms;
  int64_t const column = (first_atom + piece) * kScaleAtomColumns;
  int const present = column >= args.columns      ? 0
                      : args.columns - column < 4 ? static_cast<int>(args.columns - column)
                                                  : 4;
  bool const atom_exists = first_atom + warp < args.atoms;
  pdl_wait();
  for (int64_t tile = blockIdx.y; tile < args.row_tiles; tile += gridDim.y) {
    uint8_t* const swizzled = args.swizzled + (tile * args.atoms + first_atom + warp) * kScaleAtomBytes + lane * 16;
    if constexpr (!kToSwizzled) {
      if (atom_exists && args.swizzled_aligned) {
        uint4 const v = *reinterpret_cast<uint4 const*>(swizzled);
        words[lane][warp] = v.x;
        words[lane + 32][warp] = v.y;
        words[lane + 64][warp] = v.z;
        words[lane + 96][warp] = v.w;
      } else if (atom_exists) {
#pragma unroll
        for (int i = 0; i < 4; ++i) words[lane + 32 * i][warp] = load_bytes4(swizzled + 4 * i);
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int64_t const row = tile * kScaleAtomRows + piece_row + 32 * i;
      uint8_t* const linear = args.linear + row * args.linear_stride + column;
      uint32_t word = kToSwizzled ? 0 : words[piece_row + 32 * i][piece];
      if (row < args.rows && args.linear_aligned && present == 4) {
        if constexpr (kToSwizzled) {
          word = *reinterpret_cast<uint32_t const*>(linear);
        } else {
          *reinterpret_cast<uint32_t*>(linear) = word;
        }
      } else if (row < args.rows) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (j >= present) continue;
          if constexpr (kToSwizzled) {
            word |= static_cast<uint32_t>(linear[j]) << 8 * j;
          } else {
            linear[j] = static_cast<uint8_t>(word >> 8 * j);
          }
        }
      }
      if constexpr (kToSwizzled) words[piece_row + 32 * i][piece] = word;
    }
    if constexpr (kToSwizzled) {
      __syncthreads();
      if (atom_exists && args.swizzled_aligned) {
        *reinterpret_cast<uint4*>(swizzled) =
            make_uint4(words[lane][warp], words[lane + 32][warp], words[lane + 64][warp], words[lane + 96][warp]);
      } else if (atom_exists) {
#pragma unroll
        for (int i = 0; i < 4; ++i) store_bytes4(swizzled + 4 * i, words[lane + 32 * i][warp]);
      }
    }
    __syncthreads();  // before the next tile takes the shared memory
  }
}

template <bool kToSwizzled>
struct ScaleLayout {
  static void const* kernel() { return reinterpret_cast<void const*>(&scale_layout_kernel<kToSwizzled>); }

  static void preload() { preload_kernel(kernel()); }

  static fp4aot_status launch(char const* op, fp4aot_scale_layout_params const& p, Message* message) {
    if (p.rows == 0 || p.columns == 0) return FP4AOT_OK;
    ScaleLayoutArgs args = {};
    args.linear = p.linear;
    args.linear_stride = p.linear_stride;
    args.swizzled = p.swizzled;
    args.rows = p.rows;
    args.columns = p.columns;
    args.atoms = (p.columns + kScaleAtomColumns - 1) / kScaleAtomColumns;
    args.row_tiles = (p.rows + kScaleAtomRows - 1) / kScaleAtomRows;
    args.linear_aligned = rows_aligned(p.linear, p.linear_stride, 4);
    args.swizzled_aligned = is_aligned(p.swizzled, 16);
    // The grid reaches 2^36 columns: 64 GiB in one row.
    dim3 const grid(static_cast<unsigned>((args.atoms + kScaleLayoutAtoms - 1) / kScaleLayoutAtoms),
                    static_cast<unsigned>(args.row_tiles < kMaxGridY ? args.row_tiles : kMaxGridY));
    return fp4aot::launch({op, p.stream, p.flags, message}, kernel(), grid, kScaleLayoutThreads, args);
  }
};

}  // namespace fp4aot

#endif
