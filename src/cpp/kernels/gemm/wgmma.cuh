// Products with FP4 weights on 16-bit tensor cores (sm_90a): weights are dequantised exactly inside the kernel, activations
// come as 16-bit values. Config::Weights says how weights lie in memory and how they become operands: wgmma_weights.cuh
// (W4A4; activations from expand.cuh), kernels/w4a16/wgmma_weights.cuh (W4A16; activations as the caller has them).
//
// A tile is 128 weight rows x kTokens activation rows, so D is computed transposed: weights are the 64-row operand of wgmma
// and come from registers, activations are its n operand and come from shared memory. Three producer threads start all bulk
// copies: activations arrive ready for wgmma, weights as codes and scales, and each of the two consumer warpgroups
// dequantises its own weight rows into operand registers while its previous products run. A step along k is 128 values in
// four words of 32, each two products; activations of a word lie next to each other, in the order that weights need.
//
// Two CTAs with neighbouring weight rows make a cluster: each loads half of the activations' rows for both, but for the
// first steps.
//
// Tiles that are cut along k (TileSchedule): first of all a cluster writes its part of another's tile to the workspace and
// counts it, last of all it adds others' parts to its own. Should they not be there, it writes its own too, and the one that
// finds all others counted adds them, in the same order. Nobody waits for another cluster without end.
//
// Tiles that a cluster shares along k (split = 2): each of two CTAs has half of the steps, sends the sums of half of the
// activation rows to the other's shared memory, and stores the other half.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_CUH_

#include "device/cluster.cuh"
#include "device/global_memory.cuh"
#include "device/mbarrier.cuh"
#include "device/pdl.cuh"
#include "device/ring.cuh"
#include "device/shared_memory.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/wgmma_producers.cuh"
#include "kernels/gemm/wgmma_work.cuh"

namespace fp4aot {

// Where a consumer warpgroup is in the rings, and where a thread of it reads from a slot of weights: of the warpgroup's 64
// weight rows it has the rows 16w + g + 8h of the product, h = 0, 1.
template <class Config>
struct ConsumerRings {
  RingPosition<Config::kWeightStages> raw{};
  RingPosition<Config::kUnits> ring{};
  int skip;  // steps until the warpgroup's next one
  typename Config::Weights::Place place;
  // Of slot 0, in one of the CTAs that share units with this one: each of a warp's first lanes has another.
  uint32_t unit_empty;

  // thread: of the consumers.
  __device__ __forceinline__ ConsumerRings(TileSchedule const& schedule, SharedMap<Config> map, int thread) {
    int const lane = thread % 32, row = thread % (128 * Config::kHalves) / 32 * 16 + lane / 4;
    skip = 0;
    if constexpr (Config::kGroups > 1) {
      skip = thread / (128 * Config::kHalves);
      raw.advance(skip);
      ring.advance(2 * skip);
    }
    place = Config::Weights::place(row, lane);
    unit_empty =
        cluster_address(map.unit_empty(0), slice_rank(schedule) * schedule.pair + (lane & (schedule.pair - 1)));
  }
};

template <class Config>
__device__ __forceinline__ void release_weights(SharedMap<Config> map, ConsumerRings<Config>& rings) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(map.weight_empty(rings.raw.slot));
  rings.raw.advance(Config::kGroups);
}

// Waits for the weights of a step, takes them to registers and frees their slot.
template <class Config>
__device__ __forceinline__ void load_weights(WgmmaGemmArgs const& args, SharedMap<Config> map,
                                             ConsumerRings<Config>& rings, int step,
                                             typename Config::Weights::Step& weights) {
  mbarrier_wait(map.weight_full(rings.raw.slot), rings.raw.parity);
  typename Config::Weights::Pending pending;
  Config::Weights::load(map, rings.raw.slot, rings.place, weights, pending);
  release_weights<Config>(map, rings);
  Config::Weights::complete(args, rings.place, step, pending, weights);
}

