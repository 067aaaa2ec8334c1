// What becomes of a tile's sums in wgmma.cuh: groups, parts and slices of it are added, and results stored.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_RESULTS_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_RESULTS_CUH_

#include "device/cluster.cuh"
#include "device/global_memory.cuh"
#include "device/mbarrier.cuh"
#include "device/pdl.cuh"
#include "device/shared_memory.cuh"
#include "device/tma.cuh"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/wgmma_work.cuh"

namespace fp4aot {

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

}  // namespace fp4aot

#endif
