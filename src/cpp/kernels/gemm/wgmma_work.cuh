// What a CTA of wgmma.cuh works on, in which order, and where its shared memory has what.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_WORK_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_WORK_CUH_

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

}  // namespace fp4aot

#endif
