// W4A16 for few activation rows: prepared weights stream once, mma.sync, weights as the 16-row operand.
//
// A cluster owns `group` row tiles of 16 weight rows. k is cut into parts, one for each CTA of the cluster and each
// threadIdx.z in it. A warp owns kRowTiles row tiles of one part: streams that come by bulk copies through a ring of its
// own, so that no warp waits for another. Activations of a part come in chunks of kW4a16ChunkTiles k tiles, waited for chunk
// by chunk, to buffers that are filled again a chunk after they were read. A part is one stretch of k, or, where the parts
// are long, they take chunks in turn: what all warps of a row tile read at a time is neighbours then. At the end each warp
// sends its sums to the CTA of the cluster that adds them, always in one order.
//
// The products' k order is not the memory's: lane 4g + t has k 16t..16t + 15 of each tile of 64, for weights and
// activations alike, so that it needs one scale a row and its activations are 32 contiguous bytes. MXFP4 with fp16
// activations cannot do so, as fp16 cannot hold its scales: they go to the sums of one block, in the memory's order.
#ifndef FP4AOT_KERNELS_W4A16_MMA_SYNC_CUH_
#define FP4AOT_KERNELS_W4A16_MMA_SYNC_CUH_

#include <type_traits>

#include "device/cluster.cuh"
#include "device/cp_async.cuh"
#include "device/mbarrier.cuh"
#include "device/mbarrier_init.cuh"
#include "device/pdl.cuh"
#include "device/shared_memory.cuh"
#include "device/tma.cuh"
#include "device/warp.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/w4a16/args.h"
#include "kernels/w4a16/operand.cuh"
#include "kernels/w4a16/schedule.h"

namespace fp4aot {

// Tile: W4a16Tile of schedule.h.
template <Format kFormatValue, bool kBf16Value, int kTokenTilesValue, int kRowTilesValue>
struct W4a16Config {
  static constexpr Format kFormat = kFormatValue;
  static constexpr bool kBf16 = kBf16Value;             // activations, else fp16
  static constexpr int kTokenTiles = kTokenTilesValue;  // of 8 tokens
  static constexpr int kRowTiles = kRowTilesValue;      // a warp
  static constexpr int kTokens = 8 * kTokenTiles;
  static constexpr int kMaxWarps = w4a16_max_warps(kTokenTiles, kRowTiles);
  static constexpr bool kScaledSums = kFormat == Format::kMxfp4 && !kBf16;
  static constexpr bool kSmallScales = kFormat == Format::kMxfp4 && kBf16;  // have a path of their own

  // A slot of a warp's ring holds kSlotTiles k tiles of each of its row tiles, one copy each.
  static constexpr int kSlotTiles = w4a16_slot_tiles(kRowTiles);
  static_assert(kW4a16ChunkTiles % kSlotTiles == 0, "a slot's activations are in one chunk");
  static constexpr int kTileBytes = w4a16_tile_bytes(kFormat);
  static constexpr int kStreamBytes = kSlotTiles * kTileBytes;
  static constexpr int kSlotBytes = kRowTiles * kStreamBytes;
  static constexpr int kWarpBytes = kW4a16Slots * kSlotBytes;
  static_assert(kW4a16Slots == 2, "the loop over slots has two steps");

