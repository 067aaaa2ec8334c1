// W4A4 on bf16 tensor cores (sm_90a): both operands are dequantised exactly to bf16 inside the kernel.
//
// A tile is 256 weight rows x kTokens activation rows, so D is computed transposed: weights are the 64-row operand of
// wgmma and come from registers, activations are its n operand and come from shared memory. Producer warps dequantise
// activations into swizzled shared memory; each consumer warpgroup dequantises its own weight rows straight into operand
// registers while its previous products run. Codes and scales arrive by bulk copies, which the
// producer warps start in turn.
//
// Order along k. Within a step of 128 values, thread t of a quad reads the 16 bytes of values 32t..32t+31 of a weight row,
// so the product of word q = 0..3 and half j = 0, 1 takes, as its k index 2t + e (+ 8), value 32t + 8q + 2j (+ 1) + 4e: the
// order in which dequantize_word yields pairs. Producers write activations in that same order.
//
// The tile's k range may be split over the CTAs of a cluster, which then add their partial sums in rank order through
// distributed shared memory: deterministic, and no workspace.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_CUH_

#include "device/cluster.cuh"
#include "device/mbarrier.cuh"
#include "device/pdl.cuh"
#include "device/shared_memory.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "kernels/gemm/dequant.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/wgmma_layout.cuh"

