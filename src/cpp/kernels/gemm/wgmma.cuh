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
// Two CTAs with neighbouring weight rows make a cluster: each loads half of the activations' rows for both, but for the first steps.
//
// Tiles that are cut along k (TileSchedule): every CTA writes its part's sums to the workspace and counts it; the one that
// finds all others counted adds the parts in the order of k, so the result does not depend on who was last. Nobody waits
// for another cluster.
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
#include "kernels/gemm/wgmma_layout.cuh"

namespace fp4aot {

// What a CTA is in its cluster. Sizes are 1 or 2, so that shifts divide by them.
__device__ __forceinline__ int cluster_index(TileSchedule const& s) {
  return static_cast<int>(blockIdx.x) >> (s.pair + s.split - 2);
}
__device__ __forceinline__ int pair_rank(TileSchedule const& s) { return static_cast<int>(blockIdx.x) & (s.pair - 1); }
__device__ __forceinline__ int slice_rank(TileSchedule const& s) {
  return (static_cast<int>(blockIdx.x) >> (s.pair - 1)) & (s.split - 1);
}

// Consecutive steps of one tile.
struct Segment {
  int tile, begin, end;
};

// A CTA's segments: first its cluster's whole tiles, or its slice of them, then the cluster's range of the shared steps.
class Segments {
 public:
  __device__ __forceinline__ explicit Segments(WgmmaGemmArgs const& args)
      : args_(args),
        tile_(cluster_index(args.schedule)),
        step_(args.schedule.range_begin(tile_)),
        end_(args.schedule.range_begin(tile_ + 1)) {}

  __device__ __forceinline__ bool next(Segment& segment) {
    TileSchedule const& schedule = args_.schedule;
    if (tile_ < schedule.whole) {
      int const slice = slice_rank(schedule);
      segment = {tile_, schedule.slice_begin(slice), schedule.slice_begin(slice + 1)};
      tile_ += schedule.clusters;
      return true;
    }
    if (step_ >= end_) return false;
    int const tile = args_.divisors.steps(step_), tile_step = tile * schedule.steps;
    segment = {schedule.whole + tile, step_ - tile_step, min(end_ - tile_step, schedule.steps)};
    step_ = tile_step + segment.end;
    return true;
  }

 private:
  WgmmaGemmArgs const& args_;
  int tile_, step_, end_;
};

struct TilePosition {
  int m0, n0;
};

template <class Config>
__device__ __forceinline__ TilePosition tile_position(WgmmaGemmArgs const& args, int tile) {
  constexpr int kGroup = tile_group(Config::kTokens);
  TileDivisors const& by = args.divisors;
  int const group = by.group_tiles(tile), first_row = group * kGroup;
  int const within = tile - group * by.group_tiles.value;
  bool const whole = first_row + kGroup <= args.schedule.m_tiles;
  int const height = whole ? kGroup : by.last_height.value;
  int const column = whole ? within / kGroup : by.last_height(within);
  int const rank = pair_rank(args.schedule);
  return {(first_row + within - column * height) * Config::kTokens,
          (column * args.schedule.pair + rank) * Config::kRows};
}

// Where a CTA is in its work. A tile's position is known before its products: the divisions take long.
template <class Config>
struct Work {
  Segments segments;
  Segment segment;
  TilePosition tile;
  bool more;  // whether there is a segment

  __device__ __forceinline__ explicit Work(WgmmaGemmArgs const& args) : segments(args) { next(args); }
  __device__ __forceinline__ void next(WgmmaGemmArgs const& args) {
    more = segments.next(segment);
    if (more) tile = tile_position<Config>(args, segment.tile);
  }
};

// Shared addresses.
template <class Config>
struct SharedMap {
  uint32_t base;

  __device__ __forceinline__ uint32_t unit(uint32_t slot) const {
    return base + Config::kUnitOffset + slot * Config::kUnitBytes;
  }
  __device__ __forceinline__ uint32_t staging(uint32_t half) const {
    return base + Config::kStagingOffset + half * Config::kStagingBytes;
  }
  __device__ __forceinline__ uint32_t weights(uint32_t slot) const {
    return base + Config::kWeightOffset + slot * Config::kWeightBytes;
  }
  __device__ __forceinline__ uint32_t weight_scales(uint32_t slot) const {
    return base + Config::kWeightScaleOffset + slot * Config::kWeightScaleBytes;
  }
  __device__ __forceinline__ uint32_t sums(uint32_t half) const {
    return base + Config::kSumOffset + half * Config::kSumBytes;
  }
  __device__ __forceinline__ uint32_t count(uint32_t half) const { return base + Config::kCountOffset + half * 4; }

