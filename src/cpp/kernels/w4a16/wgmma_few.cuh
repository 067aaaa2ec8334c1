// W4A16 for few activation rows on wgmma (sm_90a): prepared weights stream once through each warp's own ring to the
// registers of wgmma, activations come by TMA to shared memory, where the products read them.
//
// A cluster owns `groups` row blocks of 64 weight rows, a warpgroup of its CTAs one of them, a warp a row tile of 16. k is
// cut into parts, one for each CTA of the cluster and each threadIdx.z in it; warps of a part share their activations.
// While a warp's products run it dequantises the operands of the next ones. At the end a CTA adds the sums of its parts and
// sends them to the CTA of the cluster that adds those, always in one order.
//
// Not for MXFP4 with fp16 activations, whose scales fp16 cannot hold.
#ifndef FP4AOT_KERNELS_W4A16_WGMMA_FEW_CUH_
#define FP4AOT_KERNELS_W4A16_WGMMA_FEW_CUH_

#include "device/cluster.cuh"
#include "device/mbarrier.cuh"
#include "device/mbarrier_init.cuh"
#include "device/pdl.cuh"
#include "device/shared_memory.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "device/wgmma_narrow.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/w4a16/mma_sync.cuh"
#include "kernels/w4a16/operand.cuh"
#include "kernels/w4a16/wgmma_few_schedule.h"

