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
#include "device/mbarrier.cuh"
#include "device/pdl.cuh"
#include "device/ring.cuh"
#include "device/shared_memory.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "kernels/gemm/wgmma_producers.cuh"
#include "kernels/gemm/wgmma_results.cuh"
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
