// W4A4 for few activation rows: weights stream through each warp's own shared memory to the registers of wgmma.
//
// A CTA owns kRows weight rows, kTokens activation rows and a slice of k; the CTAs of a cluster have the other slices of
// the same results and send each other their sums. Weights are dequantised by the warps that multiply them: a warpgroup has
// 64 rows and every kDepthGroups-th step of 128 values, a warp copies its own 16 rows of them. Activations come as operands
// from the kernel before (stream_operands.cuh), by bulk copies of one more warp into a ring of steps. This kernel starts
// while that one runs, and has its first weights on their way when it waits.
//
// A thread (lane = 4 * g + t) reads values 32t..32t+31 of a step of rows g and g + 8 of its warp. The order along k is that
// of dequantize_word, the same for both operands. A warp's rows are four rows next to each other, those 32 further, and so
// on, which have their scales in the same 64 bytes.
#ifndef FP4AOT_KERNELS_GEMM_WGMMA_STREAM_CUH_
#define FP4AOT_KERNELS_GEMM_WGMMA_STREAM_CUH_

#include "device/cluster.cuh"
#include "device/cp_async.cuh"
#include "device/mbarrier.cuh"
#include "device/mbarrier_init.cuh"
#include "device/pdl.cuh"
#include "device/shared_memory.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"
#include "kernels/gemm/args.h"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/mma_operand.cuh"
#include "kernels/gemm/stream_operands.cuh"

namespace fp4aot {

struct StreamArgs {
  GemmArgs gemm;            // a_codes and a_scales are not read
  int64_t scale_block;      // bytes of the scales of 128 rows
  bool ready;               // all but what the kernel before writes may be read at once
  uint8_t const* operands;  // stream_operands.cuh, in blocks of kTokens
};

// The grid is slices of k, which make a cluster; tiles of rows; tiles of tokens.
struct WgmmaStreamArgs : StreamArgs {
  int32_t steps;        // of k
  int32_t slice_steps;  // of a CTA
};

template <Format kFormatValue, int kRowsValue, int kTokensValue, int kSlotsValue>
struct WgmmaStreamConfig {
  static constexpr Format kFormat = kFormatValue;
  static constexpr int kRows = kRowsValue, kTokens = kTokensValue, kSlots = kSlotsValue;
  static constexpr int kRowGroups = kRows / 64, kDepthGroups = 4 / kRowGroups, kTokenTiles = kTokens / 8;
  static_assert(kRowGroups * kDepthGroups == 4);
  static constexpr int kStrips = 4 * kRowGroups;  // of 16 rows, one of a warp that multiplies
  static constexpr int kWarps = kStreamWarps, kThreads = 32 * (kWarps + 1);  // the last warp copies activations

  static constexpr int kStep = kStreamStep;
  static constexpr int kAtoms = kStep / (kVector<kFormat> * kScaleAtomColumns);  // of scales, a step
  static constexpr int kProducts = kStep / 16;

  // A slot holds a step of a warp: 16 rows and their scales.
  static constexpr int kSlotScales = 16 * 64;
  static constexpr int kSlotBytes = kSlotScales + kAtoms * 64;
  static constexpr int kWarpBytes = kSlots * kSlotBytes;

  // The ring of activations. The warps that multiply hold a step until the middle of their next one.
  static constexpr int kRing = kTokens < 64 ? 8 : 6;
  static_assert(kRing % kDepthGroups == 0 && kRing >= 2 * kDepthGroups);
  static constexpr int kProductBytes = kTokens * 32, kOperandBytes = kProducts * kProductBytes;  // [product]
  static_assert(kOperandBytes == stream_operand_bytes(kTokens));
  static constexpr int kOperands = kWarps * kWarpBytes;
  // Barriers: of the cluster's sums; of each step of the ring, that it is full and that it may be overwritten.
  static constexpr int kSumsBarrier = kOperands + kRing * kOperandBytes;
  static constexpr int kFull = kSumsBarrier + 8, kEmpty = kFull + kRing * 8;
  // Sums are in blocks of 16 bytes a lane, of a strip and a token tile: a warp's, over its weights, for the warp of the
  // same rows that adds them, and those that the CTAs of the cluster send. The latter are nowhere else, as they come while
  // this CTA multiplies.
  static constexpr int kBlockBytes = 512, kBlocks = kStrips * kTokenTiles;
  static_assert(kDepthGroups == 1 || kTokenTiles * kBlockBytes <= kWarpBytes);
  static constexpr int kSent = (kEmpty + kRing * 8 + 15) / 16 * 16;  // [own block][rank]
  static constexpr int shared_bytes(int slices) {
    return kSent + (kBlocks + slices - 1) / slices * slices * kBlockBytes;
  }
  static constexpr int kMaxSlices = 8;
  static constexpr int kMaxSharedBytes = kSent + (kBlocks + kMaxSlices - 1) * kBlockBytes;
  static_assert(kMaxSharedBytes <= 227 * 1024);
};

// A warp's copies of weights. Its set-up is in the way of the first copies: few instructions.
template <class Config>
class StreamReader {
 public:
  static constexpr Format kFormat = Config::kFormat;

