// W4A16 for many activation rows on mma.sync: tiles of 128 or 256 weight rows x 64 or 128 tokens, weights as the 16-row
// operand. Nothing here is of one architecture; shared memory is within 99 KiB.
//
// One thread of a CTA starts all copies: a stage of the ring is a k tile, activations and prepared weights, each one box of
// a tensor map. The other eight warps have their own weight rows and all tokens of the tile, so that each weight is
// dequantised once. Half a k tile (32 k) is dequantised into registers while the products of the half before it run.
//
// The products' k order is that of mma_sync.cuh: lane 4g + t has k 16t .. 16t + 15 of each k tile, so that it loads its codes
// and its activations as whole 16 bytes and needs one scale a row. MXFP4 with fp16 activations keeps the memory's order, as
// its scales go to the sums of blocks.
//
// CTAs of a cluster share k: each sends the sums of a part of its tokens to the CTA that adds these, in the order of k.
#ifndef FP4AOT_KERNELS_W4A16_MMA_SYNC_TILE_CUH_
#define FP4AOT_KERNELS_W4A16_MMA_SYNC_TILE_CUH_

#include "device/cluster.cuh"
#include "device/ldmatrix.cuh"
#include "device/mbarrier.cuh"
#include "device/pdl.cuh"
#include "device/registers.cuh"
#include "device/ring.cuh"
#include "device/shared_memory.cuh"
#include "device/tma.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/w4a16/mma_sync_tile_args.h"
#include "kernels/w4a16/operand.cuh"

namespace fp4aot {

// Shared addresses.
template <class Config>
struct W4a16TileMap {
  uint32_t base;

  __device__ __forceinline__ uint32_t activations(uint32_t slot) const {
    return base + slot * Config::kActivationBytes;
  }
  __device__ __forceinline__ uint32_t weights(uint32_t slot) const {
    return base + Config::kWeightOffset + slot * Config::kWeightBytes;
  }
  __device__ __forceinline__ uint32_t staging(uint32_t warp) const {
    return base + Config::kStagingOffset + warp * Config::kStagingBytes;
  }
  __device__ __forceinline__ uint32_t sums() const { return base + Config::kSumOffset; }
  // Full ones complete by the bytes of copies, empty ones by an arrival of every warp that is done.
  __device__ __forceinline__ uint32_t full(uint32_t slot) const { return base + Config::kBarrierOffset + slot * 8; }
  __device__ __forceinline__ uint32_t empty(uint32_t slot) const { return full(Config::kStages + slot); }
  __device__ __forceinline__ uint32_t sums_full() const { return full(2 * Config::kStages); }
};

// The CTA's cluster, its rank there, and its part of k.
struct W4a16TileShare {
  int ctas_log2, ctas, rank, cluster, clusters;
  int k_begin, k_end;  // k tiles

