// prepare_w4a16_* and restore_w4a16_*: a warp moves a tile of 16 rows x 64 k between canonical weights and the prepared
// layout (fp4aot/w4a16_layout.h), its codes through shared memory so that global memory sees whole sectors.
#ifndef FP4AOT_KERNELS_W4A16_PREPARE_CUH_
#define FP4AOT_KERNELS_W4A16_PREPARE_CUH_

#include "device/launch.cuh"
#include "device/pdl.cuh"
#include "fp4aot/w4a16_layout.h"

namespace fp4aot {

struct W4a16WeightsArgs {
  uint8_t* codes;
  int64_t codes_stride;
  uint8_t* scales;
  int64_t scales_stride;  // linear
  uint8_t* prepared;
  int64_t n, k;
  int64_t row_tiles;  // that have something to do: restore also zeroes the padding of swizzled scales
  int64_t k_tiles;    // likewise
  bool linear;
};

constexpr int kW4a16PrepareWarps = 8;  // a CTA, of neighbouring k tiles

// Of a warp: canonical codes of a tile, and a pair of scales a lane.
struct W4a16WarpTile {
  int64_t row, k;  // the first ones
  int lane;
  uint8_t (*codes)[kW4a16TileK / 2];  // shared memory
};

template <Format kFormat>
__device__ __forceinline__ uint8_t* w4a16_scale_at(W4a16WeightsArgs const& args, int64_t row, int64_t block) {
  if (args.linear) return args.scales + row * args.scales_stride + block;
  return args.scales + scale_offset(row, block, args.k / kVector<kFormat>);
}

template <Format kFormat>
__device__ __forceinline__ void prepare_w4a16_tile(W4a16WeightsArgs const& args, W4a16WarpTile const& tile,
                                                   uint8_t* out) {
  int const row = tile.lane / 2, half = tile.lane % 2, g = tile.lane / 4, t = tile.lane % 4;
  uint2* const own = reinterpret_cast<uint2*>(&tile.codes[row][16 * half]);
#pragma unroll
  for (int i = 0; i < 2; ++i) {  // 16 k each
    int64_t const k = tile.k + 32 * half + 16 * i;
    bool const inside = tile.row + row < args.n && k < args.k;
    own[i] = inside ? *reinterpret_cast<uint2 const*>(args.codes + (tile.row + row) * args.codes_stride + k / 2)
                    : make_uint2(0, 0);
  }
  __syncwarp();
#pragma unroll
  for (int step = 0; step < kW4a16TileK / kW4a16StepK; ++step) {
    int const byte = 8 * step + t;
    uint32_t const word = tile.codes[g][byte] | tile.codes[g + 8][byte] << 8 | tile.codes[g][byte + 4] << 16 |
                          static_cast<uint32_t>(tile.codes[g + 8][byte + 4]) << 24;
    reinterpret_cast<uint32_t*>(out)[w4a16_code_word(g, kW4a16StepK * step) + t] = w4a16_pack_codes(word);
  }
  constexpr int kVec = kVector<kFormat>;
  if (t < kW4a16TileK / kVec) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int64_t const r = tile.row + g + 8 * h, k = tile.k + t * kVec;
      uint8_t const byte = r < args.n && k < args.k ? *w4a16_scale_at<kFormat>(args, r, k / kVec) : uint8_t{0};
      out[kW4a16CodeBytes + w4a16_scale_byte(kFormat, g + 8 * h, t)] = w4a16_encode_scale(kFormat, byte);
    }
  }
}

