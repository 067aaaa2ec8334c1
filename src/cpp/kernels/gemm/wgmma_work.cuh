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

// A CTA's segments: the last steps of a tile of which another cluster has the first, its cluster's whole tiles, or its slice
// of them, then whole ones of the shared tiles and the first steps of one.
template <bool kCut>
class Segments {
 public:
  __device__ __forceinline__ explicit Segments(WgmmaGemmArgs const& args)
      : schedule_(args.schedule), tile_(cluster_index(args.schedule)) {
    if constexpr (kCut) {
      int const first = schedule_.range_begin(tile_), tile = args.divisors.steps(first);
      int const begin = first - tile * schedule_.steps;
      left_ = schedule_.range_begin(tile_ + 1) - first;
      part_ = {schedule_.whole + tile, begin, min(begin + left_, schedule_.steps)};
    }
  }

  // Before the first call of `next`: whether it yields a part of a tile that another cluster owns, and which.
  __device__ __forceinline__ bool helps() const { return left_ > 0 && part_.begin > 0; }
  __device__ __forceinline__ int helped_tile() const { return part_.tile; }

  __device__ __forceinline__ bool next(Segment& segment) {
    if constexpr (kCut) {
      if (left_ > 0 && (part_.begin > 0 || tile_ >= schedule_.whole)) {
        segment = part_;
        left_ -= segment.end - segment.begin;
        part_ = {segment.tile + 1, 0, min(left_, schedule_.steps)};
        return true;
      }
    }
    if (tile_ >= schedule_.whole) return false;
    int const slice = slice_rank(schedule_);
    segment = {tile_, schedule_.slice_begin(slice), schedule_.slice_begin(slice + 1)};
    tile_ += schedule_.clusters;
    return true;
  }

 private:
  TileSchedule const& schedule_;
  int tile_;      // the next whole one
  Segment part_;  // the next part of a shared tile
  int left_;      // shared steps
};

struct TilePosition {
  int m0, n0;
};

template <class Config>
__device__ __forceinline__ TilePosition tile_position(WgmmaGemmArgs const& args, int tile) {
  TileSchedule const& schedule = args.schedule;
  TileDivisors const& by = args.divisors;
  int const group = by.group_tiles(tile), first = group * by.group.value;
  int const within = tile - group * by.group_tiles.value;
  bool const last = first + by.group.value > (schedule.along_n ? schedule.n_tiles : schedule.m_tiles);
  Divisor const size = last ? by.last_group : by.group;
  int const line = size(within), place = first + within - line * size.value;
  int const row = schedule.along_n ? line : place, column = schedule.along_n ? place : line;
  return {row * Config::kTokens, (column * schedule.pair + pair_rank(schedule)) * Config::kRows};
}

// Where a CTA is in its work. A tile's position is known before its products: the divisions take long.
template <class Config>
struct Work {
  Segments<Config::kCut> segments;
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
  // Whether the other parts of a half of the tile that the CTA owns are there.
  __device__ __forceinline__ uint32_t complete(uint32_t half) const { return base + Config::kCountOffset + half * 4; }

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
  // The sums of the tile that the CTA helps with are stored.
  __device__ __forceinline__ uint32_t part_stored() const { return exchange_full(Config::kHalves); }
};

}  // namespace fp4aot

#endif
