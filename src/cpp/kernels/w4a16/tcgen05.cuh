// W4A16 on tcgen05 (sm_100a, sm_103a): prepared weights stream through warps that make them an operand in tensor memory.
//
// A tile is 128 weight rows x kTokens tokens; D is computed transposed, so that weights are the product's A, from tensor
// memory, and activations its B, from shared memory, as the caller has them. A persistent CTA takes tiles in turn. Its warps
// have one role each, and hand over by barriers:
//   weights      one thread copies prepared tiles to a ring of slots
//   activations  one thread copies units, kTokens x 64 values, to another ring
//   transform    8 warps, each with one of the 8 row tiles: codes and scales of a slot become an operand in tensor memory,
//                in the registers' order that prepared weights were made for
//   multiply     one thread starts the products of an operand and a unit (two units, if activations are split)
//   epilogue     4 warps: sums to results, while the next tile's products run
// Few tiles: the CTAs of a cluster share the k of one, and each adds the sums of all for a part of the tokens.
// All values of operands are exact, as operand.cuh says; alpha and bias are applied in fp32.
#ifndef FP4AOT_KERNELS_W4A16_TCGEN05_CUH_
#define FP4AOT_KERNELS_W4A16_TCGEN05_CUH_

#include "device/cluster.cuh"
#include "device/mbarrier.cuh"
#include "device/pdl.cuh"
#include "device/ring.cuh"
#include "device/shared_memory.cuh"
#include "device/tcgen05.cuh"
#include "device/tma.cuh"
#include "device/tma_groups.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/w4a16/prepared_tile.cuh"
#include "kernels/w4a16/tcgen05_layout.cuh"

namespace fp4aot {

// Shared addresses. Barriers `full` and `empty` of each ring.
template <class Config>
struct Tcgen05Shared {
  uint32_t base;

  __device__ __forceinline__ uint32_t unit(uint32_t i) const {
    return base + Config::kUnitOffset + i * Config::kUnitBytes;
  }
  __device__ __forceinline__ uint32_t slot(uint32_t i) const {
    return base + Config::kSlotOffset + i * Config::kSlotBytes;
  }
  __device__ __forceinline__ uint32_t staging(uint32_t i) const {
    return base + Config::kStagingOffset + i * Config::kStagingBytes;
  }
  // Sums that the cluster sent, 4 tokens of a weight row: CTA by CTA, `group` of all their tokens.
  __device__ __forceinline__ uint32_t exchange(uint32_t group, uint32_t row) const {
    return base + Config::kStagingOffset + (group * kTcgen05Rows + row) * 16;
  }
  __device__ __forceinline__ uint32_t tmem() const { return base + Config::kTmemOffset; }

  __device__ __forceinline__ uint32_t barrier(uint32_t i) const { return base + Config::kBarrierOffset + i * 8; }
  __device__ __forceinline__ uint32_t unit_full(uint32_t i) const { return barrier(i); }
  __device__ __forceinline__ uint32_t unit_empty(uint32_t i) const { return barrier(Config::kUnits + i); }
  __device__ __forceinline__ uint32_t slot_full(uint32_t i) const { return barrier(2 * Config::kUnits + i); }
  __device__ __forceinline__ uint32_t slot_empty(uint32_t i) const { return slot_full(Config::kSlots + i); }
  __device__ __forceinline__ uint32_t operand_full(uint32_t i) const { return slot_full(2 * Config::kSlots + i); }
  __device__ __forceinline__ uint32_t operand_empty(uint32_t i) const { return operand_full(Config::kOperands + i); }
  __device__ __forceinline__ uint32_t sums_full(uint32_t i) const { return operand_full(2 * Config::kOperands + i); }
  __device__ __forceinline__ uint32_t sums_empty(uint32_t i) const { return sums_full(Config::kAccumulators + i); }
  __device__ __forceinline__ uint32_t exchange_full() const { return sums_full(2 * Config::kAccumulators); }
};

// Of the CTA in its cluster.
__device__ __forceinline__ int tcgen05_rank(W4a16Tcgen05Args const& args) {
  return static_cast<int>(blockIdx.x & ((1u << args.cluster_log2) - 1));
}

// The tiles of a CTA, one after the other, and the CTA's part of their k tiles.
template <class Config>
struct Tcgen05Tiles {
  int tile, m0, n0;
  int k_begin, k_end;

