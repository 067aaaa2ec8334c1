// W4A4 for few activation rows as wgmma_stream.cuh, with no multiprocessor idle: the steps along k of all tiles are cut into as
// many equal ranges as there are CTAs (stream_schedule.h).
//
// CTAs that share a tile put their sums into memory, warp by warp: who counts to all of them adds them up, always in one order.
// So nobody waits for another CTA.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_STREAM_CUT_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_STREAM_CUT_CUH_

#include "device/global_memory.cuh"
#include "kernels/gemm/wgmma_stream.cuh"

namespace fp4aot {

struct WgmmaStreamCutArgs : StreamArgs {
  StreamSchedule schedule;
  Divisor rounds, range, token_blocks;  // of the schedule
  float* partials;                      // [CTA][first or last][warp][kShare][lane] x 4
  uint32_t* counters;                   // of parts: [tile][warp]; zero
};

// At the end of a tile the warps of the same rows share its token tiles, kShare for each.
template <class Config>
struct StreamCut {
  static constexpr int kShare = Config::kTokenTiles / Config::kDepthGroups;
  static_assert(kShare * Config::kDepthGroups == Config::kTokenTiles);
  // Sums are exchanged in blocks of 16 bytes a lane, in the order of their warps; those of what a warp keeps are not among
  // them.
  static constexpr int kGiven = Config::kDepthGroups == 1 ? kShare : Config::kTokenTiles - kShare;
  static constexpr int kSums = (Config::kEmpty + Config::kRing * 8 + 15) / 16 * 16;
  static constexpr int kSharedBytes = kSums + Config::kWarps * kGiven * Config::kBlockBytes;
  static_assert(kSharedBytes <= 227 * 1024);
};

// What a CTA has of a tile.
struct StreamSegment {
  int32_t tile, begin, end;  // rounds, of all tiles
};

// Adds what the warps of the same rows have summed: sums of this one's token tiles, which are then in shared memory as
// well, at the address returned, for a lane.
template <class Config>
__device__ __forceinline__ uint32_t share_stream_sums(uint32_t shared, uint32_t strip, uint32_t depth_group,
                                                      float const (&sums)[Config::kTokens / 2],
                                                      float (&own)[StreamCut<Config>::kShare][4]) {
  constexpr int kShare = StreamCut<Config>::kShare;
  uint32_t const lane = threadIdx.x % 32;
  auto const place = [&](uint32_t from, uint32_t to, int i) {
    uint32_t const block = Config::kDepthGroups == 1 ? i : (to - (to > from)) * kShare + i;
    return shared + StreamCut<Config>::kSums +
           ((from * Config::kStrips + strip) * StreamCut<Config>::kGiven + block) * Config::kBlockBytes + lane * 16;
  };
  if constexpr (Config::kDepthGroups > 1) {
    barrier_sync<32 * Config::kWarps>(1);  // nobody reads the last tile's any more
#pragma unroll
    for (int i = 0; i < Config::kTokenTiles; ++i) {
      if (i / kShare == depth_group) continue;
      shared_store16(place(depth_group, i / kShare, i % kShare), float_bits(sums[4 * i]), float_bits(sums[4 * i + 1]),
                     float_bits(sums[4 * i + 2]), float_bits(sums[4 * i + 3]));
    }
    barrier_sync<32 * Config::kWarps>(1);
  }
#pragma unroll
  for (int i = 0; i < kShare; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      own[i][e] = sums[4 * i + e];
#pragma unroll
      for (int d = 1; d < Config::kDepthGroups; ++d)
        if (d == depth_group) own[i][e] = sums[4 * (d * kShare + i) + e];
    }
#pragma unroll
    for (int d = 1; d < Config::kDepthGroups; ++d) {
      uint4 const v = shared_load16(place((depth_group + d) % Config::kDepthGroups, depth_group, i));
      own[i][0] += bits_float(v.x), own[i][1] += bits_float(v.y);
      own[i][2] += bits_float(v.z), own[i][3] += bits_float(v.w);
    }
  }
  return place(depth_group == 0 && Config::kDepthGroups > 1, depth_group, 0);
}