namespace fp4aot {

// Position in a ring of kSize slots and the parity of its current pass.
template <int kSize>
struct RingPosition {
  uint32_t slot, parity;
  __device__ __forceinline__ void advance(uint32_t by = 1) {  // by <= kSize
    slot += by;
    if (slot >= kSize) {
      slot -= kSize;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ RingPosition after(uint32_t by) const {
    RingPosition position = *this;
    position.advance(by);
    return position;
  }
};

struct TilePosition {
  int m0, n0;
};

// Tiles in groups of kGroup rows of tiles, column by column: the CTAs that run together share weights and activations.
template <class Config>
__device__ __forceinline__ TilePosition tile_position(WgmmaGemmArgs const& args, int tile) {
  constexpr int kGroup = 8;
  int const group_tiles = kGroup * args.n_tiles;
  int const group = tile / group_tiles;
  int const within = tile - group * group_tiles;
  int const height = min(kGroup, args.m_tiles - group * kGroup);
  int const column = within / height;
  return {(group * kGroup + within - column * height) * Config::kTokens, column * Config::kRows};
}

// Which tiles and steps a CTA works on. Its steps are counted through all of its tiles: index i is step
// step_begin + i % tile_steps of tile number i / tile_steps.
struct CtaWork {
  int first_tile, tile_stride;
  int step_begin, step_end;
  uint32_t tile_steps, steps;

  __device__ __forceinline__ explicit CtaWork(WgmmaGemmArgs const& args) {
    uint32_t const splits = static_cast<uint32_t>(args.splits);
    uint32_t const rank = blockIdx.x % splits;
    first_tile = blockIdx.x / splits;
    tile_stride = gridDim.x / splits;
    step_begin = static_cast<int>(rank * static_cast<uint64_t>(args.steps) / splits);
    step_end = static_cast<int>((rank + 1) * static_cast<uint64_t>(args.steps) / splits);
    tile_steps = step_end - step_begin;
    steps = first_tile < args.tiles ? ((args.tiles - 1 - first_tile) / tile_stride + 1) * tile_steps : 0;
  }
};

// Shared addresses.
template <class Config>
struct SharedMap {
  uint32_t base;

  __device__ __forceinline__ uint32_t unit(uint32_t slot) const {
    return base + Config::kUnitOffset + slot * Config::kUnitBytes;
  }
  __device__ __forceinline__ uint32_t tokens(uint32_t slot) const {
    return base + Config::kTokenOffset + slot * Config::kTokenBytes;
  }
  __device__ __forceinline__ uint32_t token_scales(uint32_t slot) const {
    return base + Config::kTokenScaleOffset + slot * Config::kTokenScaleBytes;
  }
  __device__ __forceinline__ uint32_t weights(uint32_t slot) const {
    return base + Config::kWeightOffset + slot * Config::kWeightBytes;
  }
  __device__ __forceinline__ uint32_t weight_scales(uint32_t slot) const {
    return base + Config::kWeightScaleOffset + slot * Config::kWeightScaleBytes;
  }

  // Barriers. Full ones of copies complete by their bytes; the others by an arrival of every warp that is done.
  __device__ __forceinline__ uint32_t unit_full(uint32_t slot) const {
    return base + Config::kBarrierOffset + slot * 8;
  }
  __device__ __forceinline__ uint32_t unit_empty(uint32_t slot) const { return unit_full(Config::kUnits + slot); }
  __device__ __forceinline__ uint32_t token_full(uint32_t slot) const { return unit_full(2 * Config::kUnits + slot); }
  __device__ __forceinline__ uint32_t token_empty(uint32_t slot) const {
    return token_full(Config::kTokenStages + slot);
  }
  __device__ __forceinline__ uint32_t weight_full(uint32_t slot) const {
    return token_full(2 * Config::kTokenStages + slot);
  }
  __device__ __forceinline__ uint32_t weight_empty(uint32_t slot) const {
    return weight_full(Config::kWeightStages + slot);
  }
};

// Byte of (row, 0) within a scale atom of 128 rows.
__device__ __forceinline__ uint32_t atom_row(int row) { return row % 32 * 16 + row / 32 * 4; }

// Producers -----------------------------------------------------------------------------------------------------

// Start the copies of a CTA's step number `index`, if it has so many; wait until the slot is free. One thread.
// Scale atoms beyond the tensor arrive as zero, but the padding inside of the last one may be anything: see `rest` below.
struct LoadPosition {
  int step;
  TilePosition tile;
};

template <class Config>
__device__ __forceinline__ LoadPosition load_position(WgmmaGemmArgs const& args, CtaWork const& work, uint32_t index) {
  uint32_t const tile = index < work.tile_steps ? 0 : index / work.tile_steps;
  return {work.step_begin + static_cast<int>(index - tile * work.tile_steps),
          tile_position<Config>(args, work.first_tile + static_cast<int>(tile) * work.tile_stride)};
}

template <class Config>
__device__ __forceinline__ void load_tokens(WgmmaGemmArgs const& args, SharedMap<Config> map, CtaWork const& work,
                                            uint32_t index) {
  if (index >= work.steps) return;
  LoadPosition const at = load_position<Config>(args, work, index);
  uint32_t const pass = index / Config::kTokenStages, slot = index % Config::kTokenStages, full = map.token_full(slot);
  mbarrier_wait(map.token_empty(slot), (pass & 1) ^ 1);
  mbarrier_arrive_expect(full, Config::kTokenBytes + Config::kTokenScaleBytes);
  tma_load_2d(map.tokens(slot), &args.a_map, at.step * Config::kStepBytes, at.tile.m0, full);
  tma_load_3d(map.token_scales(slot), &args.a_scale_map, 0, at.step * Config::kAtoms, at.tile.m0 / kScaleAtomRows,
              full);
}

template <class Config>
__device__ __forceinline__ void load_weights(WgmmaGemmArgs const& args, SharedMap<Config> map, CtaWork const& work,
                                             uint32_t index) {
  if (index >= work.steps) return;
  LoadPosition const at = load_position<Config>(args, work, index);
  uint32_t const pass = index / Config::kWeightStages, slot = index % Config::kWeightStages,
                 full = map.weight_full(slot);
  mbarrier_wait(map.weight_empty(slot), (pass & 1) ^ 1);
  mbarrier_arrive_expect(full, Config::kWeightBytes + Config::kWeightScaleBytes);
  tma_load_2d(map.weights(slot), &args.b_map, at.step * Config::kStepBytes, at.tile.n0, full);
  tma_load_3d(map.weight_scales(slot), &args.b_scale_map, 0, at.step * Config::kAtoms, at.tile.n0 / kScaleAtomRows,
              full);
}

// The first copies, into free slots: the producer warps share them.
template <class Config>
__device__ __forceinline__ void start_loading(WgmmaGemmArgs const& args, SharedMap<Config> map, CtaWork const& work) {
  if (threadIdx.x % 32 == 0) {
    for (uint32_t i = threadIdx.x / 32; i < Config::kWeightStages + Config::kTokenStages;
         i += Config::kProducerThreads / 32) {
      // Weights and activations of a step after each other.
      bool const tokens = i < 2 * Config::kTokenStages && i % 2 == 1;
      if (tokens) {
        load_tokens<Config>(args, map, work, i / 2);
      } else {
        load_weights<Config>(args, map, work, i < 2 * Config::kTokenStages ? i / 2 : i - Config::kTokenStages);
      }
    }
  }
  __syncwarp();
}

// After a piece of step `index`, by the warp whose turn it is.
template <class Config>
__device__ __forceinline__ void continue_loading(WgmmaGemmArgs const& args, SharedMap<Config> map, CtaWork const& work,
                                                 uint32_t index) {
  uint32_t const tokens = index + Config::kTokensAhead, weights = index + Config::kWeightsAhead;
  if (threadIdx.x % 32 == 0 && weights >= Config::kWeightStages) load_weights<Config>(args, map, work, weights);
  if (threadIdx.x % 32 == 0 && tokens >= Config::kTokenStages) load_tokens<Config>(args, map, work, tokens);
  __syncwarp();
}

template <class Config>
__device__ __forceinline__ void produce(WgmmaGemmArgs const& args, SharedMap<Config> map, CtaWork const& work) {
  int const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Place of this thread within a step.
  uint32_t const piece = warp % Config::kPieces;
  int const unit = piece / Config::kUnitPieces;
  int const row = piece % Config::kUnitPieces * 32 + lane;
  uint32_t const code_offset = row * Config::kStepBytes + unit * 8;
  uint32_t const code_swizzle = (row >> 1 & 3) << 4;
  uint32_t const out_offset = row * 128;
  uint32_t const out_swizzle = (row & 7) << 4;

  RingPosition<Config::kTokenStages> raw{};
  RingPosition<Config::kUnits> ring{};
  uint32_t index = warp / Config::kPieces;  // of the step, through all tiles
  int skip = warp / Config::kPieces;        // steps until this warp's next one
  raw.advance(skip);
  ring.advance(2 * skip + unit);
  for (int tile = work.first_tile; tile < args.tiles; tile += work.tile_stride) {
    uint32_t const scale_offset = atom_row(tile_position<Config>(args, tile).m0 % kScaleAtomRows + row);
    int step = work.step_begin + skip;
    for (; step < work.step_end; step += Config::kStepsAtOnce) {
      mbarrier_wait(map.token_full(raw.slot), raw.parity);
      uint2 words[4];  // words 2 * unit and 2 * unit + 1 of each 16 bytes of the row
      uint32_t scales[4];
      uint32_t const codes = map.tokens(raw.slot) + code_offset;
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = shared_load8(codes + ((i << 4) ^ code_swizzle));
      uint32_t const scale_address = map.token_scales(raw.slot) + scale_offset;
      if constexpr (Config::kFormat == Format::kNvfp4) {
        uint32_t const low = shared_load4(scale_address), high = shared_load4(scale_address + kScaleAtomBytes);
        scales[0] = low, scales[1] = low >> 16, scales[2] = high, scales[3] = high >> 16;
      } else {
        uint32_t const all = shared_load4(scale_address);
#pragma unroll
        for (int i = 0; i < 4; ++i) scales[i] = all >> 8 * i;
      }
      int const rest = args.k - step * Config::kStepValues;  // scales beyond k may be anything
      Factor<Config::kFormat> factors[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        factors[i] = BlockFactors<Config::kFormat>::of_half(32 * i < rest ? scales[i] : 0, unit);
      }
      __syncwarp();
      if (lane == 0) mbarrier_arrive(map.token_empty(raw.slot));
      raw.advance(Config::kStepsAtOnce);

      uint32_t const out = map.unit(ring.slot) + out_offset;
#pragma unroll
      for (int w = 0; w < 2; ++w) {
        uint32_t pairs[4][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) dequantize_word(w == 0 ? words[i].x : words[i].y, factors[i], pairs[i]);
        if (w == 0) mbarrier_wait(map.unit_empty(ring.slot), ring.parity ^ 1);
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          shared_store16(out + (((4 * w + c) << 4) ^ out_swizzle), pairs[0][c], pairs[1][c], pairs[2][c], pairs[3][c]);
        }
      }
      fence_async_shared();
      __syncwarp();
      if (lane == 0) mbarrier_arrive(map.unit_full(ring.slot));
      ring.advance(2 * Config::kStepsAtOnce);
      if (index / Config::kStepsAtOnce % Config::kPieces == piece) continue_loading<Config>(args, map, work, index);
      index += Config::kStepsAtOnce;
    }
    skip = step - work.step_end;
  }
}

// Consumers -----------------------------------------------------------------------------------------------------

// Where a consumer thread's weight rows and accumulators lie. Of each 64-row block of its warpgroup it has, for h = 0, 1,
// the rows 16w + g + 8h of the product. The weight rows behind them are neighbours, row(block) + (h ^ swap), so that it
// stores neighbouring columns of D; swap is g's parity, so that the 64-byte rows that a quarter of a warp reads alternate
// between the halves of the banks.
template <class Config>
struct ConsumerPlace {
  int t, swap, first;
  uint32_t codes[2], scales[2];  // of h = 0, 1 in block 0, from the start of a slot