  static constexpr bool kSumsOverRing = w4a16_sums_over_ring(kTokenTiles);
  // Chains of products, each with sums of its own, as far as registers allow: a warp that others leave alone waits for
  // the product before.
  static constexpr int kChains = kTokenTiles * kRowTiles == 1 && !kScaledSums ? 2 : 1;
  static constexpr bool kWeightsFirst = kTokenTiles == 1;  // a slot is asked for before activations, which are few then
};

// A warp's sums: [chain][row tile][token tile].
template <class Config>
using W4a16Sums = float[Config::kChains][Config::kRowTiles][Config::kTokenTiles][4];

// k 8 * kHalf .. 8 * kHalf + 7 of each lane's 16 of a k tile. activations: this lane's of each token tile, at `offset`.
template <class Config, int kHalf, bool kSmall>
__device__ __forceinline__ void multiply_half(
    uint4 const (&codes)[Config::kRowTiles],
    RowFactors<Config::kFormat, Config::kBf16> const (&factors)[Config::kRowTiles],
    uint32_t const (&activations)[Config::kTokenTiles], uint32_t offset, W4a16Sums<Config>& sums) {
  auto& accumulator = sums[kHalf % Config::kChains];
  uint32_t a[Config::kRowTiles][2][4];
#pragma unroll
  for (int r = 0; r < Config::kRowTiles; ++r) {
    dequantize_half<Config::kFormat, Config::kBf16, kHalf, kSmall>(codes[r], factors[r], a[r]);
  }
#pragma unroll
  for (int n = 0; n < Config::kTokenTiles; ++n) {
    uint4 const b = shared_load16(activations[n] + offset + kHalf * 16);
#pragma unroll
    for (int r = 0; r < Config::kRowTiles; ++r) {
      multiply_tile<Config::kBf16>(accumulator[r][n], a[r][0], b.x, b.y);
      multiply_tile<Config::kBf16>(accumulator[r][n], a[r][1], b.z, b.w);
    }
  }
}

// A k tile of MXFP4 with fp16 activations. As multiply_k_tile.
template <class Config>
__device__ __forceinline__ void multiply_scaled(uint32_t tile, uint32_t lane,
                                                uint32_t const (&activations)[Config::kTokenTiles], uint32_t offset,
                                                W4a16Sums<Config>& sums) {
#pragma unroll 1
  for (int block = 0; block < 2; ++block) {
    uint32_t a[Config::kRowTiles][2][4];
    float scale[Config::kRowTiles][2];
#pragma unroll
    for (int r = 0; r < Config::kRowTiles; ++r) {
      uint32_t const stream = tile + r * Config::kStreamBytes;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int const step = 2 * block + i;
        spread_codes<false>(shared_load4(stream + step * 128 + (lane * 4 ^ step * 32)), a[r][i]);
      }
      uint32_t const bytes = shared_load2(stream + kW4a16CodeBytes + lane / 4 * 4 + block * 2);
      scale[r][0] = ue8m0_factor(bytes << 23);
      scale[r][1] = ue8m0_factor(bytes << 15);
    }
#pragma unroll
    for (int n = 0; n < Config::kTokenTiles; ++n) {
      uint32_t b[2][2];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        b[i / 2][i % 2] = shared_load4(activations[n] + offset + block * 64 + i * 16);
      }
#pragma unroll
      for (int r = 0; r < Config::kRowTiles; ++r) {
        float sum[4] = {};
        multiply_tile<false>(sum, a[r][0], b[0][0], b[0][1]);
        multiply_tile<false>(sum, a[r][1], b[1][0], b[1][1]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          // 2^14 at once and not at the end: accumulators should not be smaller than the results.
          sums[0][r][n][j] = __fmaf_rn(sum[j] * 0x1p14f, scale[r][j / 2], sums[0][r][n][j]);
        }
      }
    }
  }
}

// Of this lane, of a k tile of this warp's row tiles. at: the shared address of the first ones (scales_offset).
template <class Config>
__device__ __forceinline__ void load_scales(uint32_t at, uint32_t (&scales)[Config::kRowTiles]) {
  if constexpr (!Config::kScaledSums) {  // multiply_scaled has its own
#pragma unroll
    for (int r = 0; r < Config::kRowTiles; ++r) scales[r] = shared_load2(at + r * Config::kStreamBytes);
  }
}

// Where a lane's codes and scales are in a tile, bytes.
__device__ __forceinline__ uint32_t codes_offset(uint32_t lane) {
  uint32_t const g = lane / 4, t = lane % 4;
  return (t * 8 + (g ^ 2 * t)) * 16;
}
template <Format kFormat>
__device__ __forceinline__ uint32_t scales_offset(uint32_t lane) {
  uint32_t const g = lane / 4, t = lane % 4;
  return kW4a16CodeBytes + (kFormat == Format::kNvfp4 ? g * 8 + t * 2 : g * 4 + t / 2 * 2);
}