// Products of steps begin, begin + kGroups, ... below end of a segment; at least one. weights: of step begin; on return of
// the next step, if the segment goes on so far.
template <class Config, int kCount>
__device__ __forceinline__ void multiply_steps(WgmmaGemmArgs const& args, SharedMap<Config> map, Segment const& segment,
                                               int begin, int end, ConsumerRings<Config>& rings,
                                               typename Config::Weights::Step& weights, float (&accumulator)[kCount]) {
  using Weights = typename Config::Weights;
  constexpr int kWords = Config::kGroupWords;
  int const lane = threadIdx.x % 32;
  int accumulate = 0;
  uint32_t previous_unit = 0;  // read by products that may still run: its empty barrier, 0 for none
  auto release_unit = [&] {
    if (previous_unit != 0 && lane < args.schedule.pair) mbarrier_arrive_cluster(previous_unit);
    previous_unit = 0;
  };
#pragma unroll 1
  for (int step = begin; step < end; step += Config::kGroups) {
    bool const more = step + Config::kGroups < segment.end;
    // With short products, barriers are looked at and the next step's weights are loaded some time before they are needed.
    bool const weights_there = Config::kEarly && mbarrier_test(map.weight_full(rings.raw.slot), rings.raw.parity);
    bool unit_there = false;
    typename Weights::Pending pending;  // of the next step
    uint32_t operand[2][kWords][2][4];  // [group parity][word][half of the word]
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      int const parity = q / kWords % 2, word = q % kWords;
      if (Config::kEarly && q % 2 == 0) unit_there = mbarrier_test(map.unit_full(rings.ring.slot), rings.ring.parity);
      // These registers are free: the products of the group before the previous one have been waited for.
      Weights::dequantize(weights, q, operand[parity][word]);
      if (word != kWords - 1) continue;
      if ((q % 2 == 0 || kWords == 2) && !unit_there) mbarrier_wait(map.unit_full(rings.ring.slot), rings.ring.parity);
      uint32_t const descriptor =
          wgmma_descriptor_swizzle128(map.unit(rings.ring.slot)) + (kWords == 2 ? 0 : q % 2 * 4);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < 2 * kWords; ++i) {
        Weights::multiply(accumulator, operand[parity][i / 2][i % 2], descriptor + 2 * i, accumulate);
        accumulate = 1;
      }
      wgmma_commit();
      if constexpr (!Config::kEarly) {
        if (q == 3 && more) load_weights<Config>(args, map, rings, step + Config::kGroups, weights);
      } else if (q == 1 && more) {  // over those that have been used
        if (!weights_there) mbarrier_wait(map.weight_full(rings.raw.slot), rings.raw.parity);
        Weights::template load_half<0>(map, rings.raw.slot, rings.place, weights, pending);
      } else if (q == 3 && more) {
        Weights::template load_half<1>(map, rings.raw.slot, rings.place, weights, pending);
        release_weights<Config>(map, rings);
        Weights::complete(args, rings.place, step + Config::kGroups, pending, weights);
      }
      wgmma_wait<1>();
      if (q % 2 == 0 || kWords == 2) release_unit();
      if (q % 2 == 1) {
        previous_unit = rings.unit_empty + rings.ring.slot * 8;
        rings.ring.advance(q == 1 ? 1 : 2 * Config::kGroups - 1);
      }
    }
  }
  wgmma_wait<0>();
  wgmma_pin(accumulator);
  release_unit();
}

// A warpgroup's products of a segment.
template <class Config, int kCount>
__device__ __forceinline__ void multiply_segment(WgmmaGemmArgs const& args, SharedMap<Config> map,
                                                 Segment const& segment, ConsumerRings<Config>& rings,
                                                 float (&sum)[kCount]) {
  int const begin = segment.begin + rings.skip;
  if constexpr (Config::kGroups > 1 || Config::kPromote) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] = 0.0f;
  }
  if constexpr (Config::kGroups > 1) {
    int const left = segment.end - begin;  // until the end of the segment
    rings.skip = left <= 0 ? -left : left % Config::kGroups == 0 ? 0 : Config::kGroups - left % Config::kGroups;
    if (left <= 0) return;
  }
  typename Config::Weights::Step weights;
  load_weights<Config>(args, map, rings, begin, weights);
  if constexpr (Config::kPromote) {
    float accumulator[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) accumulator[i] = 0.0f;
    constexpr int kSteps = Config::kPromoteSteps * Config::kGroups;
#pragma unroll 1
    for (int step = begin; step < segment.end; step += kSteps) {
      multiply_steps<Config>(args, map, segment, step, min(step + kSteps, segment.end), rings, weights, accumulator);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum[i] += accumulator[i];
    }
  } else {
    multiply_steps<Config>(args, map, segment, begin, segment.end, rings, weights, sum);
  }
}