  // Barriers. Full ones complete by the bytes of copies, empty ones by an arrival of every warp that is done.
  __device__ __forceinline__ uint32_t unit_full(uint32_t slot) const {
    return base + Config::kBarrierOffset + slot * 8;
  }
  __device__ __forceinline__ uint32_t unit_empty(uint32_t slot) const { return unit_full(Config::kUnits + slot); }
  __device__ __forceinline__ uint32_t weight_full(uint32_t slot) const { return unit_full(2 * Config::kUnits + slot); }
  __device__ __forceinline__ uint32_t weight_empty(uint32_t slot) const {
    return weight_full(Config::kWeightStages + slot);
  }
  // Of a half's sums from the other slice.
  __device__ __forceinline__ uint32_t exchange_full(uint32_t half) const {
    return weight_full(2 * Config::kWeightStages + half);
  }
};

// Producer ------------------------------------------------------------------------------------------------------

template <class Config>
__device__ __forceinline__ void copy_weights(WgmmaGemmArgs const& args, SharedMap<Config> map, uint32_t slot, int step,
                                             int n0) {
  uint32_t const full = map.weight_full(slot);
  mbarrier_arrive_expect(full, Config::kWeightBytes + Config::kWeightScaleBytes);
  Config::Weights::load_step(args, step, n0, map, slot, full);
}

// Producers do not fill their rings at once: all CTAs start together, and what none needs yet would come between what all
// wait for. They copy so many steps, and more when the first has come.
constexpr int kFirstSteps = 2;

// The first copies: before the cluster's barrier, so that only a CTA's own barriers count and it copies all of its
// activations itself. Code that runs once waits for its own instructions and arguments, so this comes first of all and is
// short: between two threads.
template <class Config>
__device__ __forceinline__ void start_weights(WgmmaGemmArgs const& args, SharedMap<Config> map) {
  Config::Weights::prefetch_maps(args);
#pragma unroll
  for (int i = 0; i < Config::kWeightStages; ++i) {
    mbarrier_init(map.weight_full(i), 1);
    mbarrier_init(map.weight_empty(i), 4 * Config::kHalves);
  }
  mbarrier_init_fence();
  Work<Config> const work(args);
  if (!work.more) return;
  int const first = work.segment.begin, end = work.segment.end;
  if (args.pdl) {  // to L2, before the kernels before this one are known to have ended: no value is used
#pragma unroll 1
    for (int step = first; step < min(first + Config::kWeightStages, end); ++step)
      Config::Weights::prefetch_step(args, step, work.tile.n0);
  }
  pdl_wait();
#pragma unroll 1
  for (int i = 0; i < min(kFirstSteps, end - first); ++i) copy_weights<Config>(args, map, i, first + i, work.tile.n0);
}

template <class Config>
__device__ __forceinline__ void start_units(WgmmaGemmArgs const& args, SharedMap<Config> map) {
  tma_prefetch_map(&args.a_map);
#pragma unroll
  for (int i = 0; i < Config::kUnits; ++i) {
    mbarrier_init(map.unit_full(i), 1);
    mbarrier_init(map.unit_empty(i), 4 * Config::kHalves * args.schedule.pair);
  }
#pragma unroll
  for (int half = 0; half < Config::kHalves; ++half) {
    mbarrier_init(map.exchange_full(half), 1);
    if (args.schedule.split > 1) mbarrier_arrive_expect(map.exchange_full(half), Config::kStagingBytes);
  }
  mbarrier_init_fence();
  Work<Config> const work(args);
  if (!work.more) return;
  pdl_wait();
  int const first = work.segment.begin, rows = Config::kTokens / args.schedule.pair;  // rows: of a copy
#pragma unroll 1
  for (int unit = 0; unit < 2 * min(kFirstSteps, work.segment.end - first); ++unit) {
    uint32_t const full = map.unit_full(unit);
    mbarrier_arrive_expect(full, Config::kUnitBytes);
#pragma unroll 1
    for (int row = 0; row < Config::kTokens; row += rows) {
      tma_load_2d(map.unit(unit) + row * 128, &args.a_map, first * Config::kStepValues + unit * 64, work.tile.m0 + row,
                  full);
    }
  }
}

// Weights. One thread.
template <class Config>
__device__ __forceinline__ void produce_weights(WgmmaGemmArgs const& args, SharedMap<Config> map) {
  Work<Config> work(args);
  RingPosition<Config::kWeightStages> raw{};
  int first = work.segment.begin + kFirstSteps;
  if (work.more) {
    raw.advance(min(kFirstSteps, work.segment.end - work.segment.begin));
    mbarrier_wait_patiently(map.weight_full(0), 0);
  }
  for (; work.more; work.next(args), first = work.segment.begin) {
#pragma unroll 1
    for (int step = first; step < work.segment.end; ++step) {
      mbarrier_wait_patiently(map.weight_empty(raw.slot), raw.parity ^ 1);
      copy_weights<Config>(args, map, raw.slot, step, work.tile.n0);
      raw.advance();
    }
  }
}

// Activations: unit `half` of every step. One thread: starting a copy takes long enough that one for all would be late.
template <class Config>
__device__ __forceinline__ void produce_units(WgmmaGemmArgs const& args, SharedMap<Config> map, int half) {
  Work<Config> work(args);
  RingPosition<Config::kUnits> ring{};
  ring.advance(half);
  int const rank = pair_rank(args.schedule), first_token = rank * (Config::kTokens / 2);
  int first = work.segment.begin + kFirstSteps;
  if (work.more) {
    ring.advance(2 * min(kFirstSteps, work.segment.end - work.segment.begin));
    mbarrier_wait_patiently(map.unit_full(half), 0);
  }
  for (; work.more; work.next(args), first = work.segment.begin) {
    int const m0 = work.tile.m0;
#pragma unroll 1
    for (int step = first; step < work.segment.end; ++step) {
      mbarrier_wait_patiently(map.unit_empty(ring.slot), ring.parity ^ 1);  // both CTAs' consumers have left the slot
      uint32_t const full = map.unit_full(ring.slot);
      mbarrier_arrive_expect(full, Config::kUnitBytes);
      int const column = step * Config::kStepValues + half * 64;
      if (args.schedule.pair == 1) {
        tma_load_2d(map.unit(ring.slot), &args.a_map, column, m0, full);
      } else {
        uint32_t const ctas = 3u << 2 * slice_rank(args.schedule);
        tma_load_2d_multicast(map.unit(ring.slot) + first_token * 128, &args.a_map, column, m0 + first_token, full,
                              ctas);
      }
      ring.advance(2);
    }
  }
}

// Consumers -----------------------------------------------------------------------------------------------------

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

// After a part of a shared tile: true if this warpgroup is the one to store the tile, whose sums it then has.
template <class Config, int kCount>
__device__ __forceinline__ bool add_parts(WgmmaGemmArgs const& args, SharedMap<Config> map, int tile,
                                          float (&sum)[kCount]) {
  TileSchedule const& schedule = args.schedule;
  int const shared_tile = tile - schedule.whole, cluster = cluster_index(schedule), rank = pair_rank(schedule);
  int const half = threadIdx.x / 128 - 1, thread = threadIdx.x % 128;
  int const first_step = shared_tile * schedule.steps;
  int const first = schedule.cluster_of(first_step), last = schedule.cluster_of(first_step + schedule.steps - 1);
  // A cluster's range begins inside of at most one tile and ends inside of at most one other.
  auto const part = [&](int of) {
    int64_t const slot = (int64_t{of} * args.schedule.pair + rank) * 2 + (of == first ? 1 : 0);
    return args.partials + slot * Config::kPartialFloats + half * (Config::kPartialFloats / Config::kHalves) +
           thread * 4;
  };
  float* const own = part(cluster);
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    global_store_shared4(own + i * 128, sum[i], sum[i + 1], sum[i + 2], sum[i + 3]);
  }
  barrier_sync<128>(half + 1);
  if (thread == 0) {
    uint32_t* const counter = args.counters + (shared_tile * args.schedule.pair + rank) * Config::kHalves + half;
    bool const complete = global_count(counter) == static_cast<uint32_t>(last - first);
    if (complete) *counter = 0;  // for the next launch
    shared_store4(map.count(half), complete);
  }
  barrier_sync<128>(half + 1);
  if (shared_load4(map.count(half)) == 0) return false;
  // Many loads at once: a part is far away, and there are few.
  constexpr int kValues = Config::kGroups == 1 ? 32 : 16, kParts = 2;
#pragma unroll
  for (int i = 0; i < kCount; i += kValues) {
    float total[kValues] = {};
#pragma unroll 1
    for (int of = first; of <= last; of += kParts) {
      float4 v[kParts][kValues / 4] = {};
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        if (of + p > last) break;
        float const* const from = part(of + p) + i * 128;
#pragma unroll
        for (int j = 0; j < kValues / 4; ++j) v[p][j] = global_load_shared4(from + j * 4 * 128);
      }
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
#pragma unroll
        for (int j = 0; j < kValues / 4; ++j) {
          total[4 * j] += v[p][j].x, total[4 * j + 1] += v[p][j].y;
          total[4 * j + 2] += v[p][j].z, total[4 * j + 3] += v[p][j].w;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kValues; ++j) sum[i + j] = total[j];
  }
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

// Stores a warpgroup's 64 columns of D. sum: as wgmma leaves it, of kCount * 2 activation rows.
template <class Config, int kCount>
__device__ __forceinline__ void store_tile(WgmmaGemmArgs const& args, SharedMap<Config> map, TilePosition tile,
                                           float alpha, float const (&sum)[kCount]) {
  int const half = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, lane = thread % 32;
  int const n0 = tile.n0 + half * 64;
  if (n0 >= args.n) return;
  int const column = n0 + thread / 32 * 16 + lane / 4;  // and column + 8
  constexpr float kUnshift = Config::Weights::kUnshift;
  float const scale = alpha * kUnshift;
  float bias[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    int const c = column + 8 * h;
    bias[h] = args.bias != nullptr && c < args.n ? load_bias(args.bias, args.bias_dtype, c) : 0.0f;
  }
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
        v[j] = pack_pair(args.d_dtype == FP4AOT_BF16, scale * sum[i + 2 * j] + bias[j % 2],
                         scale * sum[i + 2 * j + 1] + bias[j % 2]);
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
  int const first_row = tile.m0 + lane % 4 * 2, rows = args.m - first_row, columns = args.n - column;
  with_output_type(args, [&](auto* d) {
    auto* p = d + first_row * args.d_stride + column;
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (8 * i + e < rows) {
          if (columns > 0) convert(scale * sum[4 * i + e] + bias[0], p);
          if (columns > 8) convert(scale * sum[4 * i + 2 + e] + bias[1], p + 8);
        }
        p += e == 0 ? args.d_stride : 7 * args.d_stride;
      }
    }
  });
}