// A k tile of this warp's row tiles, at shared address `tile`; this lane's codes at `codes_at`. activations: of this lane's
// token of each token tile, at its first k of the tile that is `offset` before this one.
template <class Config, bool kSmall>
__device__ __forceinline__ void multiply_k_tile(uint32_t tile, uint32_t codes_at,
                                                uint32_t const (&scales)[Config::kRowTiles], uint32_t lane,
                                                uint32_t const (&activations)[Config::kTokenTiles], uint32_t offset,
                                                W4a16Sums<Config>& sums) {
  if constexpr (Config::kScaledSums) {
    multiply_scaled<Config>(tile, lane, activations, offset, sums);
  } else {
    uint4 codes[Config::kRowTiles];
    RowFactors<Config::kFormat, Config::kBf16> factors[Config::kRowTiles];
#pragma unroll
    for (int r = 0; r < Config::kRowTiles; ++r) {
      codes[r] = shared_load16(codes_at + r * Config::kStreamBytes);
      factors[r].set(row_factors<Config::kFormat, Config::kBf16, kSmall>(scales[r]));
    }
    multiply_half<Config, 0, kSmall>(codes, factors, activations, offset, sums);
    multiply_half<Config, 1, kSmall>(codes, factors, activations, offset, sums);
  }
}