  __device__ __forceinline__ explicit W4a16TileShare(W4a16TileArgs const& args) {
    ctas_log2 = args.cluster_log2;
    ctas = 1 << ctas_log2;
    rank = static_cast<int>(blockIdx.x) & (ctas - 1);
    cluster = static_cast<int>(blockIdx.x) >> ctas_log2;
    clusters = static_cast<int>(gridDim.x) >> ctas_log2;
    int const split = args.k_tiles >> ctas_log2, longer = args.k_tiles & (ctas - 1);
    k_begin = rank * split + min(rank, longer);
    k_end = k_begin + split + (rank < longer);
  }
};

template <class Config>
__device__ __forceinline__ W4a16TileStart w4a16_tile_start(W4a16TileArgs const& args, int tile) {
  int const inner_tiles = args.along_n ? args.n_tiles : args.m_tiles;
  int const group_tiles = kW4a16TileGroup * (args.along_n ? args.m_tiles : args.n_tiles);
  int const group = tile / group_tiles, within = tile - group * group_tiles;
  int const width = min(kW4a16TileGroup, inner_tiles - group * kW4a16TileGroup);
  int const outer = within / width, inner = group * kW4a16TileGroup + within - outer * width;
  return {(args.along_n ? outer : inner) * Config::kTokens, (args.along_n ? inner : outer) * Config::kRows};
}

// Starts all copies of the CTA's tiles. One thread.
template <class Config>
__device__ __forceinline__ void start_tile_copies(W4a16TileArgs const& args, W4a16TileMap<Config> map,
                                                  W4a16TileShare const& share) {
  RingPosition<Config::kStages> ring{};
  for (int tile = share.cluster; tile < args.tiles; tile += share.clusters) {
    W4a16TileStart const start = w4a16_tile_start<Config>(args, tile);
#pragma unroll 1
    for (int k = share.k_begin; k < share.k_end; ++k) {
      mbarrier_wait_patiently(map.empty(ring.slot), ring.parity ^ 1);
      uint32_t const full = map.full(ring.slot);
      mbarrier_arrive_expect(full, Config::kActivationBytes + Config::kWeightBytes);
      tma_load_2d(map.weights(ring.slot), &args.b_map, k * Config::kBoxColumns, start.n0 / kW4a16TileRows, full);
      tma_load_2d(map.activations(ring.slot), &args.a_map, k * kW4a16TileK, start.m0, full);
      ring.advance();
    }
  }
}

// Weights of the first stages to L2, before the kernels before this one are known to have ended: no value is used.
template <class Config>
__device__ __forceinline__ void prefetch_tile_weights(W4a16TileArgs const& args, W4a16TileShare const& share) {
  int const n0 = w4a16_tile_start<Config>(args, share.cluster).n0;
#pragma unroll 1
  for (int k = share.k_begin; k < min(share.k_end, share.k_begin + Config::kStages); ++k) {
    tma_prefetch_2d(&args.b_map, k * Config::kBoxColumns, n0 / kW4a16TileRows);
  }
}

// Products ------------------------------------------------------------------------------------------------------

template <class Config>
using W4a16TileSums = float[Config::kRowTiles][Config::kTokenTiles][4];

// Where a lane of a warp reads from a stage.
template <class Config>
struct W4a16TilePlace {
  uint32_t tile, codes, scales, activations;  // tile: the warp's first row tile; codes and scales: within one

  __device__ __forceinline__ W4a16TilePlace(uint32_t warp, uint32_t lane) {
    uint32_t const g = lane / 4, t = lane % 4;
    tile = warp * (Config::kRowTiles * Config::kTileBytes);
    if constexpr (Config::kScaledSums) {  // of step 0 or block 0
      codes = lane * 4;
      scales = kW4a16CodeBytes + g * 4;
      activations = lane % 8 * (kW4a16TileK * 2) + (lane / 8 ^ lane % 8) * 16;
    } else {
      codes = (t * 8 + (g ^ 2 * t)) * 16;
      scales = kW4a16CodeBytes + (Config::kFormat == Format::kNvfp4 ? g * 8 + t * 2 : g * 4 + t / 2 * 2);
      activations = g * (kW4a16TileK * 2) + (2 * t ^ g) * 16;  // of its first half; the second is the address ^ 16
    }
  }
};

// A lane's codes and scales of a k tile.
template <class Config>
struct W4a16TileWeights {
  uint4 codes[Config::kRowTiles];
  RowFactors<Config::kFormat, Config::kBf16> factors[Config::kRowTiles];

  __device__ __forceinline__ void load(uint32_t stage, W4a16TilePlace<Config> const& place) {
#pragma unroll
    for (int r = 0; r < Config::kRowTiles; ++r) {
      uint32_t const tile = stage + place.tile + r * Config::kTileBytes;
      codes[r] = shared_load16(tile + place.codes);
      factors[r] = RowFactors<Config::kFormat, Config::kBf16>(shared_load2(tile + place.scales));
    }
  }