// Adds the second group's sums to the first's. True for the first.
template <class Config, int kCount>
__device__ __forceinline__ bool add_groups(SharedMap<Config> map, int half, int group, float (&sum)[kCount]) {
  uint32_t const place = map.sums(half) + threadIdx.x % 128 * 16;
  uint32_t const written = 1 + Config::kHalves + half, read = written + Config::kHalves;  // barriers
  if (group == 1) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      shared_store16(place + i * 512, float_bits(sum[i]), float_bits(sum[i + 1]), float_bits(sum[i + 2]),
                     float_bits(sum[i + 3]));
    }
  }
  barrier_sync<256>(written);
  if (group == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      uint4 const v = shared_load16(place + i * 512);
      sum[i] += bits_float(v.x), sum[i + 1] += bits_float(v.y), sum[i + 2] += bits_float(v.z),
          sum[i + 3] += bits_float(v.w);
    }
  }
  barrier_sync<256>(read);
  return group == 0;
}

// The parts of a shared tile: who has them, and where a consumer's thread has its values of one.
template <class Config>
struct Parts {
  int first, last;     // clusters: the owner, the last one that helps
  uint32_t* counters;  // of the halves

  __device__ __forceinline__ Parts(WgmmaGemmArgs const& args, int tile) : args_(args) {
    TileSchedule const& schedule = args.schedule;
    int const shared_tile = tile - schedule.whole, step = shared_tile * schedule.steps;
    first = args.divisors.cluster_of(schedule, step);
    last = args.divisors.cluster_of(schedule, step + schedule.steps - 1);
    counters = args.counters + (shared_tile * schedule.pair + pair_rank(schedule)) * Config::kHalves;
  }
  __device__ __forceinline__ uint32_t helpers() const { return static_cast<uint32_t>(last - first); }
  __device__ __forceinline__ float* of(int cluster) const {
    return of(cluster, threadIdx.x / 128 - 1, threadIdx.x % 128);
  }
  __device__ __forceinline__ float* of(int cluster, int half, int thread) const {
    int64_t const slot =
        (int64_t{cluster} * args_.schedule.pair + pair_rank(args_.schedule)) * 2 + (cluster == first ? 1 : 0);
    return args_.partials + slot * Config::kPartialFloats + half * (Config::kPartialFloats / Config::kHalves) +
           thread * 4;
  }

 private:
  WgmmaGemmArgs const& args_;
};

template <class Config, int kCount>
__device__ __forceinline__ void store_part(Parts<Config> const& parts, int cluster, float const (&sum)[kCount]) {
  float* const own = parts.of(cluster);
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    global_store_shared4(own + i * 128, sum[i], sum[i + 1], sum[i + 2], sum[i + 3]);
  }
}

