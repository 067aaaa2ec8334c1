// W4A4 on bf16 tensor cores (sm_90a): both operands are dequantised exactly to bf16 inside the kernel.
//
// A tile is 256 weight rows x kTokens activation rows, so D is computed transposed: weights are the 64-row operand of
// wgmma and come from registers, activations are its n operand and come from shared memory. A warpgroup of producers
// (its first thread also starts all bulk copies) dequantises activations into swizzled shared memory; each consumer
// warpgroup dequantises its own weight rows straight into operand registers while its previous products run.
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
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "kernels/gemm/dequant.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/wgmma_layout.cuh"

namespace fp4aot {

// Position in a ring of kSize slots and the parity of its current pass.
template <int kSize>
struct RingPosition {
  int slot = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot == kSize) {
      slot = 0;
      parity ^= 1;
    }
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

// Which tiles and steps a CTA works on.
struct CtaWork {
  int first_tile, tile_stride;
  int step_begin, step_end;

  __device__ __forceinline__ explicit CtaWork(WgmmaGemmArgs const& args) {
    uint32_t const splits = static_cast<uint32_t>(args.splits);
    uint32_t const rank = blockIdx.x % splits;
    first_tile = blockIdx.x / splits;
    tile_stride = gridDim.x / splits;
    step_begin = static_cast<int>(rank * static_cast<uint64_t>(args.steps) / splits);
    step_end = static_cast<int>((rank + 1) * static_cast<uint64_t>(args.steps) / splits);
  }
};

template <class Config>
struct SharedMap {
  uint32_t base;