  template <int kHalf>
  __device__ __forceinline__ void dequantize(uint32_t (&operand)[Config::kRowTiles][2][4]) const {
#pragma unroll
    for (int r = 0; r < Config::kRowTiles; ++r) {
      dequantize_half<Config::kFormat, Config::kBf16, kHalf>(codes[r], factors[r], operand[r]);
    }
  }
};

// Half a k tile. activations: this lane's of token tile 0.
template <class Config>
__device__ __forceinline__ void multiply_tokens(uint32_t const (&operand)[Config::kRowTiles][2][4],
                                                uint32_t activations, W4a16TileSums<Config>& sum) {
#pragma unroll
  for (int n = 0; n < Config::kTokenTiles; ++n) {
    uint4 const b = shared_load16(activations + n * (8 * kW4a16TileK * 2));
#pragma unroll
    for (int r = 0; r < Config::kRowTiles; ++r) {
      multiply_tile<Config::kBf16>(sum[r][n], operand[r][0], b.x, b.y);
    }
#pragma unroll
    for (int r = 0; r < Config::kRowTiles; ++r) {
      multiply_tile<Config::kBf16>(sum[r][n], operand[r][1], b.z, b.w);
    }
  }
}

// A k tile of MXFP4 with fp16 activations.
template <class Config>
__device__ __forceinline__ void multiply_blocks(uint32_t weights, uint32_t activations,
                                                W4a16TilePlace<Config> const& place, W4a16TileSums<Config>& sum) {
#pragma unroll 1
  for (int block = 0; block < 2; ++block) {  // both at once would take too many registers
    uint32_t operand[Config::kRowTiles][2][4];
    float scale[Config::kRowTiles][2];
#pragma unroll
    for (int r = 0; r < Config::kRowTiles; ++r) {
      uint32_t const tile = weights + place.tile + r * Config::kTileBytes;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int const step = 2 * block + i;
        spread_codes<false>(shared_load4(tile + step * 128 + (place.codes ^ step * 32)), operand[r][i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) operand[r][i][j] = multiply_pair<false>(operand[r][i][j], 0x74007400u);  // 2^14
      }
      uint32_t const bytes = shared_load2(tile + place.scales + block * 2);
      scale[r][0] = ue8m0_factor(bytes << 23);
      scale[r][1] = ue8m0_factor(bytes << 15);
    }
#pragma unroll
    for (int n = 0; n < Config::kTokenTiles; ++n) {
      uint32_t b[4];
      shared_load_matrices(activations + n * (8 * kW4a16TileK * 2) + (place.activations ^ block * 64), b);
#pragma unroll
      for (int r = 0; r < Config::kRowTiles; ++r) {
        float product[4] = {};
        multiply_tile<false>(product, operand[r][0], b[0], b[1]);
        multiply_tile<false>(product, operand[r][1], b[2], b[3]);
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[r][n][j] = __fmaf_rn(product[j], scale[r][j / 2], sum[r][n][j]);
      }
    }
  }
}

template <class Config>
__device__ __forceinline__ void clear(W4a16TileSums<Config>& sum) {
#pragma unroll
  for (auto& row : sum) {
#pragma unroll
    for (auto& tile : row) {
#pragma unroll
      for (float& x : tile) x = 0.0f;
    }
  }
}

// A warp leaves a slot.
template <class Config>
__device__ __forceinline__ void release_slot(W4a16TileMap<Config> map, uint32_t slot, uint32_t lane) {
  __syncwarp();
  if (lane == 0) mbarrier_arrive(map.empty(slot));
}

// `count` k tiles, at least one.
template <class Config>
__device__ __forceinline__ void multiply_k_tiles(W4a16TileMap<Config> map, W4a16TilePlace<Config> const& place,
                                                 uint32_t lane, int count, RingPosition<Config::kStages>& ring,
                                                 W4a16TileSums<Config>& sum) {
  if constexpr (Config::kScaledSums) {
#pragma unroll 1
    for (; count > 0; --count) {
      mbarrier_wait(map.full(ring.slot), ring.parity);
      multiply_blocks<Config>(map.weights(ring.slot), map.activations(ring.slot), place, sum);
      release_slot(map, ring.slot, lane);
      ring.advance();
    }
  } else {
    W4a16TileWeights<Config> weights;
    uint32_t first[Config::kRowTiles][2][4], second[Config::kRowTiles][2][4];
    mbarrier_wait(map.full(ring.slot), ring.parity);
    weights.load(map.weights(ring.slot), place);
    weights.template dequantize<0>(first);
#pragma unroll 1
    while (true) {
      uint32_t const slot = ring.slot, activations = map.activations(slot) + place.activations;
      ring.advance();
      weights.template dequantize<1>(second);
      multiply_tokens<Config>(first, activations, sum);
      if (--count > 0) {
        mbarrier_wait(map.full(ring.slot), ring.parity);
        weights.load(map.weights(ring.slot), place);
      }
      weights.template dequantize<0>(first);  // of the last k tile: again, for nobody
      multiply_tokens<Config>(second, activations ^ 16, sum);
      release_slot(map, slot, lane);
      if (count <= 0) break;
    }
  }
}

// The CTA's part of k.
template <class Config>
__device__ __forceinline__ void multiply_part(W4a16TileMap<Config> map, W4a16TilePlace<Config> const& place,
                                              uint32_t lane, int count, RingPosition<Config::kStages>& ring,
                                              W4a16TileSums<Config>& sum) {
  clear<Config>(sum);
  if constexpr (Config::kRestart) {
#pragma unroll 1
    for (; count > 0; count -= Config::kRestartTiles) {
      W4a16TileSums<Config> part;
      clear<Config>(part);
      multiply_k_tiles<Config>(map, place, lane, min(count, Config::kRestartTiles), ring, part);
#pragma unroll
      for (int r = 0; r < Config::kRowTiles; ++r) {
#pragma unroll
        for (int n = 0; n < Config::kTokenTiles; ++n) {
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[r][n][j] += part[r][n][j];
        }
      }
    }
  } else {
    multiply_k_tiles<Config>(map, place, lane, count, ring, sum);
  }
}

// Results -------------------------------------------------------------------------------------------------------

// Adds the sums of the cluster's CTAs, in the order of k. Afterwards the first kTokenTiles / ctas token tiles of `sum` are
// those from rank * kTokenTiles / ctas on. Once a CTA.
template <class Config>
__device__ __forceinline__ void add_shares(W4a16TileMap<Config> map, W4a16TileShare const& share, uint32_t warp,
                                           uint32_t lane, W4a16TileSums<Config>& sum) {
  constexpr uint32_t kTokenTileBytes = Config::kRowTiles * Config::kWarps * 512;
  uint32_t const own_tiles = static_cast<uint32_t>(Config::kTokenTiles >> share.ctas_log2);
  uint32_t const own = map.sums() + warp * 512 + lane * 16;
  uint32_t const part_bytes = own_tiles * kTokenTileBytes;
#pragma unroll
  for (int n = 0; n < Config::kTokenTiles; ++n) {
    uint32_t const to = static_cast<uint32_t>(n << share.ctas_log2) / Config::kTokenTiles;
    uint32_t const place = own + share.rank * part_bytes + (n - to * own_tiles) * kTokenTileBytes;
#pragma unroll
    for (int r = 0; r < Config::kRowTiles; ++r) {
      cluster_store16_async(cluster_address(place + r * (Config::kWarps * 512), to), sum[r][n],
                            cluster_address(map.sums_full(), to));
    }
  }
  mbarrier_wait(map.sums_full(), 0);
#pragma unroll
  for (int n = 0; n < Config::kTokenTiles / 2; ++n) {
    if (n >= own_tiles) break;
#pragma unroll
    for (int r = 0; r < Config::kRowTiles; ++r) {
      float (&x)[4] = sum[r][n];
      x[0] = x[1] = x[2] = x[3] = 0.0f;
#pragma unroll 1
      for (int p = 0; p < share.ctas; ++p) {
        uint4 const v = shared_load16(own + p * part_bytes + n * kTokenTileBytes + r * (Config::kWarps * 512));
        x[0] += bits_float(v.x), x[1] += bits_float(v.y), x[2] += bits_float(v.z), x[3] += bits_float(v.w);
      }
    }
  }
}

// Columns of d of a warp: lane 4g + t has row + 8 * h of each row tile.
template <class Config>
struct W4a16TileEpilogue {
  float factor;
  float bias[Config::kRowTiles][2];
  int first_row;  // of the warp