  // part: which 16 of the rows that have their scales in the same 64 bytes; 8 parts in a block of 128 rows.
  __device__ __forceinline__ void begin(StreamArgs const& args, uint32_t part, int step) {
    uint32_t const lane = threadIdx.x % 32, g = lane / 4;
    left_ = args.gemm.k - (step * Config::kStep + static_cast<int>(lane % 4) * 32);
    uint32_t const row = part / 8 * kScaleAtomRows + part % 8 * 4 + g % 4 + g / 4 * 32;
    uint64_t const stride = static_cast<uint64_t>(args.gemm.b_stride);
    uint32_t const offset = static_cast<uint32_t>(step) * (Config::kStep / 2) + lane % 4 * 16;
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {  // rows beyond n reach only results that are not stored
      uint32_t const inside = row + 64 * h < static_cast<uint32_t>(args.gemm.n) ? row + 64 * h : 0;
      codes_[h] = args.gemm.b_codes + inside * stride + offset;
    }
    uint32_t const atom = static_cast<uint32_t>(step) * Config::kAtoms + lane / 4;
    scales_left_ =
        Config::kAtoms * 4 > lane ? args.gemm.k / kVector<kFormat> - static_cast<int>(atom * kScaleAtomColumns) : 0;
    scales_ = args.gemm.b_scales + part / 8 * static_cast<uint64_t>(args.scale_block) +
              (atom * kScaleAtomBytes + part % 8 * 64 + lane % 4 * 16);
  }

  // Starts the next copies; values beyond k become zero codes, and their memory is not touched.
  __device__ __forceinline__ void start(uint32_t slot) {
    uint32_t const lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      cp_async16(slot + lane * 16 + h * 512, codes_[h], left_ > 0);
      codes_[h] += Config::kDepthGroups * (Config::kStep / 2);
    }
    if (scales_left_ > 0) cp_async16(slot + Config::kSlotScales + lane * 16, scales_, true);
    scales_ += Config::kDepthGroups * Config::kAtoms * kScaleAtomBytes;
    left_ -= Config::kDepthGroups * Config::kStep;
    scales_left_ -= Config::kDepthGroups * Config::kAtoms * kScaleAtomColumns;
  }

 private:
  int left_, scales_left_;  // values and scales from this thread's first one to the end of k
  uint8_t const* codes_[2];
  uint8_t const* scales_;
};

// The scale bytes of a thread's 32 values of a row: two or one, which begin at `address`.
template <class Config>
__device__ __forceinline__ uint32_t stream_scales(uint32_t address) {
  return Config::kAtoms == 2 ? shared_load2(address) : shared_load1(address);
}
// Where they are among the words of a row: NVFP4 has one a half of the step.
template <class Config>
__device__ __forceinline__ uint32_t stream_scale_place(uint32_t word_stride) {
  uint32_t const t = threadIdx.x % 4;
  return Config::kAtoms == 2 ? t / 2 * word_stride + t % 2 * 2 : t;
}