// Adds up what all CTAs have of a tile that they share, if this warp's part is the last one to come; else false.
template <class Config>
__device__ __forceinline__ bool add_stream_parts(WgmmaStreamCutArgs const& args, StreamSegment const& segment,
                                                 float (&own)[StreamCut<Config>::kShare][4]) {
  uint32_t const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int32_t const begin = segment.tile * args.schedule.rounds;
  int32_t const first = args.range(begin), parts = args.range(begin + args.schedule.rounds - 1) - first + 1;
  auto const part_of = [&](int32_t cta) {
    uint32_t const place = static_cast<uint32_t>(cta) * kStreamMaxParts + (cta * args.schedule.range < begin);
    return args.partials + ((place * Config::kWarps + warp) * StreamCut<Config>::kShare * 32 + lane) * 4;
  };
  float* const mine = part_of(blockIdx.x);
#pragma unroll
  for (int i = 0; i < StreamCut<Config>::kShare; ++i)
    global_store_shared4(mine + i * 128, own[i][0], own[i][1], own[i][2], own[i][3]);
  __syncwarp();
  uint32_t before = 0;
  if (lane == 0) before = global_count(args.counters + segment.tile * Config::kWarps + warp);
  if (__shfl_sync(~0u, before, 0) + 1 != static_cast<uint32_t>(parts)) return false;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < StreamCut<Config>::kShare; ++i) own[i][0] = own[i][1] = own[i][2] = own[i][3] = 0.0f;