  // thread: of the consumers
  __device__ __forceinline__ explicit ConsumerPlace(int thread) {
    int const lane = thread % 32;
    t = lane % 4;
    swap = lane / 4 & 1;
    first = thread / 32 * 16 * Config::kRowBlocks + lane / 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int const row = first + (h ^ swap);
      codes[h] = row * Config::kStepBytes + t * 16;
      scales[h] = row / kScaleAtomRows * Config::kAtoms * kScaleAtomBytes + atom_row(row % kScaleAtomRows) +
                  (Config::kFormat == Format::kNvfp4 ? t / 2 * kScaleAtomBytes + t % 2 * 2 : t);
    }
  }
  // The first of the thread's two neighbouring rows in a block, within the tile.
  __device__ __forceinline__ int row(int block) const { return first + 16 * block; }
};

// sum: the tile's result. accumulator: the same array unless Config::kPromote.
template <class Config, int kCount>
__device__ __forceinline__ void multiply_tile(WgmmaGemmArgs const& args, SharedMap<Config> map, CtaWork work,
                                              ConsumerPlace<Config> const& place,
                                              RingPosition<Config::kWeightStages>& raw,
                                              RingPosition<Config::kUnits>& ring,
                                              float (&accumulator)[Config::kRowBlocks][kCount],
                                              float (&sum)[Config::kRowBlocks][kCount]) {
  constexpr int kBlocks = Config::kRowBlocks;
  int const lane = threadIdx.x % 32;
  int accumulate = 0;
  int previous_unit = -1;  // read by products that may still run
  auto release_unit = [&] {
    if (previous_unit >= 0 && lane == 0) mbarrier_arrive(map.unit_empty(previous_unit));
    previous_unit = -1;
  };
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) accumulator[b][i] = sum[b][i] = 0.0f;
  }