  __device__ __forceinline__ explicit Tcgen05Tiles(W4a16Tcgen05Args const& args)
      : tile(blockIdx.x >> args.cluster_log2) {
    int const rank = tcgen05_rank(args);
    k_begin = args.k_tiles * rank >> args.cluster_log2;
    k_end = args.k_tiles * (rank + 1) >> args.cluster_log2;
    place(args);
  }
  __device__ __forceinline__ bool more(W4a16Tcgen05Args const& args) const {
    return tile < args.m_tiles * args.n_tiles;
  }
  __device__ __forceinline__ void advance(W4a16Tcgen05Args const& args) {
    tile += gridDim.x >> args.cluster_log2;
    place(args);
  }

 private:
  __device__ __forceinline__ void place(W4a16Tcgen05Args const& args) {
    int const inner_tiles = args.along_n ? args.n_tiles : args.m_tiles;
    int const outer = tile / inner_tiles, inner = tile - outer * inner_tiles;
    m0 = (args.along_n ? outer : inner) * Config::kTokens;
    n0 = (args.along_n ? inner : outer) * kTcgen05Rows;
  }
};

// k tiles whose products make one sum.
template <class Config>
__device__ __forceinline__ int tcgen05_segment(W4a16Tcgen05Args const& args) {
  return Config::kFp32 ? Config::kSegmentUnits >> args.split : args.k_tiles;
}

// Weights of the first slots to L2, before the kernels before this one are known to have ended: no value is used. One
// thread.
template <class Config>
__device__ __forceinline__ void prefetch_weights(W4a16Tcgen05Args const& args) {
  Tcgen05Tiles<Config> const tiles(args);
  int const end = min(tiles.k_end, tiles.k_begin + Config::kSlots * kTcgen05SlotTiles);
#pragma unroll 1
  for (int k = tiles.k_begin; k < end; k += kTcgen05SlotTiles) {
    tma_prefetch_2d(&args.b_map, k * Config::kTileColumns, tiles.n0 / kW4a16TileRows);
  }
}

// Weights. One thread.
template <class Config>
__device__ __forceinline__ void copy_weights(W4a16Tcgen05Args const& args, Tcgen05Shared<Config> shared) {
  RingPosition<Config::kSlots> slots{};
  for (Tcgen05Tiles<Config> tiles(args); tiles.more(args); tiles.advance(args)) {
#pragma unroll 1
    for (int k = tiles.k_begin; k < tiles.k_end; k += kTcgen05SlotTiles) {
      mbarrier_wait_patiently(shared.slot_empty(slots.slot), slots.parity ^ 1);
      uint32_t const full = shared.slot_full(slots.slot);
      mbarrier_arrive_expect(full, Config::kSlotBytes);
      tma_load_2d(shared.slot(slots.slot), &args.b_map, k * Config::kTileColumns, tiles.n0 / kW4a16TileRows, full);
      slots.advance();
    }
  }
}

// Activations. One thread.
template <class Config>
__device__ __forceinline__ void copy_activations(W4a16Tcgen05Args const& args, Tcgen05Shared<Config> shared) {
  RingPosition<Config::kUnits> units{};
  for (Tcgen05Tiles<Config> tiles(args); tiles.more(args); tiles.advance(args)) {
#pragma unroll 1
    for (int k = tiles.k_begin; k < tiles.k_end; ++k) {
#pragma unroll 1
      for (int part = 0; part <= args.split; ++part) {
        mbarrier_wait_patiently(shared.unit_empty(units.slot), units.parity ^ 1);
        uint32_t const full = shared.unit_full(units.slot);
        mbarrier_arrive_expect(full, Config::kUnitBytes);
        // Split rows have 128 high parts and then their 128 low parts.
        int const column = (args.split ? k / 2 * 4 + k % 2 + part * 2 : k) * kW4a16TileK;
        tma_load_2d(shared.unit(units.slot), &args.a_map, column, tiles.m0, full);
        units.advance();
      }
    }
  }
}

// Prepared weights to operands. A warp of kTransformWarps.
template <class Config>
__device__ __forceinline__ void transform_weights(W4a16Tcgen05Args const& args, Tcgen05Shared<Config> shared, int warp,
                                                  uint32_t tmem) {
  int const lane = threadIdx.x % 32, row_tile = warp % 4 * 2 + warp / 4;
  uint32_t const own = tmem + Config::kOperandColumn + tmem_lane(row_tile * kW4a16TileRows);
  RingPosition<Config::kSlots> slots{};
  RingPosition<Config::kOperands> operands{};
  for (Tcgen05Tiles<Config> tiles(args); tiles.more(args); tiles.advance(args)) {
#pragma unroll 1
    for (int k = tiles.k_begin; k < tiles.k_end; k += kTcgen05SlotTiles) {
      PreparedTile<Config::kFormat, Config::kBf16> prepared[kTcgen05SlotTiles];
      uint32_t const source = shared.slot(slots.slot) + row_tile * Config::kRowTileBytes;
      mbarrier_wait(shared.slot_full(slots.slot), slots.parity);
#pragma unroll
      for (int i = 0; i < kTcgen05SlotTiles; ++i) prepared[i].load(source + i * Config::kTileBytes, lane);
      __syncwarp();
      if (lane == 0) mbarrier_arrive(shared.slot_empty(slots.slot));
      slots.advance();
#pragma unroll
      for (int i = 0; i < kTcgen05SlotTiles; ++i) {
        if (k + i >= tiles.k_end) break;
        uint32_t operand[16];
        prepared[i].dequantize(operand);
        mbarrier_wait(shared.operand_empty(operands.slot), operands.parity ^ 1);
        tcgen05_fence_after();
        tmem_store_fragments(own + operands.slot * Config::kOperandColumns, operand);
        tmem_wait_stores();
        tcgen05_fence_before();
        __syncwarp();
        if (lane == 0) mbarrier_arrive(shared.operand_full(operands.slot));
        operands.advance();
      }
    }
  }
}

// Products. One thread.
template <class Config>
__device__ __forceinline__ void multiply(W4a16Tcgen05Args const& args, Tcgen05Shared<Config> shared, uint32_t tmem) {
  constexpr uint32_t kInstruction = tcgen05_instruction(Config::kBf16, Config::kTokens);
  int const segment = tcgen05_segment<Config>(args);
  RingPosition<Config::kUnits> units{};
  RingPosition<Config::kOperands> operands{};
  RingPosition<Config::kAccumulators> sums{};
  for (Tcgen05Tiles<Config> tiles(args); tiles.more(args); tiles.advance(args)) {
#pragma unroll 1
    for (int begin = tiles.k_begin; begin < tiles.k_end; begin += segment) {
      mbarrier_wait(shared.sums_empty(sums.slot), sums.parity ^ 1);
      uint32_t const sum = tmem + sums.slot * Config::kTokens;
      bool accumulate = false;
#pragma unroll 1
      for (int k = begin; k < min(begin + segment, tiles.k_end); ++k) {
        mbarrier_wait(shared.operand_full(operands.slot), operands.parity);
        uint32_t const operand = tmem + Config::kOperandColumn + operands.slot * Config::kOperandColumns;
#pragma unroll 1
        for (int part = 0; part <= args.split; ++part) {
          mbarrier_wait(shared.unit_full(units.slot), units.parity);
          tcgen05_fence_after();
          uint64_t const unit = tcgen05_descriptor_swizzle128(shared.unit(units.slot));
#pragma unroll
          for (int i = 0; i < kW4a16TileK / kW4a16StepK; ++i) {
            tcgen05_multiply(sum, operand + 8 * i, unit + 2 * i, kInstruction, accumulate);
            accumulate = true;
          }
          tcgen05_commit(shared.unit_empty(units.slot));
          units.advance();
        }
        tcgen05_commit(shared.operand_empty(operands.slot));
        operands.advance();
      }
      tcgen05_commit(shared.sums_full(sums.slot));
      sums.advance();
    }
  }
}

// Epilogue ------------------------------------------------------------------------------------------------------

// alpha * sum + bias. The power of two first: alpha times it may overflow where the result does not.
template <class Config>
__device__ __forceinline__ float w4a16_result(float alpha, float sum, float bias) {
  return alpha * (kW4a16Unscale<Config::kFormat, Config::kBf16> * sum) + bias;
}

__device__ __forceinline__ float tcgen05_bias(W4a16Tcgen05Args const& args, int row) {
  return args.bias != nullptr && row < args.n ? load_bias(args.bias, args.bias_dtype, row) : 0.0f;
}

// This warp has read its part of the sums.
template <class Config>
__device__ __forceinline__ void release_sums(Tcgen05Shared<Config> shared, uint32_t slot) {
  tcgen05_fence_before();
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(shared.sums_empty(slot));
}

// Results of kCount tokens from m0 on and of a thread's weight row.
template <class Config, class T, int kCount>
__device__ __forceinline__ void store_tokens(W4a16Tcgen05Args const& args, T* d, int m0, int row, float alpha,
                                             float bias, float const (&sums)[kCount]) {
  if (row >= args.n) return;
  T* p = d + m0 * args.d_stride + row;
  int const tokens = args.m - m0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i < tokens) convert(w4a16_result<Config>(alpha, sums[i], bias), p);
    p += args.d_stride;
  }
}
template <class Config, int kCount>
__device__ __forceinline__ void store_tokens(W4a16Tcgen05Args const& args, int m0, int row, float alpha, float bias,
                                             float const (&sums)[kCount]) {
  if constexpr (Config::kFp32) {
    store_tokens<Config>(args, static_cast<float*>(args.d), m0, row, alpha, bias, sums);
  } else if (args.d_dtype == FP4AOT_BF16) {
    store_tokens<Config>(args, static_cast<__nv_bfloat16*>(args.d), m0, row, alpha, bias, sums);
  } else {
    store_tokens<Config>(args, static_cast<__half*>(args.d), m0, row, alpha, bias, sums);
  }
}