  __device__ __forceinline__ uint32_t unit(int slot) const { return base + Config::kUnitOffset + slot * Config::kUnitBytes; }
  __device__ __forceinline__ uint32_t tokens(int slot) const { return base + Config::kTokenOffset + slot * Config::kTokenBytes; }
  __device__ __forceinline__ uint32_t weights(int slot) const { return base + Config::kWeightOffset + slot * Config::kWeightBytes; }
  __device__ __forceinline__ uint32_t token_scales(int slot) const {
    return base + Config::kTokenScaleOffset + slot * Config::kAtomBytes;
  }
  __device__ __forceinline__ uint32_t weight_scales(int slot) const {
    return base + Config::kWeightScaleOffset + slot * 2 * Config::kAtomBytes;
  }
  __device__ __forceinline__ uint32_t raw_full(int slot) const { return base + Config::kBarrierOffset + slot * 8; }
  __device__ __forceinline__ uint32_t raw_empty(int slot) const { return raw_full(slot) + Config::kRawStages * 8; }
  __device__ __forceinline__ uint32_t unit_full(int slot) const {
    return base + Config::kBarrierOffset + (2 * Config::kRawStages + slot) * 8;
  }
  __device__ __forceinline__ uint32_t unit_empty(int slot) const { return unit_full(slot) + Config::kUnits * 8; }
};

__device__ __forceinline__ uint4 shared_load16(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ uint2 shared_load8(uint32_t address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ uint32_t shared_load4(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ void shared_store16(uint32_t address, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
__device__ __forceinline__ uint32_t shared_load2(uint32_t address) {
  uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ uint32_t shared_load1(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

// All threads of the CTA, from different branches.
template <int kThreads>
__device__ __forceinline__ void cta_sync() {
  __syncwarp();
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

// Byte of (row, 0) within a scale atom of 128 rows.
__device__ __forceinline__ uint32_t atom_row(int row) { return row % 32 * 16 + row / 32 * 4; }

// Producers -----------------------------------------------------------------------------------------------------

// The bulk copies of a CTA, step by step through all of its tiles; one thread.
template <class Config>
class Loader {
 public:
  __device__ __forceinline__ Loader(WgmmaGemmArgs const& args, SharedMap<Config> map, CtaWork work)
      : args_(args), map_(map), work_(work), tile_(work.first_tile), step_(work.step_begin) {
    if (tile_ < args_.tiles) position_ = tile_position<Config>(args_, tile_);
    atoms_ = static_cast<int>(round_up(args_.k / kVector<Config::kFormat>, kScaleAtomColumns)) / kScaleAtomColumns;
  }

  // Starts the next step's copies, if one is left. Waits until the slot is free.
  __device__ __forceinline__ void next() {
    if (tile_ >= args_.tiles) return;
    int const slot = ring_.slot;
    mbarrier_wait(map_.raw_empty(slot), ring_.parity ^ 1);
    uint32_t const full = map_.raw_full(slot);
    int const first_atom = step_ * Config::kAtoms;
    // The last step may have fewer atoms; what is left in the slot beyond them is masked by its k.
    uint32_t const scale_bytes = min(Config::kAtoms, atoms_ - first_atom) * kScaleAtomBytes;
    bool const both = position_.n0 + kScaleAtomRows < args_.n;
    mbarrier_arrive_expect(full, Config::kWeightBytes + Config::kTokenBytes + scale_bytes * (both ? 3 : 2));
    int const column = step_ * Config::kStepBytes;
    tma_load_2d(map_.weights(slot), &args_.b_codes, column, position_.n0, full);
    tma_load_2d(map_.tokens(slot), &args_.a_codes, column, position_.m0, full);
    bulk_load(map_.weight_scales(slot), scales(args_.b_scales, position_.n0, first_atom), scale_bytes, full);
    if (both) {
      bulk_load(map_.weight_scales(slot) + Config::kAtomBytes,
                scales(args_.b_scales, position_.n0 + kScaleAtomRows, first_atom), scale_bytes, full);
    }
    bulk_load(map_.token_scales(slot), scales(args_.a_scales, position_.m0, first_atom), scale_bytes, full);
    ring_.advance();
    if (++step_ == work_.step_end) {
      step_ = work_.step_begin;
      tile_ += work_.tile_stride;
      if (tile_ < args_.tiles) position_ = tile_position<Config>(args_, tile_);
    }
  }

 private:
  __device__ __forceinline__ uint8_t const* scales(uint8_t const* base, int row, int atom) const {
    return base + (int64_t{row / kScaleAtomRows} * atoms_ + atom) * kScaleAtomBytes;
  }

  WgmmaGemmArgs const& args_;
  SharedMap<Config> map_;
  CtaWork work_;
  int tile_;
  int step_;
  int atoms_;
  TilePosition position_{};
  RingPosition<Config::kRawStages> ring_;
};

// How the 128 producer threads share a step's activations: a thread takes kWords of the 4 words of each 16 bytes of a row.
// A unit (two words of each) is written by kWarps whole warps.
template <int kTokens>
struct ProducerShare {
  static constexpr bool kBothUnits = kTokens == 128;  // a thread does a whole row, else a part of one unit
  static constexpr int kWords = kTokens >= 64 ? 2 : 1;
  static constexpr int kThreads = kTokens * 2 / kWords;  // of a unit
  static constexpr int kWarps = kThreads < 32 ? 1 : kThreads / 32;
};

template <class Config>
__device__ __forceinline__ void produce(WgmmaGemmArgs const& args, SharedMap<Config> map, CtaWork work, Loader<Config>& loader) {
  using Share = ProducerShare<Config::kTokens>;
  int const thread = threadIdx.x;
  int const lane = thread % 32;
  // Place of this thread: `unit` of the step, row, first word within the unit.
  int const unit = Share::kBothUnits ? 0 : thread / 32 / Share::kWarps;
  int const within = Share::kBothUnits ? thread : thread - unit * Share::kWarps * 32;
  int const row = within % Config::kTokens;
  int const word = within / Config::kTokens;  // 0 if kWords == 2
  bool const working = unit < 2 && within < Share::kThreads;
  uint32_t const code_row = row * Config::kStepBytes;
  uint32_t const code_swizzle = (row >> 1 & 3) << 4;
  uint32_t const out_row = row * 128;
  uint32_t const out_swizzle = (row & 7) << 4;

  RingPosition<Config::kRawStages> raw;
  RingPosition<Config::kUnits> ring;
  for (int tile = work.first_tile; tile < args.tiles; tile += work.tile_stride) {
    int const scale_row = tile_position<Config>(args, tile).m0 % kScaleAtomRows + row;
    for (int step = work.step_begin; step < work.step_end; ++step) {
      if (thread == 0) loader.next();
      __syncwarp();
      mbarrier_wait(map.raw_full(raw.slot), raw.parity);
      // Words [i][w]: word w of this thread's share of the 16 bytes i of its row.
      constexpr int kLoaded = Share::kBothUnits ? 4 : Share::kWords;
      uint32_t words[4][kLoaded];
      uint32_t scales[4];
      if (working) {
        uint32_t const codes = map.tokens(raw.slot) + code_row + (Share::kBothUnits ? 0 : unit * 8 + word * 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          uint32_t const address = codes + ((i << 4) ^ code_swizzle);
          if constexpr (kLoaded == 4) {
            uint4 const v = shared_load16(address);
            words[i][0] = v.x, words[i][1] = v.y, words[i][2] = v.z, words[i][3] = v.w;
          } else if constexpr (kLoaded == 2) {
            uint2 const v = shared_load8(address);
            words[i][0] = v.x, words[i][1] = v.y;
          } else {
            words[i][0] = shared_load4(address);
          }
        }
        uint32_t const scale_address = map.token_scales(raw.slot) + atom_row(scale_row);
        if constexpr (Config::kFormat == Format::kNvfp4) {
          uint32_t const low = shared_load4(scale_address), high = shared_load4(scale_address + kScaleAtomBytes);
          scales[0] = low, scales[1] = low >> 16, scales[2] = high, scales[3] = high >> 16;
        } else {
          uint32_t const all = shared_load4(scale_address);
#pragma unroll
          for (int i = 0; i < 4; ++i) scales[i] = all >> 8 * i;
        }
        int const rest = args.k - step * Config::kStepValues;  // scales beyond k may be anything
#pragma unroll
        for (int i = 0; i < 4; ++i) scales[i] = 32 * i < rest ? scales[i] : 0;
      }
      __syncwarp();
      if (lane == 0) mbarrier_arrive(map.raw_empty(raw.slot));
      raw.advance();

      BlockFactors<Config::kFormat> factors[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) factors[i] = BlockFactors<Config::kFormat>(scales[i]);
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        if (Share::kBothUnits || u == unit) {
          mbarrier_wait(map.unit_empty(ring.slot), ring.parity ^ 1);
          if (working) {
            uint32_t const out = map.unit(ring.slot) + out_row;
#pragma unroll
            for (int w = 0; w < Share::kWords; ++w) {
              uint32_t pairs[4][4];
#pragma unroll
              for (int i = 0; i < 4; ++i) {
                dequantize_word<Config::kFormat>(words[i][Share::kBothUnits ? 2 * u + w : w], factors[i], 2 * u, pairs[i]);
              }
#pragma unroll
              for (int c = 0; c < 4; ++c) {
                uint32_t const chunk = 4 * (Share::kWords == 2 ? w : word) + c;
                shared_store16(out + ((chunk << 4) ^ out_swizzle), pairs[0][c], pairs[1][c], pairs[2][c], pairs[3][c]);
              }
            }
            fence_async_shared();
          }
          __syncwarp();
          if (lane == 0) mbarrier_arrive(map.unit_full(ring.slot));
        }
        ring.advance();
      }
    }
  }
}

// Consumers -----------------------------------------------------------------------------------------------------

// Where a consumer thread's weight rows and accumulators lie.
//   slot = 2 * (64-row block) + h: the thread's row 16w + g + 8h of that block.
//   The tile's weight row behind it is first + (slot ^ swap). A thread's rows are neighbours, so that it stores neighbouring columns
//   of D; odd g swap pairs of rows, so that the 64-byte rows a quarter warp reads alternate between the halves of the banks.
template <class Config>
struct ConsumerPlace {
  static constexpr int kSlots = 2 * Config::kRowBlocks;
  int t, swap, first;
  uint32_t codes[2], scales[2];  // from the start of a raw slot: what the thread reads for slots 0 and 1

  __device__ __forceinline__ ConsumerPlace() {
    int const warp = threadIdx.x / 32 - 4;
    int const lane = threadIdx.x % 32;
    t = lane % 4;
    swap = lane / 4 & 1;
    first = warp * 16 * Config::kRowBlocks + lane / 4 * kSlots;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int const row = first + (i ^ swap);
      codes[i] = row * Config::kStepBytes + t * 16;
      scales[i] = row / kScaleAtomRows * Config::kAtomBytes + atom_row(row % kScaleAtomRows) +
                  (Config::kFormat == Format::kNvfp4 ? t / 2 * kScaleAtomBytes + t % 2 * 2 : t);
    }
  }
  // Slots 2 and 3 are two rows further: `first` is a multiple of 4 then, so they share its place in a scale atom.
  __device__ __forceinline__ uint32_t code_offset(int slot) const { return codes[slot % 2] + slot / 2 * 2 * Config::kStepBytes; }
  __device__ __forceinline__ uint32_t scale_offset(int slot) const { return scales[slot % 2] + slot / 2 * 2 * 16; }
};

// sum: the tile's result. accumulator: the same array unless Config::kPromote.
template <class Config, int kCount>
__device__ __forceinline__ void multiply_tile(WgmmaGemmArgs const& args, SharedMap<Config> map, CtaWork work,
                                              ConsumerPlace<Config> place, RingPosition<Config::kRawStages>& raw,
                                              RingPosition<Config::kUnits>& ring,
                                              float (&accumulator)[Config::kRowBlocks][kCount],
                                              float (&sum)[Config::kRowBlocks][kCount]) {
  constexpr int kBlocks = Config::kRowBlocks, kSlots = 2 * kBlocks;
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
    mbarrier_wait(map.raw_full(raw.slot), raw.parity);
    uint4 codes[kSlots];
    uint32_t scales[kSlots];
    bool const inside = 32 * place.t < args.k - step * Config::kStepValues;  // scales beyond k may be anything
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      codes[s] = shared_load16(map.weights(raw.slot) + place.code_offset(s));
      uint32_t const address = map.weight_scales(raw.slot) + place.scale_offset(s);
      scales[s] = Config::kFormat == Format::kNvfp4 ? shared_load2(address) : shared_load1(address);
      scales[s] = inside ? scales[s] : 0;
    }
    __syncwarp();
    if (lane == 0) mbarrier_arrive(map.raw_empty(raw.slot));
    raw.advance();
    BlockFactors<Config::kFormat> factors[kSlots];
#pragma unroll
    for (int s = 0; s < kSlots; ++s) factors[s] = BlockFactors<Config::kFormat>(scales[s]);
    uint32_t operand[2][2][kBlocks][4];  // [word parity][half of the word][64-row block]
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      // The buffer operand[q % 2] is free: the products of word q - 2 have been waited for.
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        uint32_t const word = q == 0 ? codes[s].x : q == 1 ? codes[s].y : q == 2 ? codes[s].z : codes[s].w;
        uint32_t pairs[4];
        dequantize_word<Config::kFormat>(word, factors[s], q, pairs);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          operand[q % 2][j][s / 2][s % 2] = pairs[2 * j];
          operand[q % 2][j][s / 2][s % 2 + 2] = pairs[2 * j + 1];
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
      if (step + 1 == work.step_end || (step - work.step_begin) % Config::kPromoteSteps == Config::kPromoteSteps - 1) {
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

template <class Config>
__device__ __forceinline__ void consume(WgmmaGemmArgs const& args, SharedMap<Config> map, CtaWork work) {
  constexpr int kBlocks = Config::kRowBlocks, kSlots = 2 * kBlocks;
  ConsumerPlace<Config> const place;
  RingPosition<Config::kRawStages> raw;
  RingPosition<Config::kUnits> ring;
  for (int tile = work.first_tile; tile < args.tiles; tile += work.tile_stride) {
    float sum[kBlocks][Config::kTokens / 2];
    if constexpr (Config::kPromote) {
      float accumulator[kBlocks][Config::kTokens / 2];
      multiply_tile<Config>(args, map, work, place, raw, ring, accumulator, sum);
    } else {
      multiply_tile<Config>(args, map, work, place, raw, ring, sum, sum);
    }
    TilePosition const position = tile_position<Config>(args, tile);
    // Calls visit(row of the tile, v) for each of this thread's rows of D, v: its kSlots neighbouring columns.
    auto for_each_row = [&](auto visit) {
#pragma unroll
      for (int i = 0; i < Config::kTokens / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float v[kSlots];
#pragma unroll
          for (int s = 0; s < kSlots; ++s) {
            float const own = sum[s / 2][4 * i + 2 * (s % 2) + e], other = sum[s / 2][4 * i + 2 * (1 - s % 2) + e];
            v[s] = place.swap ? other : own;
          }
          visit(8 * i + 2 * place.t + e, v);
        }
      }
    };
    if (args.splits == 1) {
      int const column = position.n0 + place.first;
      if (column < args.n) {
        store_rows<kSlots>(args, BlockFactors<Config::kFormat>::kUnshift, position.m0, column, for_each_row);
      }
      continue;
    }
    // The rings are idle: this is the CTA's only tile, all its copies have arrived and, after the barrier, been read.
    cta_sync<Config::kThreads>();
    int const rows = min(Config::kTokens, args.m - position.m0);
    for_each_row([&](int row, float const(&v)[kSlots]) {
      if (row < rows) {
        uint32_t const address = map.base + (row * Config::kPartialPitch + place.first) * 4;
        if constexpr (kSlots == 4) {
          asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
                       : "memory");
        } else {
          asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(v[0]), "f"(v[1]) : "memory");
        }
      }
    });
    cluster_sync();
    reduce_partials<Config>(args, map.base, position.m0, position.n0, rows, blockIdx.x % static_cast<uint32_t>(args.splits));
    cluster_sync();  // the others may still read this CTA's sums
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1) wgmma_gemm_kernel(__grid_constant__ WgmmaGemmArgs const args) {
  extern __shared__ uint8_t shared[];
  SharedMap<Config> const map{static_cast<uint32_t>(round_up(shared_address(shared), 1024))};
  pdl_launch_dependents();
  if (threadIdx.x == 0) {
    tma_prefetch_map(&args.a_codes);
    tma_prefetch_map(&args.b_codes);
    using Share = ProducerShare<Config::kTokens>;
    for (int i = 0; i < Config::kRawStages; ++i) {
      mbarrier_init(map.raw_full(i), 1);
      mbarrier_init(map.raw_empty(i), 4 + 4 * Config::kConsumers);  // every warp
    }
    for (int i = 0; i < Config::kUnits; ++i) {
      mbarrier_init(map.unit_full(i), Share::kBothUnits ? 4 : Share::kWarps);
      mbarrier_init(map.unit_empty(i), 4 * Config::kConsumers);
    }
    mbarrier_init_fence();
  }
  pdl_wait();
  if (threadIdx.x < 128) {
    CtaWork const work(args);
    Loader<Config> loader(args, map, work);
    if (threadIdx.x == 0) {
      for (int i = 0; i < Config::kRawStages - 1; ++i) loader.next();
    }
    __syncthreads();
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Config::kProducerRegisters));
    produce<Config>(args, map, work, loader);
    if (args.splits > 1) {
      cta_sync<Config::kThreads>();
      cluster_sync();
      cluster_sync();
    }
  } else {
    __syncthreads();
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Config::kConsumerRegisters));
    consume<Config>(args, map, CtaWork(args));
  }
}

}  // namespace fp4aot

#endif