#pragma unroll 1
  for (int step = work.step_begin; step < work.step_end; ++step) {
    mbarrier_wait(map.weight_full(raw.slot), raw.parity);
    uint32_t const slot_codes = map.weights(raw.slot);
    uint32_t const slot_scales = map.weight_scales(raw.slot);
    bool const inside = 32 * place.t < args.k - step * Config::kStepValues;  // scales beyond k may be anything
    BlockFactors<Config::kFormat> factors[kBlocks][2];
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        uint32_t const address =
            slot_scales + place.scales[h] + b * 16 * 16;  // 16 bytes from row to row, within 32 rows
        uint32_t const scales = Config::kFormat == Format::kNvfp4 ? shared_load2(address) : shared_load1(address);
        factors[b][h] = BlockFactors<Config::kFormat>(inside ? scales : 0);
      }
    }
    uint2 codes[kBlocks][2];             // words q and q + 1
    uint32_t operand[2][2][kBlocks][4];  // [word parity][half of the word][64-row block]
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      if (q % 2 == 0) {
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            codes[b][h] = shared_load8(slot_codes + place.codes[h] + b * 16 * Config::kStepBytes + q * 4);
          }
        }
      }
      if (q == 2) {
        __syncwarp();
        if (lane == 0) mbarrier_arrive(map.weight_empty(raw.slot));
        raw.advance();
      }
      // The buffer operand[q % 2] is free: the products of word q - 2 have been waited for.
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          uint32_t pairs[4];
          dequantize_word(q % 2 == 0 ? codes[b][h].x : codes[b][h].y, factors[b][h].of_word(q), pairs);
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            operand[q % 2][j][b][h] = pairs[2 * j];
            operand[q % 2][j][b][h + 2] = pairs[2 * j + 1];
          }
        }
      }
      if (q % 2 == 0) mbarrier_wait(map.unit_full(ring.slot), ring.parity);
      uint64_t const descriptor = wgmma_descriptor_swizzle128(map.unit(ring.slot)) + q % 2 * 4;
      wgmma_fence();
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          wgmma_m64k16(accumulator[b], operand[q % 2][j][b], descriptor + 2 * j, accumulate);
        }
        accumulate = 1;
      }
      wgmma_commit();
      wgmma_wait<1>();
      if (q % 2 == 0) {
        release_unit();
      } else {
        previous_unit = ring.slot;
        ring.advance();
      }
    }
    if constexpr (Config::kPromote) {
      if (step + 1 == work.step_end ||
          static_cast<uint32_t>(step - work.step_begin) % Config::kPromoteSteps == Config::kPromoteSteps - 1) {
        wgmma_wait<0>();
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          wgmma_pin(accumulator[b]);
#pragma unroll
          for (int i = 0; i < kCount; ++i) sum[b][i] += accumulator[b][i];
        }
        accumulate = 0;
        release_unit();
      }
    }
  }
  if constexpr (!Config::kPromote) {
    wgmma_wait<0>();
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) wgmma_pin(accumulator[b]);
    release_unit();
  }
}