  // Unscaled first: alpha times a power of two may overflow where the result does not.
  __device__ __forceinline__ float apply(float sum, int row_tile, int h) const {
    return factor * (kW4a16Unscale<Config::kFormat, Config::kBf16> * sum) + bias[row_tile][h];
  }
};

// fp32 results of 16 tokens from `token` on; x: [row tile][token tile]. A store is of whole sectors: 8 rows of 4 tokens.
template <class Config>
__device__ __forceinline__ void store_tokens(W4a16TileArgs const& args, W4a16TileEpilogue<Config> const& epilogue,
                                             uint32_t, uint32_t lane, int token, W4a16TileSums<Config> const& sum,
                                             int token_tile, float* d) {
  int const row = epilogue.first_row + static_cast<int>(lane / 4), first = token + static_cast<int>(lane % 4 * 2);
  float* const start = d + (first * args.d_stride + row);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (first + 8 * i + e >= args.m) continue;
#pragma unroll
      for (int r = 0; r < Config::kRowTiles; ++r) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (row + 16 * r + 8 * h >= args.n) continue;
          start[(8 * i + e) * args.d_stride + 16 * r + 8 * h] = epilogue.apply(sum[r][token_tile + i][2 * h + e], r, h);
        }
      }
    }
  }
}

// 16-bit results, likewise, through the warp's shared memory: a lane stores 8 neighbouring ones.
template <class Config, class T>
__device__ __forceinline__ void store_tokens(W4a16TileArgs const& args, W4a16TileEpilogue<Config> const& epilogue,
                                             uint32_t staging, uint32_t lane, int token,
                                             W4a16TileSums<Config> const& sum, int token_tile, T* d) {
  constexpr bool kBf16Out = std::is_same_v<T, __nv_bfloat16>;
  constexpr uint32_t kChunks = Config::kChunks, kPitch = kChunks * 16;
  // Chunk c of a token is at c ^ turned(token), so that no bank is hit twice.
  auto const turned = [](uint32_t of) { return of / (8 / kChunks) % kChunks; };
  __syncwarp();  // what was there has been read
#pragma unroll
  for (int r = 0; r < Config::kRowTiles; ++r) {
    // Lane 8 * matrix + token gives the address of a token's 8 rows; the matrices are (8 tokens, h).
    uint32_t const to = lane / 16 * 8 + lane % 8, chunk = 2 * r + lane / 8 % 2;
    uint32_t v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float const(&x)[4] = sum[r][token_tile + j / 2];
      v[j] = pack_pair(kBf16Out, epilogue.apply(x[j % 2 * 2], r, j % 2), epilogue.apply(x[j % 2 * 2 + 1], r, j % 2));
    }
    shared_store_matrices_transposed(staging + to * kPitch + (chunk ^ turned(to)) * 16, v);
  }
  __syncwarp();