// Adds the parts of the clusters that help, one after another. A part is far away: as many loads are under way as there are
// registers for.
template <class Config, int kCount>
__device__ __forceinline__ void add_parts(Parts<Config> const& parts, float (&sum)[kCount]) {
  constexpr int kStages = 4, kLoads = kCount == 64 ? 4 : kCount > 64 ? 2 : 1, kChunks = kCount / 4 / kLoads;
  static_assert(kChunks % kStages == 0);
  float4 v[kStages][kLoads];
  auto const load = [&](float const* part, int chunk) {
#pragma unroll
    for (int j = 0; j < kLoads; ++j) v[chunk % kStages][j] = global_load_shared4(part + (chunk * kLoads + j) * 4 * 128);
  };
  float const* part = parts.of(parts.first + 1);
#pragma unroll
  for (int chunk = 0; chunk < kStages; ++chunk) load(part, chunk);
#pragma unroll 1
  for (int of = parts.first + 1; of <= parts.last; ++of) {
    float const* const next = parts.of(of + 1);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        int const i = (chunk * kLoads + j) * 4;
        float4 const& from_part = v[chunk % kStages][j];
        sum[i] += from_part.x, sum[i + 1] += from_part.y, sum[i + 2] += from_part.z, sum[i + 3] += from_part.w;
      }
      if (chunk + kStages < kChunks) {
        load(part, chunk + kStages);
      } else if (of < parts.last) {
        load(next, chunk + kStages - kChunks);
      }
    }
    part = next;
  }
}

// After the owner's part of a tile: adds the others'. If they are not there for long, stores its own, as others do, and
// leaves the tile to whoever is last: false. Nobody waits for a cluster that may not have begun.
template <class Config, int kCount>
__device__ __forceinline__ bool finish_owned(WgmmaGemmArgs const& args, SharedMap<Config> map, int tile,
                                             float (&sum)[kCount]) {
  constexpr int kLooks = 32;
  int const half = threadIdx.x / 128 - 1;
  bool const counts = threadIdx.x % 128 == 0;
  Parts<Config> const parts(args, tile);
  uint32_t* const counter = parts.counters + half;
  if (counts) {
    pdl_wait();
    shared_store4(map.complete(half), global_reaches(counter, parts.helpers(), kLooks));
  }
  barrier_sync<128>(half + 1);
  if (shared_load4(map.complete(half)) == 0) {
    store_part<Config>(parts, parts.first, sum);
    barrier_sync<128>(half + 1);
    if (counts) shared_store4(map.complete(half), global_count(counter) == parts.helpers());
    barrier_sync<128>(half + 1);
    if (shared_load4(map.complete(half)) == 0) return false;
  }
  if (counts) *counter = 0;  // for the next launch
  add_parts<Config>(parts, sum);
  return true;
}

// Of a tile that two slices of k share: adds the other slice's sums to the half of the activation rows that this one
// stores, and sends it the sums of the others. They come to where results are staged, which has just the room.
template <class Config, int kCount>
__device__ __forceinline__ void exchange_halves(WgmmaGemmArgs const& args, SharedMap<Config> map,
                                                float const (&sum)[kCount], float (&own)[kCount / 2]) {
  constexpr int kKept = kCount / 2;
  static_assert(128 * kKept * 4 == Config::kStagingBytes);
  TileSchedule const& schedule = args.schedule;
  int const half = threadIdx.x / 128 - 1, slice = slice_rank(schedule);
  uint32_t const other = static_cast<uint32_t>((1 - slice) * schedule.pair + pair_rank(schedule));
  uint32_t const place = map.staging(half) + threadIdx.x % 128 * 16, there = cluster_address(place, other),
                 full = cluster_address(map.exchange_full(half), other);
#pragma unroll
  for (int i = 0; i < kKept; i += 4) {
    float v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = slice == 0 ? sum[kKept + i + j] : sum[i + j];
    cluster_store16_async(there + i * 512, v, full);
  }
#pragma unroll
  for (int i = 0; i < kKept; ++i) own[i] = slice == 0 ? sum[i] : sum[kKept + i];
  mbarrier_wait(map.exchange_full(half), 0);
#pragma unroll
  for (int i = 0; i < kKept; i += 4) {
    uint4 const v = shared_load16(place + i * 512);
    own[i] += bits_float(v.x), own[i + 1] += bits_float(v.y), own[i + 2] += bits_float(v.z),
        own[i + 3] += bits_float(v.w);
  }
}

// What a thread stores of D: columns `column` and column + 8.
struct StoredColumns {
  int column;
  float scale, bias[2];