// Sums of a weight row (0..127 of the tile) and 32 tokens from `token` on (of the tile) to the CTAs of the cluster that have
// those tokens.
template <class Config>
__device__ __forceinline__ void send_sums(W4a16Tcgen05Args const& args, Tcgen05Shared<Config> shared, int row,
                                          int token, float const (&sums)[32]) {
  int const share = Config::kTokens >> args.cluster_log2;  // tokens of a CTA, a multiple of 4
#pragma unroll
  for (int i = 0; i < 32; i += 4) {
    int const to = (token + i) / share, group = (tcgen05_rank(args) * share + (token + i) % share) / 4;
    float const v[4] = {sums[i], sums[i + 1], sums[i + 2], sums[i + 3]};
    cluster_store16_async(cluster_address(shared.exchange(group, row), to), v,
                          cluster_address(shared.exchange_full(), to));
  }
}

// Results of this CTA's tokens from the sums that the cluster sent.
template <class Config>
__device__ __forceinline__ void store_exchanged(W4a16Tcgen05Args const& args, Tcgen05Shared<Config> shared,
                                                Tcgen05Tiles<Config> const& tiles, int row, float alpha) {
  int const share = Config::kTokens >> args.cluster_log2, first = tiles.m0 + tcgen05_rank(args) * share;
  float const bias = tcgen05_bias(args, tiles.n0 + row);
  mbarrier_wait(shared.exchange_full(), 0);
#pragma unroll 1
  for (int group = 0; group < share / 4; ++group) {
    float sums[4] = {};
#pragma unroll 1
    for (int from = 0; from < 1 << args.cluster_log2; ++from) {
      uint4 const v = shared_load16(shared.exchange(from * (share / 4) + group, row));
      sums[0] += bits_float(v.x), sums[1] += bits_float(v.y), sums[2] += bits_float(v.z), sums[3] += bits_float(v.w);
    }
    store_tokens<Config>(args, first + group * 4, tiles.n0 + row, alpha, bias, sums);
  }
}