// Sums += a step of weights * a step of activations. codes, bytes: of this thread's two rows, zero beyond k. before(): what is
// to be done before the first product; between(): when the products of earlier steps have ended. Products of the second
// half are in flight at the end.
template <class Config, class Before, class Between>
__device__ __forceinline__ void multiply_stream_step(uint4 const (&codes)[2], uint32_t const (&bytes)[2],
                                                     uint32_t descriptor, Before const& before, Between const& between,
                                                     float (&sums)[Config::kTokens / 2]) {
  constexpr bool kTwoSteps = Config::kFormat == Format::kMxfp4;
  constexpr uint32_t kOneProduct = Mxfp4TwoStepOperand::kOneProduct;
  bool const two_steps = kTwoSteps && __any_sync(~0u, max(bytes[0], bytes[1]) > kOneProduct);
  auto const operand = [&](uint32_t scale_bytes) {
    if constexpr (kTwoSteps) {
      return Mxfp4TwoStepOperand(scale_bytes, two_steps);
    } else {
      return MmaOperand<Config::kFormat>(scale_bytes);
    }
  };
  auto const upper = operand(bytes[0]), lower = operand(bytes[1]);
  uint32_t const words[2][4] = {{codes[0].x, codes[0].y, codes[0].z, codes[0].w},
                                {codes[1].x, codes[1].y, codes[1].z, codes[1].w}};
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    uint32_t a[4][4];
#pragma unroll
    for (int w = 0; w < 2; ++w) {
      uint32_t rows[2][4];
      if constexpr (kTwoSteps) {
        upper.dequantize(words[0][2 * pair + w], rows[0]);
        lower.dequantize(words[1][2 * pair + w], rows[1]);
      } else {
        upper.dequantize(2 * pair + w, words[0][2 * pair + w], rows[0]);
        lower.dequantize(2 * pair + w, words[1][2 * pair + w], rows[1]);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        a[2 * w + j][0] = rows[0][2 * j], a[2 * w + j][1] = rows[1][2 * j];
        a[2 * w + j][2] = rows[0][2 * j + 1], a[2 * w + j][3] = rows[1][2 * j + 1];
      }
    }
    if constexpr (kTwoSteps) {
      if (__builtin_expect(two_steps, 0)) {
#pragma unroll
        for (int i = 0; i < 16; ++i) (i % 2 == 0 ? upper : lower).finish(a[i / 4][i % 4]);
      }
    }
    if (pair == 0) before();
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t const b = descriptor + (4 * pair + i) * (Config::kProductBytes / 16);
      if constexpr (Config::kFormat == Format::kNvfp4) {
        wgmma_pieces_m64k16_f16(sums, a[i], b);
      } else {
        wgmma_pieces_m64k16(sums, a[i], b);
      }
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (pair == 0) between();
  }
}