namespace fp4aot {

// What the first copies need comes first: the constant cache loads arguments line by line.
struct W4a16FewArgs {
  uint8_t const* prepared;
  uint32_t stream;            // a row tile's bytes / 16
  uint32_t cluster_log2;      // CTAs of a cluster
  uint32_t row_tiles, group;  // of the weights, of a cluster
  uint32_t split, longer;     // wgmma_few_schedule.h
  uint32_t slots;             // of the rings
  uint32_t weights_offset, barriers_offset;
  uint32_t box_tiles, k_step, tile_step;  // a_map: k tiles of a box; of its first and last coordinate, for a k tile
  uint32_t sums_offset;
  uint32_t m, n;
  float const* alpha;  // null: 1
  void const* bias;    // null: none
  void* d;
  int64_t d_stride;  // elements
  int32_t d_dtype, bias_dtype;
  CUtensorMap a_map;  // of activations, see wgmma_few_launch.cuh; boxes in the 128-byte swizzle
};

template <Format kFormatValue, bool kBf16Value, int kTileValue>
struct W4a16FewConfig {
  static constexpr Format kFormat = kFormatValue;
  static constexpr bool kBf16 = kBf16Value;  // activations, else fp16
  static constexpr W4a16FewTile kTile = kW4a16FewTiles[kTileValue];
  static constexpr uint32_t kTokens = kTile.tokens, kTokenTiles = kTokens / 8;
  static constexpr bool kNvfp4 = kFormat == Format::kNvfp4;
  static_assert(kNvfp4 || kBf16, "the scales of MXFP4 do not fit into fp16");
  static constexpr uint32_t kMaxThreads = 128 * kTile.groups, kSlots = kTile.slots, kSlotTiles = kTile.slot_tiles;
  // Products of a group, of which two may be in flight, as registers allow.
  static constexpr int kGroupSteps = kTokens > 8 || kNvfp4 ? kTile.group_steps : 2;
  static constexpr uint32_t kTileBytes = w4a16_tile_bytes(kFormat), kWeightBytes = kSlotTiles * kTileBytes;
  static constexpr uint32_t kActivationTileBytes = kTokens * kW4a16TileK * 2;
  static constexpr uint32_t kActivationBytes = kSlotTiles * kActivationTileBytes;
};

// A lane's part of a k tile: its words of codes, and the scales of one block of rows g and g + 8.
struct W4a16FewWords {
  uint32_t codes[4], scales;
};

// tile: shared address; codes, scales: of this lane's, from the tile on.
template <class Config>
__device__ __forceinline__ W4a16FewWords load_few(uint32_t tile, uint32_t const (&codes)[4], uint32_t scales) {
  W4a16FewWords words;
  words.scales = shared_load2(tile + scales);
#pragma unroll
  for (int i = 0; i < 4; ++i) words.codes[i] = shared_load4(tile + codes[i]);
  return words;
}

// A lane's row_factors of words.scales. large (MXFP4): the warp has a scale of 2 or more, and codes are to be
// multiplied with 2^124, which factors have in them else.
struct W4a16FewFactors {
  uint32_t pair;
  bool large;
};
template <class Config>
__device__ __forceinline__ W4a16FewFactors few_factors(uint32_t scales) {
  if constexpr (Config::kNvfp4) {
    return {row_factors<Config::kFormat, Config::kBf16>(scales), false};
  } else {
    W4a16FewFactors own = {row_factors<Config::kFormat, true, true>(scales),
                           __any_sync(~0u, w4a16_large_scale(scales)) != 0};
    if (own.large) own.pair = row_factors<Config::kFormat, true>(scales);
    return own;
  }
}

// Operands of products kFirst .. kFirst + kSteps - 1 of the tile's four. own: of words.scales; a lane has the other
// blocks' factors from its neighbours.
template <class Config, int kFirst, int kSteps>
__device__ __forceinline__ void dequantize_few(W4a16FewWords const& words, W4a16FewFactors own,
                                               uint32_t (&a)[kSteps][4]) {
  constexpr int kBlockSteps = Config::kNvfp4 ? 1 : 2;
#pragma unroll
  for (int j = 0; j < kSteps; ++j) spread_codes<Config::kBf16>(words.codes[kFirst + j], a[j]);
  if constexpr (!Config::kNvfp4) {
    if (own.large) {
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[j][i] = multiply_pair<true>(a[j][i], 0x7D807D80u);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    RowFactors<Config::kFormat, Config::kBf16> factors;
    factors.set(__shfl_sync(~0u, own.pair, (kFirst + j) / kBlockSteps, 4));
#pragma unroll
    for (int i = 0; i < 4; ++i) a[j][i] = multiply_pair<Config::kBf16>(a[j][i], factors.row[i % 2]);
  }
}

// Sums += operands * activations, as one group, which may be in flight.
template <class Config, int kSteps>
__device__ __forceinline__ void multiply_few(uint32_t const (&a)[kSteps][4], uint32_t descriptor,
                                             float (&sums)[Config::kTokens / 2]) {
  wgmma_fence();
#pragma unroll
  for (int j = 0; j < kSteps; ++j) {
    if constexpr (Config::kBf16) {
      wgmma_narrow_m64k16(sums, a[j], descriptor + 2 * j);
    } else {
      wgmma_narrow_m64k16_f16(sums, a[j], descriptor + 2 * j);
    }
  }
  wgmma_commit();
}

template <class Config>
__global__ void __launch_bounds__(Config::kMaxThreads, Config::kTile.resident)
    w4a16_wgmma_few_kernel(__grid_constant__ W4a16FewArgs const args) {
  extern __shared__ __align__(1024) uint8_t shared_few[];
  constexpr uint32_t kSlots = Config::kSlots, kSlotTiles = Config::kSlotTiles, kTokenTiles = Config::kTokenTiles;
  uint32_t const lane = threadIdx.x, g = lane / 4, t = lane % 4;
  // The same for a whole warp, which the compiler does not know of threadIdx.
  uint32_t const warp_y = __shfl_sync(~0u, threadIdx.y, 0), warp_z = __shfl_sync(~0u, threadIdx.z, 0);
  uint32_t const warp = warp_y + blockDim.y * warp_z;
  uint32_t const ctas = 1u << args.cluster_log2, rank = blockIdx.x & (ctas - 1),
                 cluster = blockIdx.x >> args.cluster_log2;
  uint32_t const part = rank * blockDim.z + warp_z;
  uint32_t k_tile = part * args.split + min(part, args.longer);
  uint32_t left = args.split + (part < args.longer);    // k tiles that this warp has yet to multiply
  uint32_t const slots = kSlots == 2 ? 2 : args.slots;  // never fewer than two
  uint32_t const base = shared_address(shared_few);
  uint32_t const activations = base + warp_z * (slots * Config::kActivationBytes);
  uint32_t const weights = base + args.weights_offset + warp * (slots * Config::kWeightBytes);
  uint32_t const sums_barrier = base + args.barriers_offset;
  uint32_t const full = sums_barrier + 8 + warp_z * (2 * kSlots * 8), empty = full + kSlots * 8;
  uint32_t const weights_full = sums_barrier + 8 + (Config::kTile.groups * 2 + warp) * (kSlots * 8);
  uint32_t const units = min(args.group, args.row_tiles - cluster * args.group) * kTokenTiles;
  // Warps beyond the last row tile multiply it too: wgmma takes four warps.
  uint32_t const row_tile = min(cluster * args.group + warp_y, args.row_tiles - 1);
  uint8_t const* source =
      args.prepared + 16 * (row_tile * uint64_t{args.stream} + k_tile * uint64_t{Config::kTileBytes / 16});

  // Of one thread: starts the copies of a slot; for weights, of at most kSlotTiles of `tiles` k tiles.
  auto const start_weights = [&](uint32_t slot, uint32_t tiles, uint8_t const* from) {
    uint32_t const bytes = min(tiles, kSlotTiles) * Config::kTileBytes, barrier = weights_full + 8 * slot;
    mbarrier_arrive_expect(barrier, bytes);
    bulk_load(weights + slot * Config::kWeightBytes, from, bytes, barrier);
  };
  auto const start_activations = [&](uint32_t slot, uint32_t tile) {
    uint32_t const barrier = full + 8 * slot;
    mbarrier_arrive_expect(barrier, Config::kActivationBytes);
    uint32_t to = activations + slot * Config::kActivationBytes;
#pragma unroll 1
    for (uint32_t i = 0; i < kSlotTiles; i += args.box_tiles) {
      tma_load_3d(to, &args.a_map, static_cast<int32_t>((tile + i) * args.k_step), blockIdx.y * Config::kTokens,
                  static_cast<int32_t>((tile + i) * args.tile_step), barrier);
      to += args.box_tiles * Config::kActivationTileBytes;
    }
  };
  if (lane == 0) {
#pragma unroll
    for (uint32_t slot = 0; slot < kSlots; ++slot) mbarrier_init(weights_full + 8 * slot, 1);
    if (warp_y == 0) {
#pragma unroll
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        mbarrier_init(full + 8 * slot, 1);
        mbarrier_init(empty + 8 * slot, blockDim.y);
      }
    }
    if (warp == 0) mbarrier_init(sums_barrier, 1);
    mbarrier_init_release();
    pdl_wait();
    if (warp_y == 0) start_activations(0, k_tile);
    start_weights(0, left, source);
#pragma unroll
    for (uint32_t slot = 1; slot < kSlots; ++slot) {
      if (left <= slot * kSlotTiles || slot == slots) break;
      if (warp_y == 0) start_activations(slot, k_tile + slot * kSlotTiles);
      start_weights(slot, left - slot * kSlotTiles, source + slot * Config::kWeightBytes);
    }
    if (warp == 0 && ctas > 1) {
      uint32_t const own_units = (units + ctas - 1 - rank) >> args.cluster_log2;
      mbarrier_arrive_expect(sums_barrier, (own_units << args.cluster_log2) * kW4a16FewSumBytes);
    }
  }
  __syncthreads();
  pdl_wait();
  if (ctas > 1) cluster_arrive();
  float const factor = args.alpha != nullptr ? *args.alpha : 1.0f;

  uint32_t const ring_tiles = slots * kSlotTiles;
  source += slots * Config::kWeightBytes;
  k_tile += ring_tiles - kSlotTiles;
  uint32_t codes[4];
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) codes[i] = 128 * i + (lane * 4 ^ 32 * i);
  uint32_t const scales = kW4a16CodeBytes + (Config::kNvfp4 ? lane * 2 : g * 4 + t % 2 * 2);
  // Kept, and in uniform registers, where the compiler would compute them again for each slot.
  uint32_t const own_weights = __shfl_sync(~0u, weights, 0), own_full = __shfl_sync(~0u, weights_full, 0);
  uint32_t const own_activations = __shfl_sync(~0u, wgmma_descriptor_swizzle128(activations), 0);
  uint32_t const own_barriers = __shfl_sync(~0u, full, 0);
  float sums[Config::kTokens / 2] = {};
  uint32_t slot = 0, phase = 0;
  bool first = true;
  // After the first products of a slot: those of the slot before, which have ended, no longer need their activations.
  auto const release = [&] {
    if (lane == 0 && !first) {
      uint32_t const previous = (slot == 0 ? slots : slot) - 1;
      mbarrier_arrive(own_barriers + 8 * kSlots + 8 * previous);
      if (warp_y == 0 && left > ring_tiles - kSlotTiles) {
        mbarrier_wait(own_barriers + 8 * kSlots + 8 * previous, slot == 0 ? phase ^ 1 : phase);
        start_activations(previous, k_tile);
      }
    }
  };
  auto const wait_slot = [&] {
    mbarrier_wait(own_full + 8 * slot, phase);
    mbarrier_wait(own_barriers + 8 * slot, phase);
  };
#pragma unroll 1
  for (; left >= kSlotTiles; left -= kSlotTiles) {
    wait_slot();
    uint32_t const tile = own_weights + slot * Config::kWeightBytes;
    uint32_t const descriptor = own_activations + slot * (Config::kActivationBytes / 16);
    W4a16FewWords words = load_few<Config>(tile, codes, scales);
#pragma unroll
    for (uint32_t i = 0; i < kSlotTiles; ++i) {
      W4a16FewFactors const own = few_factors<Config>(words.scales);
      uint32_t const products = descriptor + i * (Config::kActivationTileBytes / 16);
      uint32_t a[Config::kGroupSteps][4];
      dequantize_few<Config, 0, Config::kGroupSteps>(words, own, a);
      if constexpr (Config::kGroupSteps == 2) {
        multiply_few<Config, 2>(a, products, sums);
        wgmma_wait<1>();
        uint32_t rest[2][4];
        dequantize_few<Config, 2, 2>(words, own, rest);
        if (i + 1 < kSlotTiles) words = load_few<Config>(tile + (i + 1) * Config::kTileBytes, codes, scales);
        multiply_few<Config, 2>(rest, products + 4, sums);
      } else {
        if (i + 1 < kSlotTiles) words = load_few<Config>(tile + (i + 1) * Config::kTileBytes, codes, scales);
        multiply_few<Config, 4>(a, products, sums);
      }
      wgmma_wait<1>();
      if (i == 0) release();
    }
    __syncwarp();
    if (lane == 0 && left > ring_tiles) start_weights(slot, left - ring_tiles, source);
    source += Config::kWeightBytes;
    k_tile += kSlotTiles;
    first = false;
    if (++slot == slots) slot = 0, phase ^= 1;
  }
  wgmma_wait<0>();
  wgmma_pin(sums);
  if (left > 0) {  // fewer than a slot
    wait_slot();
    uint32_t tile = own_weights + slot * Config::kWeightBytes;
    uint32_t descriptor = own_activations + slot * (Config::kActivationBytes / 16);
#pragma unroll 1
    for (; left > 0; --left) {
      W4a16FewWords const words = load_few<Config>(tile, codes, scales);
      uint32_t a[4][4];
      dequantize_few<Config, 0, 4>(words, few_factors<Config>(words.scales), a);
      multiply_few<Config, 4>(a, descriptor, sums);
      wgmma_wait<0>();
      tile += Config::kTileBytes;
      descriptor += Config::kActivationTileBytes / 16;
    }
  }
  wgmma_pin(sums);
  pdl_launch_dependents();  // as in mma_sync.cuh
  __syncthreads();          // all have ended with what the sums overwrite