#pragma unroll
  for (uint32_t i = 0; i < kChunks / 2; ++i) {
    uint32_t const from = i * (32 / kChunks) + lane / kChunks, chunk = lane % kChunks;
    int const row = epilogue.first_row + static_cast<int>(chunk * 8), at = token + static_cast<int>(from);
    if (at >= args.m || row >= args.n) continue;  // n is a multiple of 8
    uint4 const v = shared_load16(staging + from * kPitch + (chunk ^ turned(from)) * 16);
    T* const out = d + (at * args.d_stride + row);
    if (args.aligned_stores) {
      *reinterpret_cast<uint4*>(out) = v;
    } else {
      OutputVector<T, 8> results;
      memcpy(&results, &v, sizeof v);
#pragma unroll
      for (int j = 0; j < 8; ++j) out[j] = results.element[j];
    }
  }
}

// A warp's part of the CTA's tiles.
template <class Config>
__device__ __forceinline__ void multiply_tiles(W4a16TileArgs const& args, W4a16TileMap<Config> map,
                                               W4a16TileShare const& share, uint32_t warp, uint32_t lane) {
  W4a16TilePlace<Config> const place(warp, lane);
  RingPosition<Config::kStages> ring{};
  W4a16TileEpilogue<Config> epilogue;
  epilogue.factor = args.alpha != nullptr ? *args.alpha : 1.0f;
  for (int tile = share.cluster; tile < args.tiles; tile += share.clusters) {
    W4a16TileStart start = w4a16_tile_start<Config>(args, tile);
    epilogue.first_row = start.n0 + static_cast<int>(warp) * (Config::kRowTiles * kW4a16TileRows);
#pragma unroll
    for (int i = 0; i < 2 * Config::kRowTiles; ++i) {
      int const row = epilogue.first_row + static_cast<int>(lane / 4) + 8 * i;
      bool const has = args.bias != nullptr && row < args.n;
      epilogue.bias[i / 2][i % 2] = has ? load_bias(args.bias, args.bias_dtype, row) : 0.0f;
    }
    W4a16TileSums<Config> sum;
    multiply_part<Config>(map, place, lane, share.k_end - share.k_begin, ring, sum);
    int token_tiles = Config::kTokenTiles;
    if constexpr (Config::kMaxCtas > 1) {
      if (share.ctas > 1) {
        add_shares<Config>(map, share, warp, lane, sum);
        token_tiles = Config::kTokenTiles >> share.ctas_log2;
        start.m0 += share.rank * token_tiles * 8;
      }
    }
    with_output_type(args, [&](auto* d) {
#pragma unroll
      for (int n = 0; n < Config::kTokenTiles; n += 2) {
        if (n >= token_tiles || start.m0 + 8 * n >= args.m) break;
        store_tokens<Config>(args, epilogue, map.staging(warp), lane, start.m0 + 8 * n, sum, n, d);
      }
    });
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    w4a16_mma_sync_tile_kernel(__grid_constant__ W4a16TileArgs const args) {
  extern __shared__ uint8_t shared[];
  W4a16TileMap<Config> const map{static_cast<uint32_t>(round_up(shared_address(shared), 1024))};
  W4a16TileShare const share(args);
  pdl_launch_dependents();
  if (threadIdx.x == 0) {
    tma_prefetch_map(&args.a_map);
    tma_prefetch_map(&args.b_map);
    for (int i = 0; i < Config::kStages; ++i) {
      mbarrier_init(map.full(i), 1);
      mbarrier_init(map.empty(i), Config::kWarps);
    }
    mbarrier_init(map.sums_full(), 1);
    mbarrier_init_fence();
    if (share.ctas > 1) mbarrier_arrive_expect(map.sums_full(), Config::kSumBytes);
  } else if (threadIdx.x == 32) {
    prefetch_tile_weights<Config>(args, share);
  }
  if (share.ctas > 1) {
    cluster_sync();  // the other CTAs' sums need the barrier
  } else {
    __syncthreads();
  }
  pdl_wait();
  if (threadIdx.x < Config::kProducerThreads) {
    release_registers<Config::kProducerRegisters>();
    if (threadIdx.x == 0) start_tile_copies<Config>(args, map, share);
  } else {
    claim_registers<Config::kConsumerRegisters>();
    // The same for a whole warp, which the compiler does not know of threadIdx.
    uint32_t const warp = __shfl_sync(~0u, (threadIdx.x - Config::kProducerThreads) / 32, 0);
    multiply_tiles<Config>(args, map, share, warp, threadIdx.x % 32);
  }
}

}  // namespace fp4aot

#endif
