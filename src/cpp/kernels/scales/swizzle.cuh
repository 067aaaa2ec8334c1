// swizzle_scales and unswizzle_scales: a thread moves 16 bytes of a scale atom, which are 4 columns of the rows
// r, r + 32, r + 64, r + 96; a warp moves an atom; the warps of a CTA take neighbouring atoms, whose linear bytes share
// sectors of memory.
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

template <bool kToSwizzled>
__global__ void __launch_bounds__(kScaleLayoutThreads) scale_layout_kernel(ScaleLayoutArgs const args) {
  pdl_launch_dependents();
  int64_t const atom = static_cast<int64_t>(blockIdx.x) * (kScaleLayoutThreads / 32) + threadIdx.x / 32;
  int64_t const column = atom * kScaleAtomColumns;
  int const present = static_cast<int>(args.columns - column < 4 ? args.columns - column : 4);
  pdl_wait();
  if (atom >= args.atoms) return;
  for (int64_t tile = blockIdx.y; tile < args.row_tiles; tile += gridDim.y) {
    uint8_t* const swizzled = args.swizzled + (tile * args.atoms + atom) * kScaleAtomBytes + threadIdx.x % 32 * 16;
    int64_t const first_row = tile * kScaleAtomRows + threadIdx.x % 32;
    uint32_t words[4] = {};
    if constexpr (!kToSwizzled) {
      if (args.swizzled_aligned) {
        uint4 const v = *reinterpret_cast<uint4 const*>(swizzled);
        words[0] = v.x;
        words[1] = v.y;
        words[2] = v.z;
        words[3] = v.w;
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = load_bytes4(swizzled + 4 * i);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int64_t const row = first_row + 32 * i;
      if (row >= args.rows) continue;
      uint8_t* const linear = args.linear + row * args.linear_stride + column;
      if (args.linear_aligned && present == 4) {
        if constexpr (kToSwizzled) {
          words[i] = *reinterpret_cast<uint32_t const*>(linear);
        } else {
          *reinterpret_cast<uint32_t*>(linear) = words[i];
        }
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (j >= present) continue;
          if constexpr (kToSwizzled) {
            words[i] |= static_cast<uint32_t>(linear[j]) << 8 * j;
          } else {
            linear[j] = static_cast<uint8_t>(words[i] >> 8 * j);
          }
        }
      }
    }
    if constexpr (kToSwizzled) {
      if (args.swizzled_aligned) {
        *reinterpret_cast<uint4*>(swizzled) = make_uint4(words[0], words[1], words[2], words[3]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) store_bytes4(swizzled + 4 * i, words[i]);
      }
    }
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
    constexpr int64_t kAtomsACta = kScaleLayoutThreads / 32;  // the grid reaches 2^36 columns: 64 GiB in one row
    dim3 const grid(static_cast<unsigned>((args.atoms + kAtomsACta - 1) / kAtomsACta),
                    static_cast<unsigned>(args.row_tiles < kMaxGridY ? args.row_tiles : kMaxGridY));
    return fp4aot::launch({op, p.stream, p.flags, message}, kernel(), grid, kScaleLayoutThreads, args);
  }
};

}  // namespace fp4aot

#endif