// Sums of the lane's weight row: results by plain stores, or to the cluster. own: the warp's lanes of tensor memory. With
// kFp32 the sums are a segment's; first, last: of the tile.
template <class Config>
__device__ __forceinline__ void store_sums(W4a16Tcgen05Args const& args, Tcgen05Shared<Config> shared,
                                           Tcgen05Tiles<Config> const& tiles, int row, float alpha, uint32_t own,
                                           uint32_t slot, bool first, bool last) {
  float const bias = last ? tcgen05_bias(args, tiles.n0 + row) : 0.0f;
#pragma unroll 1
  for (int token = 0; token < Config::kTokens; token += 32) {
    float sums[32];
    tmem_load_columns(own + slot * Config::kTokens + token, sums);
    if (Config::kFp32 && !first) {
      float earlier[32];
      tmem_load_columns(own + Config::kSumColumn + token, earlier);
      tmem_wait_loads(earlier);
      tmem_wait_loads(sums);
#pragma unroll
      for (int i = 0; i < 32; ++i) sums[i] += earlier[i];
    } else {
      tmem_wait_loads(sums);
    }
    if (Config::kFp32 && !last) {
      tmem_store_columns(own + Config::kSumColumn + token, sums);
    } else if (Config::kClusters && args.cluster_log2 > 0) {
      send_sums<Config>(args, shared, row, token, sums);
    } else {
      store_tokens<Config>(args, tiles.m0 + token, tiles.n0 + row, alpha, bias, sums);
    }
  }
  if (Config::kFp32 && !last) tmem_wait_stores();
  release_sums<Config>(shared, slot);
  if (Config::kClusters && last && args.cluster_log2 > 0) store_exchanged<Config>(args, shared, tiles, row, alpha);
}