  // Unit u is row tile u / kTokenTiles and tokens from u % kTokenTiles * 8 on. The parts' sums of it, then the CTA's.
  uint32_t const first_token = blockIdx.y * Config::kTokens;
  uint32_t const all_units = args.group * kTokenTiles, own = base + lane * 16;
#pragma unroll
  for (uint32_t i = 0; i < kTokenTiles; ++i) {
    shared_store16(own + (warp_z * all_units + warp_y * kTokenTiles + i) * kW4a16FewSumBytes, float_bits(sums[4 * i]),
                   float_bits(sums[4 * i + 1]), float_bits(sums[4 * i + 2]), float_bits(sums[4 * i + 3]));
  }
  __syncthreads();
  auto const add = [&](uint32_t address, uint32_t count, uint32_t stride, float (&x)[4]) {
#pragma unroll 1
    for (uint32_t i = 0; i < count; ++i) {
      uint4 const v = shared_load16(address);
      x[0] += bits_float(v.x);
      x[1] += bits_float(v.y);
      x[2] += bits_float(v.z);
      x[3] += bits_float(v.w);
      address += stride;
    }
  };
  uint32_t const sent = base + args.sums_offset + lane * 16;  // [own unit][rank]
  if (ctas > 1) {
    cluster_wait();  // all have begun
#pragma unroll 1
    for (uint32_t unit = warp; unit < units; unit += blockDim.y * blockDim.z) {
      float x[4] = {};
      add(own + unit * kW4a16FewSumBytes, blockDim.z, all_units * kW4a16FewSumBytes, x);
      uint32_t const to = sent + ((unit >> args.cluster_log2 << args.cluster_log2) + rank) * kW4a16FewSumBytes;
      uint32_t const owner = unit & (ctas - 1);
      cluster_store16_async(cluster_address(to, owner), x, cluster_address(sums_barrier, owner));
    }
  }
#pragma unroll 1
  for (uint32_t local = warp;; local += blockDim.y * blockDim.z) {
    uint32_t const unit = (local << args.cluster_log2) + rank;
    if (unit >= units) break;  // a CTA that has any waits for the others' sums, so that it is there when they come
    uint32_t const row = (cluster * args.group + unit / kTokenTiles) * kW4a16TileRows + g;
    uint32_t const token = first_token + unit % kTokenTiles * 8 + t * 2;
    float bias[2] = {};
    if (args.bias != nullptr) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (row + 8 * h < args.n) bias[h] = load_bias(args.bias, args.bias_dtype, row + 8 * h);
      }
    }
    float x[4] = {};
    if (ctas > 1) {
      mbarrier_wait(sums_barrier, 0);
      add(sent + (local << args.cluster_log2) * kW4a16FewSumBytes, ctas, kW4a16FewSumBytes, x);
    } else {
      add(own + unit * kW4a16FewSumBytes, blockDim.z, all_units * kW4a16FewSumBytes, x);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {  // unscaled first: alpha times a power of two may overflow where the result does not
      x[j] = factor * (kW4a16Unscale<Config::kFormat, Config::kBf16> * x[j]) + bias[j / 2];
    }
    if (args.d_dtype == FP4AOT_BF16) {
      store_sums(args, static_cast<__nv_bfloat16*>(args.d), token, row, x);
    } else if (args.d_dtype == FP4AOT_FP16) {
      store_sums(args, static_cast<__half*>(args.d), token, row, x);
    } else {
      store_sums(args, static_cast<float*>(args.d), token, row, x);
    }
  }
}

}  // namespace fp4aot

#endif