  // n0: of the warpgroup. thread: of it.
  __device__ __forceinline__ StoredColumns(GemmArgs const& args, int n0, int thread, float scale_value)
      : column(n0 + thread / 32 * 16 + thread % 32 / 4), scale(scale_value) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int const c = column + 8 * h;
      bias[h] = args.bias != nullptr && c < args.n ? load_bias(args.bias, args.bias_dtype, c) : 0.0f;
    }
  }
};

// Element by element. sum: as wgmma leaves it, of kCount * 2 activation rows from m0 on.
template <int kCount>
__device__ __forceinline__ void store_elements(GemmArgs const& args, int m0, StoredColumns const& columns,
                                               float const (&sum)[kCount]) {
  int const first_row = m0 + threadIdx.x % 4 * 2, rows = args.m - first_row, left = args.n - columns.column;
  with_output_type(args, [&](auto* d) {
    auto* p = d + first_row * args.d_stride + columns.column;
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (8 * i + e < rows) {
          if (left > 0) convert(columns.scale * sum[4 * i + e] + columns.bias[0], p);
          if (left > 8) convert(columns.scale * sum[4 * i + 2 + e] + columns.bias[1], p + 8);
        }
        p += e == 0 ? args.d_stride : 7 * args.d_stride;
      }
    }
  });
}

// Stores a warpgroup's 64 columns of D. sum: as wgmma leaves it, of kCount * 2 activation rows.
template <class Config, int kCount>
__device__ __forceinline__ void store_tile(WgmmaGemmArgs const& args, SharedMap<Config> map, TilePosition tile,
                                           float alpha, float const (&sum)[kCount]) {
  int const half = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, lane = thread % 32;
  int const n0 = tile.n0 + half * 64;
  if (n0 >= args.n) return;
  StoredColumns const columns(args, n0, thread, alpha * Config::Weights::kUnshift);
  if (args.staged) {
    uint32_t const staging = map.staging(half);
    if (thread == 0) tma_store_wait_read();  // the previous tile's
    barrier_sync<128>(half + 1);
    // Lane 8 * matrix + token gives the address of a token's 8 columns; the matrices are (8 tokens, h).
    uint32_t const token = lane / 16 * 8 + lane % 8, chunk = thread / 32 * 2 + lane / 8 % 2;
    uint32_t const address = staging + token * 128 + ((chunk ^ lane % 8) << 4);
#pragma unroll
    for (int i = 0; i < kCount; i += 8) {
      uint32_t v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        v[j] = pack_pair(args.d_dtype == FP4AOT_BF16, columns.scale * sum[i + 2 * j] + columns.bias[j % 2],
                         columns.scale * sum[i + 2 * j + 1] + columns.bias[j % 2]);
      }
      shared_store_matrices_transposed(address + i / 8 * (16 * 128), v);
    }
    fence_async_shared();
    barrier_sync<128>(half + 1);
    if (thread == 0) {
      tma_store_2d(&args.d_map, n0, tile.m0, staging);
      tma_store_commit();
    }
    return;
  }
  store_elements(args, tile.m0, columns, sum);
}

// A warp of its own counts the sums of the tile that the CTA helps with, which takes long. If the tile's other parts have all
// been counted, it adds them and stores the tile: slowly, but it seldom has to.
template <class Config>
__device__ __forceinline__ void count_helped(WgmmaGemmArgs const& args, SharedMap<Config> map) {
  Segments<Config::kCut> const segments(args);
  if (!segments.helps()) return;
  int const tile = segments.helped_tile(), lane = threadIdx.x % 32;
  Parts<Config> const parts(args, tile);
  mbarrier_wait_patiently(map.part_stored(), 0);
#pragma unroll 1
  for (int half = 0; half < Config::kHalves; ++half) {
    bool complete = false;
    if (lane == 0) {
      complete = global_count(parts.counters + half) == parts.helpers();
      if (complete) parts.counters[half] = 0;
    }
    if (__shfl_sync(~0u, static_cast<int>(complete), 0) == 0) continue;
    __syncwarp();  // what lane 0 has seen is there for all
    TilePosition const position = tile_position<Config>(args, tile);
    int const n0 = position.n0 + half * 64;
    float const scale = args.alpha != nullptr ? *args.alpha * Config::Weights::kUnshift : Config::Weights::kUnshift;
#pragma unroll 1
    for (int thread = lane; thread < 128 && n0 < args.n; thread += 32) {  // of the warpgroup whose sums they are
      StoredColumns const columns(args, n0, thread, scale);
#pragma unroll 1
      for (int row = 0; row < Config::kTokens; row += 8) {
        float sum[4] = {-0.0f, -0.0f, -0.0f, -0.0f};  // changes nothing that is added to it
#pragma unroll 1
        for (int of = parts.first; of <= parts.last; ++of) {
          float4 const v = global_load_shared4(parts.of(of, half, thread) + row / 2 * 128);
          sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
        }
        store_elements(args, position.m0 + row, columns, sum);
      }
    }
  }
}