// bf16 or fp16 results through shared memory. warp: of the epilogue; buffer: of the next results.
template <class Config>
__device__ __forceinline__ void store_staged(W4a16Tcgen05Args const& args, Tcgen05Shared<Config> shared,
                                             Tcgen05Tiles<Config> const& tiles, int warp, float alpha, uint32_t own,
                                             uint32_t slot, uint32_t& buffer) {
  constexpr int kBarrier = 1, kStep = Config::kStagingTokens;
  int const lane = threadIdx.x % 32, thread = warp * 32 + lane;
  float bias[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) bias[i / 2][i % 2] = tcgen05_bias(args, tiles.n0 + warp * 32 + i * 8 + lane / 4);
  // Lane 8 * matrix + token gives the address of a token's 8 weight rows; the matrices are (8 tokens, 8 rows).
  uint32_t const token = lane / 16 * 8 + lane % 8, chunk = warp % 2 * 4 + lane / 8 % 2;
#pragma unroll 1
  for (int begin = 0; begin < Config::kTokens && tiles.m0 + begin < args.m; begin += kStep) {
    uint32_t const staging = shared.staging(buffer);
    if (thread == 0) tma_store_wait_read_but<Config::kStagings - 1>();
    barrier_sync<128>(kBarrier);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t const address =
          staging + warp / 2 * Config::kStagingBoxBytes + token * 128 + (((chunk + 2 * half) ^ lane % 8) << 4);
      float sums[32];
      tmem_load_accumulators(own + tmem_lane(16 * half) + slot * Config::kTokens + begin, sums);
      tmem_wait_loads(sums);
#pragma unroll
      for (int i = 0; i < 32; i += 8) {
        uint32_t v[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          v[j] = pack_pair(args.d_dtype == FP4AOT_BF16, w4a16_result<Config>(alpha, sums[i + 2 * j], bias[half][j % 2]),
                           w4a16_result<Config>(alpha, sums[i + 2 * j + 1], bias[half][j % 2]));
        }
        shared_store_matrices_transposed(address + i / 8 * (16 * 128), v);
      }
    }
    fence_async_shared();
    barrier_sync<128>(kBarrier);
    if (thread == 0) {
      tma_store_2d(&args.d_map, tiles.n0, tiles.m0 + begin, staging);
      if (tiles.n0 + 64 < args.n)
        tma_store_2d(&args.d_map, tiles.n0 + 64, tiles.m0 + begin, staging + Config::kStagingBoxBytes);
      tma_store_commit();
    }
    buffer = buffer + 1 == Config::kStagings ? 0 : buffer + 1;
  }
  release_sums<Config>(shared, slot);
}

