// The threads of wgmma.cuh that start copies: one for weights, two for activations.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_PRODUCERS_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_PRODUCERS_CUH_

#include "device/mbarrier.cuh"
#include "device/pdl.cuh"
#include "device/ring.cuh"
#include "device/tma.cuh"
#include "kernels/gemm/wgmma_work.cuh"

namespace fp4aot {

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
  if (args.pdl &&
      !args.after_counters) {  // to L2, before the kernels before this one are known to have ended: no value is used
#pragma unroll 1
    for (int step = first; step < min(first + Config::kWeightStages, end); ++step)
      Config::Weights::prefetch_step(args, step, work.tile.n0);
  }
  if (!(Config::kCut && args.after_counters)) pdl_wait();
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
  if constexpr (Config::kCut) mbarrier_init(map.part_stored(), 4 * Config::kHalves);
  mbarrier_init_fence();
  Work<Config> const work(args);
  if (!work.more) return;
  if (!(Config::kCut && args.after_counters)) pdl_wait();
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
    // Of its first step the unit whose slot this thread fills again: it cannot miss the phase, however late it is.
    mbarrier_wait_patiently(map.unit_full(half ^ Config::kUnits % 2), 0);
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
  // The other CTA's consumers leave slots here too: this CTA's shared memory stays until they have left all. Nothing else
  // comes from there that nobody waits for.
#pragma unroll 1
  for (int unit = half; unit < Config::kUnits; unit += 2) {
    uint32_t const empty = map.unit_empty(ring.slot);
    mbarrier_wait_patiently(empty, ring.parity ^ 1);
    ring.advance(2);
  }
}

}  // namespace fp4aot

#endif