template <class Config>
__device__ __forceinline__ void consume(WgmmaGemmArgs const& args, SharedMap<Config> map) {
  Work<Config> work(args);
  ConsumerRings<Config> rings(args.schedule, map, threadIdx.x - Config::kProducerThreads);
  // Far away: it comes while products run.
  float const alpha = args.alpha != nullptr ? *args.alpha : 1.0f;
  while (work.more) {
    Segment const segment = work.segment;
    TilePosition tile = work.tile;
    float sum[Config::kTokens / 2];
    multiply_segment<Config>(args, map, segment, rings, sum);
    work.next(args);
    if constexpr (Config::kGroups > 1) {
      int const warpgroup = threadIdx.x / 128 - 1;
      if (!add_groups<Config>(map, warpgroup % Config::kHalves, warpgroup / Config::kHalves, sum)) continue;
    }
    if constexpr (!Config::kCut) {
      if (args.schedule.split > 1) {
        float own[Config::kTokens / 4];
        exchange_halves<Config>(args, map, sum, own);
        tile.m0 += slice_rank(args.schedule) * (Config::kTokens / 2);
        store_tile<Config>(args, map, tile, alpha, own);
        break;  // there is no other tile
      }
    }
    if constexpr (Config::kCut) {
      if (segment.begin > 0) {
        store_part<Config>(Parts<Config>(args, segment.tile), cluster_index(args.schedule), sum);
        __syncwarp();
        if (threadIdx.x % 32 == 0) mbarrier_arrive(map.part_stored());
        continue;
      }
      if (segment.end < args.schedule.steps && !finish_owned<Config>(args, map, segment.tile, sum)) continue;
    }
    store_tile<Config>(args, map, tile, alpha, sum);
  }
  if (threadIdx.x % 128 == 0) tma_store_wait_read();
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1) wgmma_gemm_kernel(__grid_constant__ WgmmaGemmArgs const args) {
  extern __shared__ uint8_t shared[];
  SharedMap<Config> const map{static_cast<uint32_t>(round_up(shared_address(shared), 1024))};
  pdl_launch_dependents();
  if (threadIdx.x == 0) {
    start_units<Config>(args, map);
  } else if (threadIdx.x == 64) {
    start_weights<Config>(args, map);
  }
  cluster_sync();  // the other CTA's copies and arrivals need the barriers
  if (!(Config::kCut && args.after_counters)) pdl_wait();
  if (threadIdx.x < Config::kProducerThreads) {
    release_registers<Config::kProducerRegisters>();
    if (threadIdx.x == 0 || threadIdx.x == 32) {
      produce_units<Config>(args, map, static_cast<int>(threadIdx.x) / 32);
    } else if (threadIdx.x == 64) {
      produce_weights<Config>(args, map);
    } else if (threadIdx.x >= 96) {
      if (threadIdx.x == 96 && args.staged) tma_prefetch_map(&args.d_map);
      if constexpr (Config::kCut) {
        pdl_wait();
        count_helped<Config>(args, map);
      }
    }
  } else {
    claim_registers<Config::kConsumerRegisters>();
    consume<Config>(args, map);
  }
}

}  // namespace fp4aot

#endif