// d[token + e, row + 8 * h] = x[2 * h + e], as far as it exists.
template <class Args, class T>
__device__ __forceinline__ void store_sums(Args const& args, T* d, uint32_t token, uint32_t row, float const (&x)[4]) {
  T* const first = d + (token * args.d_stride + row);
#pragma unroll
  for (int e = 0; e < 2; ++e) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (token + e < args.m && row + 8 * h < args.n) convert(x[2 * h + e], first + e * args.d_stride + 8 * h);
    }
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kMaxWarps * 32, 2) w4a16_mma_sync_kernel(W4a16Args const args) {
  extern __shared__ __align__(128) uint8_t shared[];
  constexpr uint32_t kSlotTiles = Config::kSlotTiles;
  constexpr int kTileBytes = Config::kTileBytes, kRowTiles = Config::kRowTiles, kTokenTiles = Config::kTokenTiles;
  uint32_t const lane = threadIdx.x, g = lane / 4, t = lane % 4;
  // The same for a whole warp, which the compiler does not know of threadIdx.
  uint32_t const warp_y = __shfl_sync(~0u, threadIdx.y, 0), warp_z = __shfl_sync(~0u, threadIdx.z, 0);
  uint32_t const warp = warp_y + blockDim.y * warp_z;
  uint32_t const ctas = 1u << args.cluster_log2, rank = blockIdx.x % ctas, cluster = blockIdx.x >> args.cluster_log2;
  uint32_t const part = rank * blockDim.z + warp_z, parts = blockDim.z << args.cluster_log2;
  uint32_t const in_group = warp_y * kRowTiles, row_tile = cluster * args.group + in_group;
  int const rows_left = min(static_cast<int>(args.row_tiles - row_tile), static_cast<int>(args.group - in_group));
  // The k tiles that this warp has yet to multiply. Those that make no whole slot or chunk come first: there is no data to
  // wait for at the end, while at the start there is.
  uint32_t left = args.split + (part < args.longer);
  uint32_t const first_chunk = (left - 1) % kW4a16ChunkTiles + 1, first_slot = (left - 1) % kSlotTiles + 1;
  if (rows_left <= 0) left = 0;
  bool const interleaved = kSlotTiles == kW4a16ChunkTiles && args.interleaved != 0;
  uint32_t const k_tile = interleaved ? part * first_chunk : part * args.split + min(part, args.longer);
  uint32_t const second_k = interleaved ? parts * first_chunk + part * kW4a16ChunkTiles : k_tile + first_slot;
  uint32_t const step_k = interleaved ? parts * kW4a16ChunkTiles : kSlotTiles;
  uint32_t const step_chunk = interleaved ? parts * kW4a16ChunkTiles : kW4a16ChunkTiles;
  uint64_t const stream = args.k_tiles * uint64_t{kTileBytes};  // bytes of a row tile
  uint8_t const* source = args.prepared + (row_tile * stream + k_tile * uint64_t{kTileBytes});
  uint32_t const base = shared_address(shared);
  uint32_t const ring = base + warp * Config::kWarpBytes;
  uint32_t const sums_barrier =
      base + args.barriers_offset;  // then those of the rings, then of the buffers of each part
  uint32_t const ring_barriers = sums_barrier + 16 + warp * 16;
  uint32_t const full = sums_barrier + 16 + blockDim.y * blockDim.z * 16 + warp_z * args.buffers * 16;
  uint32_t const read = full + args.buffers * 8;  // of buffers that all warps of a part have read
  uint32_t const buffers = base + args.buffer_offset + warp_z * args.buffers * args.buffer_bytes;
  // One lane: starts the copies of the next k tiles of this warp's row tiles.
  auto const start_slot = [&](uint32_t tiles, uint32_t slot, uint32_t barrier, uint8_t const* from) {
    uint32_t const bytes = tiles * kTileBytes;
    mbarrier_arrive_expect(barrier, kRowTiles == 1 ? bytes : bytes * min(rows_left, kRowTiles));
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      if (kRowTiles == 1 || r < rows_left)
        bulk_load(slot + r * Config::kStreamBytes, from + r * stream, bytes, barrier);
    }
  };
  uint32_t const units = min(args.group, args.row_tiles - cluster * args.group) * kTokenTiles;
  if (lane == 0) {  // before the copies that complete on them
    mbarrier_init(ring_barriers, 1);
    mbarrier_init(ring_barriers + 8, 1);
    mbarrier_init_release();
  }
  // The whole warp executes the instruction that is predicated for lane 0: racecheck takes lane 31 for who writes.
  __syncwarp();
  pdl_wait();
  auto const start_first = [&] {
    if (elected() && left > 0) start_slot(first_slot, ring, ring_barriers, source);
  };
  if constexpr (Config::kWeightsFirst) start_first();
  // Starts this warp's copies of the next chunk of activations, [token][chunk of k]; k that does not exist becomes zero.
  // Warps that have no token copy nothing.
  uint32_t const first_token = blockIdx.y * Config::kTokens, token_end = min(args.m - first_token, Config::kTokens);
  // kept: not computed before the weights that come first, as code that runs for the first time is slow.
  uint32_t const copying = Config::kWeightsFirst ? kept(lane) : lane;
  uint32_t copied_k = k_tile * kW4a16TileK + copying * 8;
  uint8_t const* copied =
      args.a + ((first_token + warp_y) * static_cast<uint64_t>(args.a_stride) + copied_k * uint64_t{2});
  auto const start_chunk = [&](uint32_t buffer, uint32_t tiles) {
    uint32_t to = buffer + warp_y * kW4a16TokenPitch + copying * 16;
    uint8_t const* from = copied;
#pragma unroll 1
    for (uint32_t token = warp_y; token < token_end; token += blockDim.y) {
      cp_async16(to, from, copied_k < args.k);
      to += blockDim.y * kW4a16TokenPitch;
      from += blockDim.y * args.a_stride;
    }
    copied_k += tiles * kW4a16TileK;
    copied += tiles * kW4a16TileK * 2;
  };
  start_chunk(buffers, interleaved ? second_k - k_tile : first_chunk);
  if constexpr (!Config::kWeightsFirst) start_first();
  uint32_t const step_bytes = step_k * kTileBytes;
  uint8_t const* const second = source + kept(second_k - k_tile) * kTileBytes;
  if (elected() && left > kSlotTiles) {
    start_slot(kSlotTiles, ring + Config::kSlotBytes, ring_barriers + 8, second);
  }
  if (lane == 0) {
    if (warp_y == 0) {
#pragma unroll 1
      for (uint32_t i = 0; i < args.buffers; ++i) {
        mbarrier_init(full + 8 * i, min(blockDim.y, token_end) * 32);
        mbarrier_init(read + 8 * i, blockDim.y);
      }
    }
    if (warp == 0) mbarrier_init(sums_barrier, 1);
    mbarrier_init_release();
    if (warp == 0 && ctas > 1) {
      uint32_t const own_units = (units + ctas - 1 - rank) >> args.cluster_log2;
      mbarrier_arrive_expect(sums_barrier, own_units * parts * kW4a16SumBytes);
    }
  }
  __syncthreads();
  bool const copies = warp_y < token_end;
  if (copies) {
    cp_async_arrive(full);
#pragma unroll 1
    for (uint32_t chunk = 1; chunk < args.buffers; ++chunk) {
      start_chunk(buffers + chunk * args.buffer_bytes, step_chunk);
      cp_async_arrive(full + 8 * chunk);
    }
  }
  if constexpr (!Config::kSumsOverRing) cluster_arrive();
  float const factor = args.alpha != nullptr ? *args.alpha : 1.0f;

  source = second + step_bytes;
  W4a16Sums<Config> accumulators = {};
  uint32_t activations[kTokenTiles];  // of the first buffer; tokens that do not exist are the last one again