// Arrives at the cluster's last barrier when the other CTAs' barriers need nothing more from this thread.
template <class Config>
__device__ __forceinline__ void consume(WgmmaGemmArgs const& args, SharedMap<Config> map) {
  Work<Config> work(args);
  ConsumerRings<Config> rings(args.schedule, map, threadIdx.x - Config::kProducerThreads);
  // Far away: it comes while products run.
  float const alpha = args.alpha != nullptr ? *args.alpha : 1.0f;
  if (!work.more) cluster_arrive();
  while (work.more) {
    Segment const segment = work.segment;
    TilePosition tile = work.tile;
    float sum[Config::kTokens / 2];
    multiply_segment<Config>(args, map, segment, rings, sum);
    work.next(args);
    if (!work.more) cluster_arrive();
    if constexpr (Config::kGroups > 1) {
      int const warpgroup = threadIdx.x / 128 - 1;
      if (!add_groups<Config>(map, warpgroup % Config::kHalves, warpgroup / Config::kHalves, sum)) continue;
    }
    if (args.schedule.split > 1) {
      float own[Config::kTokens / 4];
      exchange_halves<Config>(args, map, sum, own);
      tile.m0 += slice_rank(args.schedule) * (Config::kTokens / 2);
      store_tile<Config>(args, map, tile, alpha, own);
      break;  // there is no other tile
    }
    if (segment.end - segment.begin < args.schedule.steps && !add_parts<Config>(args, map, segment.tile, sum)) continue;
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
  pdl_wait();
  if (threadIdx.x < Config::kProducerThreads) {
    release_registers<Config::kProducerRegisters>();
    if (threadIdx.x == 0 || threadIdx.x == 32) {
      produce_units<Config>(args, map, static_cast<int>(threadIdx.x) / 32);
    } else if (threadIdx.x == 64) {
      produce_weights<Config>(args, map);
    } else if (threadIdx.x == 96 && args.staged) {
      tma_prefetch_map(&args.d_map);
    }
    cluster_arrive();
  } else {
    claim_registers<Config::kConsumerRegisters>();
    consume<Config>(args, map);
  }
  cluster_wait();  // the other CTA's copies and arrivals come here until it is done
}

}  // namespace fp4aot

#endif