// Adds the partial tiles of the cluster's CTAs in rank order and stores this CTA's share of the tile. Consumers call it.
template <class Config>
__device__ __forceinline__ void reduce_partials(WgmmaGemmArgs const& args, uint32_t base, int m0, int n0, int rows,
                                                uint32_t rank) {
  constexpr int kQuads = Config::kRows / 4;
  uint32_t const splits = static_cast<uint32_t>(args.splits);
  uint32_t const total = rows * kQuads;
  uint32_t const end = total * (rank + 1) / splits;
  for (uint32_t i = total * rank / splits + threadIdx.x - Config::kProducerThreads; i < end;
       i += 128 * Config::kConsumers) {
    int const row = i / kQuads, column = n0 + i % kQuads * 4;
    if (column >= args.n) continue;
    uint32_t const address = base + (row * Config::kPartialPitch + i % kQuads * 4) * 4;
    float v[4] = {};
    constexpr uint32_t kAtOnce = 4;
#pragma unroll 1
    for (uint32_t first = 0; first < splits; first += kAtOnce) {
      float4 part[kAtOnce] = {};
#pragma unroll
      for (uint32_t s = 0; s < kAtOnce; ++s) {
        if (first + s < splits) part[s] = cluster_load(cluster_address(address, first + s));
      }
#pragma unroll
      for (uint32_t s = 0; s < kAtOnce; ++s) v[0] += part[s].x, v[1] += part[s].y, v[2] += part[s].z, v[3] += part[s].w;
    }
    store_row<4>(args, BlockFactors<Config::kFormat>::kUnshift, m0 + row, column, v);
  }
}

// Stores a thread's two columns of a 64-row block. sum: as wgmma leaves it.
template <class Config, int kCount>
__device__ __forceinline__ void store_block(GemmArgs const& args, int m0, int n0, ConsumerPlace<Config> const& place,
                                            int block, float const (&sum)[kCount]) {
  int const column = n0 + place.row(block), first_row = m0 + 2 * place.t;
  int const rows = args.m - first_row;
  if (column >= args.n) return;
  ColumnEpilogue<2> const epilogue(args, BlockFactors<Config::kFormat>::kUnshift, column);
  with_output(args, [&](auto* d, auto aligned) {
    using T = std::remove_pointer_t<decltype(d)>;
    int64_t const pitch =
        args.d_stride * static_cast<int64_t>(sizeof(T));  // in bytes: an address takes fewer instructions
    auto* p = reinterpret_cast<char*>(d + first_row * args.d_stride + column);
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float const x = sum[4 * i + e], y = sum[4 * i + 2 + e];
        float const out[2] = {epilogue.apply(place.swap ? y : x, 0), epilogue.apply(place.swap ? x : y, 1)};
        if (8 * i + e < rows)
          store_outputs<decltype(aligned)::value>(reinterpret_cast<T*>(e == 0 ? p : p + pitch), out);
      }
      p += 8 * pitch;
    }
  });
}