#pragma unroll
  for (uint32_t n = 0; n < kTokenTiles; ++n) {
    activations[n] =
        buffers + min(n * 8 + g, token_end - 1) * kW4a16TokenPitch + (Config::kScaledSums ? t * 4 : t * 32);
  }
  left = __shfl_sync(~0u, left, 0);  // the same for a whole warp
  // A buffer is filled again when all have read the chunk after it too, if there are enough: no warp waits for the slowest.
  uint32_t const reused = args.chunks - args.buffers, lag = args.buffers > 2 ? 2 : 1;
  uint32_t chunk = 0, buffer = 0, buffer_phase = 0, slot_phase = 0;
  // The next chunk: its activations are there, at `offset`, if this warp multiplies it.
  uint32_t offset = 0, of_chunk = 0;  // the latter: k tiles that are left of it
  auto const next_chunk = [&](uint32_t tiles) {
    if (chunk - 1 < reused) {
      __syncwarp();
      if (lane == 0) mbarrier_arrive(read + 8 * ((buffer == 0 ? args.buffers : buffer) - 1));
    }
    if (chunk - lag < reused) {
      bool const wraps = buffer < lag;
      uint32_t const freed = (wraps ? buffer + args.buffers : buffer) - lag;
      // A warp that neither copies nor waits for what others copy would arrive again before the phase has ended.
      if (copies || left == 0) mbarrier_wait(read + 8 * freed, wraps ? buffer_phase ^ 1 : buffer_phase);
      if (copies) {
        start_chunk(buffers + freed * args.buffer_bytes, step_chunk);
        cp_async_arrive(full + 8 * freed);
      }
    }
    if (left > 0) mbarrier_wait(full + 8 * buffer, buffer_phase);
    offset = buffer * args.buffer_bytes;
    of_chunk = tiles;
    ++chunk;
    if (++buffer == args.buffers) buffer = 0, buffer_phase ^= 1;
  };
  // Then the k tiles of one slot, and its next copies; those of the slot after this one are under way.
  uint32_t const codes_at = kept(ring + codes_offset(lane));
  uint32_t const scales_at = kept(ring + scales_offset<Config::kFormat>(lane));
  auto const one_by_one = [&](uint32_t in_ring, uint32_t tiles) {
    uint32_t scales[kRowTiles];
#pragma unroll 1
    for (uint32_t i = 0; i < tiles; ++i) {
      load_scales<Config>(scales_at + in_ring, scales);
      multiply_k_tile<Config, false>(ring + in_ring, codes_at + in_ring, scales, lane, activations, offset,
                                     accumulators);
      in_ring += kTileBytes;
      offset += kW4a16TileK * 2;
    }
  };
  auto const refill = [&](uint32_t slot, uint32_t tiles) {
    __syncwarp();
    left -= tiles;
    if (left > kSlotTiles && elected()) {
      start_slot(kSlotTiles, ring + slot * Config::kSlotBytes, ring_barriers + 8 * slot, source);
    }
    source += step_bytes;
    of_chunk -= tiles;
  };
  auto const whole_slot = [&](auto slot) {
    constexpr uint32_t kInRing = slot * Config::kSlotBytes;
    if (kSlotTiles == kW4a16ChunkTiles || of_chunk == 0) next_chunk(kW4a16ChunkTiles);
    mbarrier_wait(ring_barriers + 8 * slot, slot_phase);
    uint32_t scales[kSlotTiles][kRowTiles];
    bool straight = true;
    if constexpr (Config::kSmallScales) {
      uint32_t any = 0;
#pragma unroll
      for (uint32_t i = 0; i < kSlotTiles; ++i) {
        load_scales<Config>(scales_at + kInRing + i * kTileBytes, scales[i]);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          if (kRowTiles == 1 || r < rows_left) any |= scales[i][r];
        }
      }
      straight = !__any_sync(~0u, w4a16_large_scale(any));
    }
    if (straight) {
#pragma unroll
      for (uint32_t i = 0; i < kSlotTiles; ++i) {
        constexpr bool kSmall = Config::kSmallScales;
        if constexpr (!kSmall) load_scales<Config>(scales_at + kInRing + i * kTileBytes, scales[i]);
        multiply_k_tile<Config, kSmall>(ring + kInRing + i * kTileBytes, codes_at + kInRing + i * kTileBytes, scales[i],
                                        lane, activations, offset + i * (kW4a16TileK * 2), accumulators);
      }
      offset += kSlotTiles * (kW4a16TileK * 2);
    } else {
      one_by_one(kInRing, kSlotTiles);
    }
    refill(slot, kSlotTiles);
  };
  bool first_is_whole = true;
  if (left > 0 && first_slot < kSlotTiles) {
    first_is_whole = false;
    next_chunk(first_chunk);
    mbarrier_wait(ring_barriers, 0);
    one_by_one(0, first_slot);
    refill(0, first_slot);
  } else if (left > 0 && kSlotTiles < kW4a16ChunkTiles) {
    next_chunk(first_chunk);
  }