// A warp of kEpilogueWarps.
template <class Config>
__device__ __forceinline__ void store_results(W4a16Tcgen05Args const& args, Tcgen05Shared<Config> shared, int warp,
                                              uint32_t tmem) {
  uint32_t const own = tmem + tmem_lane(32 * warp);
  float const alpha = args.alpha != nullptr ? *args.alpha : 1.0f;
  RingPosition<Config::kAccumulators> sums{};
  uint32_t buffer = 0;
  for (Tcgen05Tiles<Config> tiles(args); tiles.more(args); tiles.advance(args)) {
    int const row = warp * 32 + static_cast<int>(threadIdx.x) % 32;
    int const segment = tcgen05_segment<Config>(args);
#pragma unroll 1
    for (int k = tiles.k_begin; k < tiles.k_end; k += segment) {
      mbarrier_wait(shared.sums_full(sums.slot), sums.parity);
      tcgen05_fence_after();
      bool staged = false;
      if constexpr (!Config::kFp32) {
        staged = args.staged;
        if (staged) store_staged<Config>(args, shared, tiles, warp, alpha, own, sums.slot, buffer);
      }
      if (!staged) {
        store_sums<Config>(args, shared, tiles, row, alpha, own, sums.slot, k == tiles.k_begin,
                           k + segment >= tiles.k_end);
      }
      sums.advance();
    }
  }
  if constexpr (!Config::kFp32) {
    if (warp == 0 && threadIdx.x % 32 == 0) tma_store_wait_read();
  }
}

template <class Config>
__device__ __forceinline__ void tcgen05_init_barriers(Tcgen05Shared<Config> shared) {
  for (int i = 0; i < Config::kUnits; ++i) {
    mbarrier_init(shared.unit_full(i), 1);
    mbarrier_init(shared.unit_empty(i), 1);
  }
  for (int i = 0; i < Config::kSlots; ++i) {
    mbarrier_init(shared.slot_full(i), 1);
    mbarrier_init(shared.slot_empty(i), Config::kTransformWarps);
  }
  for (int i = 0; i < Config::kOperands; ++i) {
    mbarrier_init(shared.operand_full(i), Config::kTransformWarps);
    mbarrier_init(shared.operand_empty(i), 1);
  }
  for (int i = 0; i < Config::kAccumulators; ++i) {
    mbarrier_init(shared.sums_full(i), 1);
    mbarrier_init(shared.sums_empty(i), Config::kEpilogueWarps);
  }
  mbarrier_init(shared.exchange_full(), 1);
  mbarrier_init_fence();
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    w4a16_tcgen05_kernel(__grid_constant__ W4a16Tcgen05Args const args) {
  extern __shared__ uint8_t memory[];
  Tcgen05Shared<Config> const shared{static_cast<uint32_t>(round_up(shared_address(memory), 1024))};
  int const warp = static_cast<int>(threadIdx.x) / 32;
  bool const first_lane = threadIdx.x % 32 == 0;
  if (warp == Config::kActivationWarp && first_lane) {
    tma_prefetch_map(&args.a_map);
    if (args.staged) tma_prefetch_map(&args.d_map);
    tcgen05_init_barriers<Config>(shared);
    if (args.cluster_log2 > 0) mbarrier_arrive_expect(shared.exchange_full(), Config::kExchangeBytes);
  } else if (warp == Config::kWeightWarp && first_lane) {
    tma_prefetch_map(&args.b_map);
    prefetch_weights<Config>(args);
  }
  pdl_wait();
  // Not earlier: tensor memory that is held while waiting for a kernel that still has to take some would stop both. For
  // the same reason the next kernel may start only now.
  if (warp == Config::kMultiplyWarp) tmem_allocate<kTmemColumns>(shared.tmem());
  tcgen05_fence_before();
  __syncthreads();
  tcgen05_fence_after();
  if (args.cluster_log2 > 0) cluster_sync();  // others' sums need the barrier
  pdl_launch_dependents();
  uint32_t const tmem = shared_load4(shared.tmem());
  if (warp < Config::kTransformWarps) {
    transform_weights<Config>(args, shared, warp, tmem);
  } else if (warp < Config::kEpilogueWarp + Config::kEpilogueWarps) {
    store_results<Config>(args, shared, warp - Config::kEpilogueWarp, tmem);
  } else if (warp == Config::kWeightWarp) {
    if (first_lane) copy_weights<Config>(args, shared);
  } else if (warp == Config::kActivationWarp) {
    if (first_lane) copy_activations<Config>(args, shared);
  } else {
    if (first_lane) multiply<Config>(args, shared, tmem);
    __syncwarp();
  }
  tcgen05_fence_before();
  __syncthreads();
  tcgen05_fence_after();
  if (warp == Config::kMultiplyWarp) tmem_free<kTmemColumns>(tmem);
}

}  // namespace fp4aot

#endif