template <class Config>
__device__ __forceinline__ void consume(WgmmaGemmArgs const& args, SharedMap<Config> map, CtaWork work) {
  constexpr int kBlocks = Config::kRowBlocks;
  ConsumerPlace<Config> const place(threadIdx.x - Config::kProducerThreads);
  RingPosition<Config::kWeightStages> raw{};
  RingPosition<Config::kUnits> ring{};
  for (int tile = work.first_tile; tile < args.tiles; tile += work.tile_stride) {
    float sum[kBlocks][Config::kTokens / 2];
    if constexpr (Config::kPromote) {
      float accumulator[kBlocks][Config::kTokens / 2];
      multiply_tile<Config>(args, map, work, place, raw, ring, accumulator, sum);
    } else {
      multiply_tile<Config>(args, map, work, place, raw, ring, sum, sum);
    }
    TilePosition const position = tile_position<Config>(args, tile);
    // Calls visit(row of the tile's D, v) for each of this thread's rows, v: the two columns of a block.
    auto const for_each_row = [&](int b, auto visit) {
#pragma unroll
      for (int i = 0; i < Config::kTokens / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float const x = sum[b][4 * i + e], y = sum[b][4 * i + 2 + e];
          float const v[2] = {place.swap ? y : x, place.swap ? x : y};
          visit(8 * i + 2 * place.t + e, v);
        }
      }
    };
    if (args.splits == 1) {
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        store_block<Config>(args, position.m0, position.n0, place, b, sum[b]);
      }
      continue;
    }
    // The rings are idle: this is the CTA's only tile, all its copies have arrived and, after the barrier, been read.
    barrier_sync<1, 128 * Config::kConsumers>();
    int const rows = min(Config::kTokens, args.m - position.m0);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      for_each_row(b, [&](int row, float const(&v)[2]) {
        if (row < rows) {
          shared_store8(map.base + (row * Config::kPartialPitch + place.row(b)) * 4, v[0], v[1]);
        }
      });
    }
    cluster_sync();
    reduce_partials<Config>(args, map.base, position.m0, position.n0, rows,
                            blockIdx.x % static_cast<uint32_t>(args.splits));
    cluster_sync();  // the others may still read this CTA's sums
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1) wgmma_gemm_kernel(__grid_constant__ WgmmaGemmArgs const args) {
  extern __shared__ uint8_t shared[];
  SharedMap<Config> const map{static_cast<uint32_t>(round_up(shared_address(shared), 1024))};
  pdl_launch_dependents();
  if (threadIdx.x == 0) {
    tma_prefetch_map(&args.a_map);
    tma_prefetch_map(&args.b_map);
    tma_prefetch_map(&args.a_scale_map);
    tma_prefetch_map(&args.b_scale_map);
    for (int i = 0; i < Config::kUnits; ++i) {
      mbarrier_init(map.unit_full(i), Config::kUnitPieces);
      mbarrier_init(map.unit_empty(i), 4 * Config::kConsumers);
    }
    for (int i = 0; i < Config::kTokenStages; ++i) {
      mbarrier_init(map.token_full(i), 1);
      mbarrier_init(map.token_empty(i), Config::kPieces);
    }
    for (int i = 0; i < Config::kWeightStages; ++i) {
      mbarrier_init(map.weight_full(i), 1);
      mbarrier_init(map.weight_empty(i), 4 * Config::kConsumers);
    }
    mbarrier_init_fence();
  }
  __syncthreads();
  pdl_wait();
  if (threadIdx.x < Config::kProducerThreads) {
    release_registers<Config::kProducerRegisters>();
    CtaWork const work(args);
    start_loading<Config>(args, map, work);
    produce<Config>(args, map, work);
    if (args.splits > 1) {
      cluster_sync();
      cluster_sync();
    }
  } else {
    claim_registers<Config::kConsumerRegisters>();
    consume<Config>(args, map, CtaWork(args));
  }
}

}  // namespace fp4aot

#endif