#pragma unroll 1
  while (left > 0) {
    if (first_is_whole) whole_slot(std::integral_constant<uint32_t, 0>());
    first_is_whole = true;
    if (left == 0) break;
    whole_slot(std::integral_constant<uint32_t, 1>());
    slot_phase ^= 1;
  }
  pdl_launch_dependents();  // not before: CTAs of the next kernel that wait beside this one's slow it down
#pragma unroll 1
  while (chunk < args.chunks) next_chunk(0);  // others have more

  auto& accumulator = accumulators[0];
  if constexpr (Config::kChains == 2) {
#pragma unroll
    for (int j = 0; j < 4; ++j) accumulator[0][0][j] += accumulators[1][0][0][j];
  }

  // Sums of unit u, a row tile and a token tile, are added by the CTA of rank u % ctas.
  uint32_t const sums = base + args.sums_offset + lane * 16;
  if constexpr (Config::kSumsOverRing) {
    cluster_sync_shared();  // all have ended with what the sums overwrite
  } else {
    cluster_wait();  // all have begun
  }
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      uint32_t const unit = (in_group + r) * kTokenTiles + n;
      uint32_t const own_address = sums + ((unit >> args.cluster_log2) * parts + part) * kW4a16SumBytes;
      if (r >= rows_left) continue;
      if (ctas == 1) {
        float const(&sum)[4] = accumulator[r][n];
        shared_store16(own_address, float_bits(sum[0]), float_bits(sum[1]), float_bits(sum[2]), float_bits(sum[3]));
      } else {
        cluster_store16_async(cluster_address(own_address, unit % ctas), accumulator[r][n],
                              cluster_address(sums_barrier, unit % ctas));
      }
    }
  }
  if (ctas == 1) __syncthreads();
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
    if (ctas > 1) mbarrier_wait(sums_barrier, 0);
    float x[4] = {};
#pragma unroll 4
    for (uint32_t p = 0; p < parts; ++p) {
      uint4 const v = shared_load16(sums + (local * parts + p) * kW4a16SumBytes);
      x[0] += bits_float(v.x);
      x[1] += bits_float(v.y);
      x[2] += bits_float(v.z);
      x[3] += bits_float(v.w);
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
  cp_async_wait_all();  // of activations of a chunk that only other parts have
}

}  // namespace fp4aot

#endif