template <Format kFormat>
__device__ __forceinline__ void restore_w4a16_tile(W4a16WeightsArgs const& args, W4a16WarpTile const& tile,
                                                   uint8_t const* in) {
  int const row = tile.lane / 2, half = tile.lane % 2, g = tile.lane / 4, t = tile.lane % 4;
  bool const exists = tile.row < args.n && tile.k < args.k;  // else it is padding of swizzled scales
  if (exists) {
#pragma unroll
    for (int step = 0; step < kW4a16TileK / kW4a16StepK; ++step) {
      int const byte = 8 * step + t;
      uint32_t const word =
          w4a16_unpack_codes(reinterpret_cast<uint32_t const*>(in)[w4a16_code_word(g, kW4a16StepK * step) + t]);
      tile.codes[g][byte] = static_cast<uint8_t>(word);
      tile.codes[g + 8][byte] = static_cast<uint8_t>(word >> 8);
      tile.codes[g][byte + 4] = static_cast<uint8_t>(word >> 16);
      tile.codes[g + 8][byte + 4] = static_cast<uint8_t>(word >> 24);
    }
    __syncwarp();
    uint2 const* const own = reinterpret_cast<uint2 const*>(&tile.codes[row][16 * half]);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int64_t const k = tile.k + 32 * half + 16 * i;
      if (tile.row + row < args.n && k < args.k) {
        *reinterpret_cast<uint2*>(args.codes + (tile.row + row) * args.codes_stride + k / 2) = own[i];
      }
    }
  }
  constexpr int kVec = kVector<kFormat>;
  if (t < kW4a16TileK / kVec) {
    int64_t const columns = args.k / kVec, block = tile.k / kVec + t;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int64_t const r = tile.row + g + 8 * h;
      bool const inside = r < args.n && block < columns;
      if (!inside && (args.linear || block >= round_up(columns, kScaleAtomColumns))) continue;
      *w4a16_scale_at<kFormat>(args, r, block) =
          inside ? w4a16_decode_scale(kFormat, in[kW4a16CodeBytes + w4a16_scale_byte(kFormat, g + 8 * h, t)])
                 : uint8_t{0};
    }
  }
}

template <Format kFormat, bool kRestore>
__global__ void __launch_bounds__(kW4a16PrepareWarps * 32) w4a16_weights_kernel(W4a16WeightsArgs const args) {
  pdl_launch_dependents();
  __shared__ __align__(16) uint8_t codes[kW4a16PrepareWarps][kW4a16TileRows][kW4a16TileK / 2];
  int const warp = threadIdx.x / 32;
  int64_t const k_tile = static_cast<int64_t>(blockIdx.x) * kW4a16PrepareWarps + warp;
  pdl_wait();
  if (k_tile >= args.k_tiles) return;
  for (int64_t row_tile = blockIdx.y; row_tile < args.row_tiles; row_tile += gridDim.y) {
    W4a16WarpTile const tile = {row_tile * kW4a16TileRows, k_tile * kW4a16TileK, static_cast<int>(threadIdx.x % 32),
                                codes[warp]};
    uint8_t* const prepared = args.prepared + w4a16_tile_offset(kFormat, row_tile, k_tile, args.k);
    if constexpr (kRestore) {
      restore_w4a16_tile<kFormat>(args, tile, prepared);
    } else {
      prepare_w4a16_tile<kFormat>(args, tile, prepared);
    }
    __syncwarp();  // before the next tile takes the shared memory
  }
}

template <Format kFormat, bool kRestore>
struct W4a16Weights {
  static void const* kernel() { return reinterpret_cast<void const*>(&w4a16_weights_kernel<kFormat, kRestore>); }

  static void preload() { preload_kernel(kernel()); }

  static fp4aot_status launch(char const* op, fp4aot_w4a16_weights_params const& p, Message* message) {
    if (p.n == 0 || p.k == 0) return FP4AOT_OK;
    W4a16WeightsArgs args = {};
    args.codes = p.codes;
    args.codes_stride = p.codes_stride;
    args.scales = p.scales;
    args.scales_stride = p.scales_stride;
    args.prepared = p.prepared;
    args.n = p.n;
    args.k = p.k;
    args.linear = p.scale_layout == FP4AOT_SCALES_LINEAR;
    bool const pads = kRestore && !args.linear;
    int64_t const columns = round_up(p.k / kVector<kFormat>, kScaleAtomColumns);
    args.row_tiles = w4a16_row_tiles(pads ? round_up(p.n, kScaleAtomRows) : p.n);
    args.k_tiles = w4a16_k_tiles(pads ? columns * kVector<kFormat> : p.k);
    dim3 const grid(static_cast<unsigned>((args.k_tiles + kW4a16PrepareWarps - 1) / kW4a16PrepareWarps),
                    static_cast<unsigned>(args.row_tiles < kMaxGridY ? args.row_tiles : kMaxGridY));
    return fp4aot::launch({op, p.stream, p.flags, message}, kernel(), grid, kW4a16PrepareWarps * 32, args);
  }
};

}  // namespace fp4aot

// The slots prepare_w4a16_<format> and restore_w4a16_<format>; needs kernels/op_slot.h.
#define FP4AOT_DEFINE_W4A16_WEIGHTS(format, kFormat)                                                             \
  FP4AOT_DEFINE_SLOT(prepare_w4a16_##format, fp4aot_w4a16_weights_params, nullptr, W4a16Weights<kFormat, false>) \
  FP4AOT_DEFINE_SLOT(restore_w4a16_##format, fp4aot_w4a16_weights_params, nullptr, W4a16Weights<kFormat, true>)

#endif