#pragma unroll 2
  for (int32_t cta = first; cta < first + parts; ++cta) {
    float const* const part = part_of(cta);
    float4 v[StreamCut<Config>::kShare];
#pragma unroll
    for (int i = 0; i < StreamCut<Config>::kShare; ++i) v[i] = global_load_shared4(part + i * 128);
#pragma unroll
    for (int i = 0; i < StreamCut<Config>::kShare; ++i)
      own[i][0] += v[i].x, own[i][1] += v[i].y, own[i][2] += v[i].z, own[i][3] += v[i].w;
  }
  return true;
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    wgmma_stream_cut_gemm_kernel(__grid_constant__ WgmmaStreamCutArgs const args) {
  extern __shared__ __align__(128) uint8_t shared_memory[];
  constexpr int kRing = Config::kRing, kDepthGroups = Config::kDepthGroups;
  pdl_launch_dependents();
  if (!args.ready) pdl_wait();
  uint32_t const shared = shared_address(shared_memory), lane = threadIdx.x % 32;
  uint32_t const warp = __shfl_sync(~0u, threadIdx.x / 32, 0);  // so the compiler knows that it is a warp's
  uint32_t const strip = warp % Config::kStrips, depth_group = warp / Config::kStrips;
  int32_t const rounds = args.schedule.rounds, token_blocks = args.schedule.token_blocks;
  int32_t const begin = static_cast<int32_t>(blockIdx.x) * args.schedule.range;
  int32_t const end = min(begin + args.schedule.range, args.schedule.total());
  StreamSegment segment = {args.rounds(begin), begin, 0};
  segment.end = min((segment.tile + 1) * rounds, end);
  int32_t row_tile = args.token_blocks(segment.tile), block = segment.tile - row_tile * token_blocks;
  auto const next_tile = [&](int32_t& rows, int32_t& tokens) {
    if (++tokens == token_blocks) tokens = 0, ++rows;
  };

  // Memory answers late at first, as all multiprocessors ask at once: weights are asked for before all else.
  uint32_t const slots = shared + warp * Config::kWarpBytes;
  StreamReader<Config> reader;
  int32_t copied = begin, copied_end = segment.end, copied_rows = row_tile, copied_block = block;
  auto const begin_copies = [&](int32_t round_of_tile) {
    uint32_t part = static_cast<uint32_t>(copied_rows) * Config::kStrips + strip;
    if (part / 8 * kScaleAtomRows >= static_cast<uint32_t>(args.gemm.n)) part = 0;  // not stored
    reader.begin(args, part, round_of_tile * kDepthGroups + static_cast<int32_t>(depth_group));
  };
  auto const copy_round = [&](uint32_t slot) {
    if (copied < end) {
      if (copied == copied_end) {
        copied_end = min(copied_end + rounds, end);
        next_tile(copied_rows, copied_block);
        begin_copies(0);
      }
      reader.start(slot);
      ++copied;
    }
    cp_async_commit();
  };
  if (warp < Config::kWarps) {
    begin_copies(begin - segment.tile * rounds);
    copy_round(slots);
  } else if (lane == 0) {
#pragma unroll 1
    for (uint32_t i = 0; i < kRing; ++i) {
      mbarrier_init(shared + Config::kFull + i * 8, 1);
      mbarrier_init(shared + Config::kEmpty + i * 8, Config::kStrips);
    }
    mbarrier_init_release();
  }
  __syncthreads();

  if (warp == Config::kWarps) {
    pdl_wait();
    if (lane == 0) {
      int32_t const steps = rounds * kDepthGroups;  // of a tile
      uint32_t slot = 0, parity = 1;
      int32_t step = (begin - segment.tile * rounds) * kDepthGroups;
      uint8_t const* from = args.operands + (block * int64_t{steps} + step) * Config::kOperandBytes;
#pragma unroll 1
      for (int32_t left = (end - begin) * kDepthGroups; left > 0; --left, ++step) {
        if (step == steps) {
          step = 0;
          next_tile(row_tile, block);
          from = args.operands + block * int64_t{steps} * Config::kOperandBytes;
        }
        uint32_t const full = shared + Config::kFull + slot * 8;
        mbarrier_wait(shared + Config::kEmpty + slot * 8, parity);
        mbarrier_arrive_expect(full, Config::kOperandBytes);
        bulk_load(shared + Config::kOperands + slot * Config::kOperandBytes, from, Config::kOperandBytes, full);
        from += Config::kOperandBytes;
        if (++slot == kRing) slot = 0, parity ^= 1;
      }
    }
    return;
  }
  float const scale = args.gemm.alpha != nullptr ? *args.gemm.alpha : 1.0f;
#pragma unroll 1
  for (int i = 1; i < Config::kSlots; ++i) copy_round(slots + i * Config::kSlotBytes);
  uint32_t const scales =
      __shfl_sync(~0u, Config::kSlotScales + lane / 4 % 4 * 16 + lane / 16 * 4 + stream_scale_place<Config>(64), lane);
  uint32_t const operands = __shfl_sync(~0u, wgmma_descriptor_pieces(shared + Config::kOperands), 0);
  uint32_t slot = 0, ring = depth_group, parity = 0;  // slot: offset
#pragma unroll 1
  while (segment.begin < end) {
    float sums[Config::kTokens / 2] = {};
    uint32_t used = kRing;  // of the ring, before
    int32_t left =
        args.gemm.k -
        ((segment.begin - segment.tile * rounds) * kDepthGroups + static_cast<int32_t>(depth_group)) * Config::kStep -
        static_cast<int32_t>(lane % 4) * 32;  // values from this thread's first one to the end of k
    auto const release_operands = [&] {
      if (used < kRing && lane == 0) mbarrier_arrive(shared + Config::kEmpty + used * 8);
    };
#pragma unroll 1
    for (int32_t round = segment.begin; round < segment.end; ++round) {
      cp_async_wait<Config::kSlots - 1>();
      __syncwarp();
      uint32_t const place = slots + slot;
      uint4 const codes[2] = {shared_load16(place + lane * 16), shared_load16(place + lane * 16 + 512)};
      uint32_t bytes[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {  // scales beyond k may be NaN; their codes are zero
        bytes[h] = stream_scales<Config>(place + scales + h * 8);
        if (left <= 0) bytes[h] = 0;
      }
      __syncwarp();
      copy_round(place);
      auto const wait_operands = [&] { mbarrier_wait(shared + Config::kFull + ring * 8, parity); };
      multiply_stream_step<Config>(codes, bytes, operands + ring * (Config::kOperandBytes / 16), wait_operands,
                                   release_operands, sums);
      used = ring;
      ring += kDepthGroups;
      if (ring >= kRing) ring -= kRing, parity ^= 1;
      slot = slot == (Config::kSlots - 1) * Config::kSlotBytes ? 0 : slot + Config::kSlotBytes;
      left -= kDepthGroups * Config::kStep;
    }
    wgmma_wait<0>();
    wgmma_pin(sums);
    release_operands();

    float own[StreamCut<Config>::kShare][4];
    uint32_t const staged = share_stream_sums<Config>(shared, strip, depth_group, sums, own);
    uint32_t const first_tile = depth_group * StreamCut<Config>::kShare;  // of tokens
    if (segment.end - segment.begin == rounds || add_stream_parts<Config>(args, segment, own)) {
#pragma unroll
      for (int i = 0; i < StreamCut<Config>::kShare; ++i) {
        shared_store16(staged + i * Config::kBlockBytes, float_bits(own[i][0]), float_bits(own[i][1]),
                       float_bits(own[i][2]), float_bits(own[i][3]));
      }
#pragma unroll 1
      for (int i = 0; i < StreamCut<Config>::kShare; ++i) {
        uint4 const v = shared_load16(staged + i * Config::kBlockBytes);
        float x[4] = {bits_float(v.x), bits_float(v.y), bits_float(v.z), bits_float(v.w)};
        store_stream_sums<Config>(args.gemm, scale, static_cast<uint32_t>(row_tile) * Config::kStrips + strip,
                                  block * Config::kTokens + (first_tile + i) * 8, x);
      }
    }
    segment = {segment.tile + 1, segment.end, min(segment.end + rounds, end)};
    next_tile(row_tile, block);
  }
  cp_async_wait<0>();  // nothing is on its way
}

}  // namespace fp4aot

#endif