// Stores a strip's results for eight tokens. part: of the weights' rows; x: the sums that a lane of wgmma has of them.
template <class Config>
__device__ __forceinline__ void store_stream_sums(GemmArgs const& args, float scale, uint32_t part, uint32_t token,
                                                  float (&x)[4]) {
  // A unit is four results of a row of D. The lanes with four neighbouring columns change what they have into units.
  uint32_t const lane = threadIdx.x % 32, low = lane / 4 % 2, high = lane / 8 % 2;
  uint32_t const column = part / 8 * kScaleAtomRows + part % 8 * 4 + lane / 16 * 32 + high * 64;
  uint32_t const d_row = token + lane % 4 * 2 + low;
  auto const exchange = [&](float& a, float& b, bool second, int lanes) {
    float const other = __shfl_xor_sync(~0u, second ? a : b, lanes);
    (second ? a : b) = other;
  };
  exchange(x[0], x[1], low != 0, 4);
  exchange(x[2], x[3], low != 0, 4);
  exchange(x[0], x[2], high != 0, 8);
  exchange(x[1], x[3], high != 0, 8);
  if (d_row >= static_cast<uint32_t>(args.m) || column >= static_cast<uint32_t>(args.n)) return;
#pragma unroll
  for (uint32_t c = 0; c < 4; ++c) {
    float const bias = args.bias != nullptr ? load_bias(args.bias, args.bias_dtype, column + c) : 0.0f;
    // Unshifted first: alpha times 2^28 may overflow where the result does not.
    x[c] = scale * (MmaOperand<Config::kFormat>::kUnshift * x[c]) + bias;
  }
  with_output(args, [&](auto* d, auto aligned) {
    store_outputs<decltype(aligned)::value>(d + d_row * args.d_stride + column, x);
  });
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    wgmma_stream_gemm_kernel(__grid_constant__ WgmmaStreamArgs const args) {
  extern __shared__ __align__(128) uint8_t shared_memory[];
  constexpr int kRing = Config::kRing;
  pdl_launch_dependents();
  if (!args.ready) pdl_wait();
  uint32_t const shared = shared_address(shared_memory), lane = threadIdx.x % 32;
  uint32_t const warp = __shfl_sync(~0u, threadIdx.x / 32, 0);  // so the compiler knows that it is a warp's
  uint32_t const group = warp / 4, row_group = group % Config::kRowGroups, depth_group = group / Config::kRowGroups;
  uint32_t const slices = gridDim.x, rank = blockIdx.x, tile = blockIdx.y;
  uint32_t const first_token = blockIdx.z * Config::kTokens;
  int const first = min(static_cast<int>(rank) * args.slice_steps, args.steps);
  int const last = min(first + args.slice_steps, args.steps);
  uint32_t const token_tiles =
      (min(static_cast<uint32_t>(args.gemm.m) - first_token, uint32_t{Config::kTokens}) + 7) / 8;
  uint32_t const blocks = Config::kStrips * token_tiles;  // of sums; this CTA adds every slices-th
  uint32_t const sums_barrier = shared + Config::kSumsBarrier;

  // Memory answers late at first, as all multiprocessors ask at once: weights are asked for before all else.
  uint32_t const slots = shared + warp * Config::kWarpBytes;
  int step = first + static_cast<int>(depth_group);
  StreamReader<Config> reader;
  if (warp < Config::kWarps) {
    uint32_t part = tile * Config::kStrips + row_group * 4 + warp % 4;
    if (part / 8 * kScaleAtomRows >= static_cast<uint32_t>(args.gemm.n)) part = 0;  // not stored
    reader.begin(args, part, step);
    if (step < last) reader.start(slots);
    cp_async_commit();
  } else if (lane == 0) {
#pragma unroll 1
    for (uint32_t i = 0; i < kRing; ++i) {
      mbarrier_init(shared + Config::kFull + i * 8, 1);
      mbarrier_init(shared + Config::kEmpty + i * 8, Config::kStrips);
    }
    mbarrier_init(sums_barrier, 1);
    mbarrier_init_release();
    if (slices > 1)
      mbarrier_arrive_expect(sums_barrier, (blocks + slices - 1 - rank) / slices * slices * Config::kBlockBytes);
  }
  __syncthreads();
  cluster_sync();  // all have begun, before others' sums come

  if (warp == Config::kWarps) {
    pdl_wait();  // also where there are no steps
    if (lane == 0) {
      uint8_t const* from =
          args.operands + (blockIdx.z * static_cast<uint64_t>(args.steps) + first) * Config::kOperandBytes;
      uint32_t slot = 0, parity = 1;
#pragma unroll 1
      for (int i = first; i < last; ++i, from += Config::kOperandBytes) {
        uint32_t const full = shared + Config::kFull + slot * 8;
        mbarrier_wait(shared + Config::kEmpty + slot * 8, parity);
        mbarrier_arrive_expect(full, Config::kOperandBytes);
        bulk_load(shared + Config::kOperands + slot * Config::kOperandBytes, from, Config::kOperandBytes, full);
        if (++slot == kRing) slot = 0, parity ^= 1;
      }
    }
    return;
  }
  float const scale = args.gemm.alpha != nullptr ? *args.gemm.alpha : 1.0f;
#pragma unroll 1
  for (int i = 1; i < Config::kSlots; ++i) {
    if (step + i * Config::kDepthGroups < last) reader.start(slots + i * Config::kSlotBytes);
    cp_async_commit();
  }
  float sums[Config::kTokens / 2] = {};
  uint32_t const scales =
      __shfl_sync(~0u, Config::kSlotScales + lane / 4 % 4 * 16 + lane / 16 * 4 + stream_scale_place<Config>(64), lane);
  uint32_t const operands = __shfl_sync(~0u, wgmma_descriptor_pieces(shared + Config::kOperands), 0);
  uint32_t slot = 0, ring = depth_group, parity = 0, used = kRing;  // slot: offset; used: of the ring, before
#pragma unroll 1
  for (; step < last; step += Config::kDepthGroups) {
    cp_async_wait<Config::kSlots - 1>();
    __syncwarp();
    uint32_t const place = slots + slot;
    uint4 const codes[2] = {shared_load16(place + lane * 16), shared_load16(place + lane * 16 + 512)};
    // Scales beyond k may be NaN; their codes are zero.
    bool const inside = step * Config::kStep + static_cast<int>(lane % 4) * 32 < args.gemm.k;
    uint32_t bytes[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      bytes[h] = stream_scales<Config>(place + scales + h * 8);
      if (!inside) bytes[h] = 0;
    }
    __syncwarp();
    if (step + Config::kSlots * Config::kDepthGroups < last) reader.start(place);
    cp_async_commit();
    auto const wait_operands = [&] { mbarrier_wait(shared + Config::kFull + ring * 8, parity); };
    auto const release_operands = [&] {
      if (used < kRing && lane == 0) mbarrier_arrive(shared + Config::kEmpty + used * 8);
    };
    multiply_stream_step<Config>(codes, bytes, operands + ring * (Config::kOperandBytes / 16), wait_operands,
                                 release_operands, sums);
    used = ring;
    ring += Config::kDepthGroups;
    if (ring >= kRing) ring -= kRing, parity ^= 1;
    slot = slot == (Config::kSlots - 1) * Config::kSlotBytes ? 0 : slot + Config::kSlotBytes;
  }
  wgmma_wait<0>();
  wgmma_pin(sums);
  cp_async_wait<0>();

  __syncwarp();
  uint32_t const own = shared + lane * 16;
  if constexpr (Config::kDepthGroups > 1) {
    if (depth_group > 0) {
#pragma unroll
      for (int i = 0; i < Config::kTokenTiles; ++i) {
        shared_store16(own + warp * Config::kWarpBytes + i * Config::kBlockBytes, float_bits(sums[4 * i]),
                       float_bits(sums[4 * i + 1]), float_bits(sums[4 * i + 2]), float_bits(sums[4 * i + 3]));
      }
    }
    barrier_sync<32 * Config::kWarps>(1);
  }
  uint32_t const sent = own + Config::kSent;
  if (warp < Config::kStrips) {
    uint32_t const block = warp * token_tiles;
    uint32_t local = block / slices, owner = block - local * slices;
#pragma unroll
    for (int i = 0; i < Config::kTokenTiles; ++i) {
      if (i >= token_tiles) break;
      float x[4] = {sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]};
#pragma unroll
      for (int d = 1; d < Config::kDepthGroups; ++d) {
        uint4 const v =
            shared_load16(own + (d * Config::kStrips + warp) * Config::kWarpBytes + i * Config::kBlockBytes);
        x[0] += bits_float(v.x), x[1] += bits_float(v.y), x[2] += bits_float(v.z), x[3] += bits_float(v.w);
      }
      uint32_t const place = sent + (local * slices + rank) * Config::kBlockBytes;
      if (slices > 1) {
        cluster_store16_async(cluster_address(place, owner), x, cluster_address(sums_barrier, owner));
      } else {  // such a store is no instruction without a cluster
        shared_store16(place, float_bits(x[0]), float_bits(x[1]), float_bits(x[2]), float_bits(x[3]));
      }
      if (++owner == slices) owner = 0, ++local;
    }
  }
  if (slices == 1) barrier_sync<32 * Config::kWarps>(1);
#pragma unroll 1
  for (uint32_t local = warp;; local += Config::kWarps) {
    uint32_t const block = local * slices + rank;
    if (block >= blocks) break;  // a CTA that gets sums waits for them, so that it is there when they come
    uint32_t const strip = block / token_tiles;
    float x[4] = {};
    if (slices > 1) mbarrier_wait(sums_barrier, 0);
    uint32_t address = sent + local * slices * Config::kBlockBytes;
#pragma unroll 1
    for (uint32_t slice = 0; slice < slices; ++slice) {
      uint4 const v = shared_load16(address);
      x[0] += bits_float(v.x), x[1] += bits_float(v.y), x[2] += bits_float(v.z), x[3] += bits_float(v.w);
      address += Config::kBlockBytes;
    }
    store_stream_sums<Config>(args.gemm, scale, tile * Config::kStrips + strip,
                              first_token + (block - strip * token_tiles) * 8, x);
  }
}

}  // namespace fp4aot

#endif
