// W4A4 for few activation rows: weights stream through each warp's own shared memory to the registers of wgmma.
//
// A CTA owns kRows weight rows, kTokens activation rows and a slice of k; the CTAs of a cluster have the other slices of
// the same results and send each other their sums. Activations are dequantised once a CTA, into shared memory; weights by
// the warps that multiply them: a warpgroup has 64 rows and every kDepthGroups-th step of 128 values, a warp copies its
// own 16 rows of them.
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
#include "device/wgmma.cuh"
#include "kernels/gemm/args.h"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/mma_operand.cuh"

namespace fp4aot {

// The grid is slices of k, which make a cluster; tiles of rows; tiles of tokens.
struct WgmmaStreamArgs {
  GemmArgs gemm;
  int64_t scale_block;  // bytes of the scales of 128 rows
  int32_t steps;        // of 128 values, of k
  int32_t slice_steps;  // of a CTA
};

template <Format kFormatValue, int kRowsValue, int kTokensValue, int kSlotsValue>
struct WgmmaStreamConfig {
  static constexpr Format kFormat = kFormatValue;
  static constexpr int kRows = kRowsValue, kTokens = kTokensValue, kSlots = kSlotsValue;
  static constexpr int kRowGroups = kRows / 64, kDepthGroups = 4 / kRowGroups, kTokenTiles = kTokens / 8;
  static_assert(kRowGroups * kDepthGroups == 4);
  // Whether the last products of a step go on during the next one. Of others ptxas would put a wait behind every product.
  static constexpr bool kInFlight = kDepthGroups > 1 && kTokens < 64;
  static constexpr int kWarps = 16, kThreads = 32 * kWarps;

  static constexpr int kStep = 128;
  static constexpr int kAtoms = kStep / (kVector<kFormat> * kScaleAtomColumns);  // of scales, a step
  static constexpr int kProducts = kStep / 16;

  // A slot holds a step of a warp: 16 rows and their scales.
  static constexpr int kSlotScales = 16 * 64;
  static constexpr int kSlotBytes = kSlotScales + kAtoms * 64;
  static constexpr int kWarpBytes = kSlots * kSlotBytes;

  // Activations: as many steps at once as there is room for; the copies of the next ones are under way.
  static constexpr int kChunk = kTokens == 64 ? (kRows == 256 ? 5 : 6) : 256 / kTokens;
  static constexpr int kRounds = kChunk / kDepthGroups;  // of a warpgroup, in a chunk
  static_assert(kChunk % kDepthGroups == 0);
  static constexpr int kProductBytes = kTokens * 32;
  static constexpr int kOperands = kWarps * kWarpBytes;  // [step][product]
  static constexpr int kStaging = kOperands + kChunk * kProducts * kProductBytes;
  static constexpr int kAlpha = kStaging + kChunk * kTokenTiles * 640;
  static constexpr int kSumStride = kRows + 4;  // floats
  static_assert(kDepthGroups * kTokens * kSumStride * 4 <= kAlpha);
  // Sums from the CTAs of the cluster, in blocks of 16 bytes a lane: nothing else, as they come while this CTA multiplies.
  static constexpr int kSumsBarrier = kAlpha + 8, kSent = kAlpha + 16;
  static constexpr int kTokenUnits = kRows / 4, kBlockBytes = 512;
  static constexpr int kBlocks = kTokens * kTokenUnits / 32;
  static constexpr int shared_bytes(int slices) {
    return kSent + (slices > 1 ? (kBlocks + slices - 1) / slices * slices * kBlockBytes : 0);
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
  __device__ __forceinline__ StreamReader(WgmmaStreamArgs const& args, uint32_t part, int step)
      : left_(args.gemm.k - (step * Config::kStep + static_cast<int>(threadIdx.x % 4) * 32)) {
    uint32_t const lane = threadIdx.x % 32, g = lane / 4;
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

// Copies codes and scales of steps [begin, end) of the activations, 512 + 128 bytes for each step and token tile; what a
// thread copies it expands.
template <class Config>
__device__ __forceinline__ void copy_stream_tokens(WgmmaStreamArgs const& args, uint32_t staging, uint32_t first_token,
                                                   int begin, int end) {
  uint32_t const warp = threadIdx.x / 32, lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll 1
  for (int i = static_cast<int>(warp); i < (end - begin) * Config::kTokenTiles; i += Config::kWarps) {
    uint32_t const step = static_cast<uint32_t>(begin + i / Config::kTokenTiles);
    uint32_t const token = first_token + static_cast<uint32_t>(i) % Config::kTokenTiles * 8 + lane / 4;
    bool const valid = token < static_cast<uint32_t>(args.gemm.m) &&
                       step * Config::kStep + t * 32 < static_cast<uint32_t>(args.gemm.k);
    uint32_t const place = staging + static_cast<uint32_t>(i) * 640;
    cp_async16(
        place + lane * 16,
        args.gemm.a_codes + token * static_cast<uint64_t>(args.gemm.a_stride) + (step * (Config::kStep / 2) + t * 16),
        valid);
    uint32_t const atom = step * Config::kAtoms + (Config::kAtoms == 2 ? t / 2 : 0);
    cp_async4(place + 512 + lane * 4,
              args.gemm.a_scales + token / kScaleAtomRows * static_cast<uint64_t>(args.scale_block) +
                  (atom * kScaleAtomBytes + token % 32 * 16 + token % kScaleAtomRows / 32 * 4),
              valid);
  }
}

// The scale bytes of a thread's 32 values of a row: two or one, which begin at `address`.
template <class Config>
__device__ __forceinline__ MmaOperand<Config::kFormat> stream_operand(uint32_t address) {
  return MmaOperand<Config::kFormat>(Config::kAtoms == 2 ? shared_load2(address) : shared_load1(address));
}
// Where they are among the words of a row: NVFP4 has one a half of the step.
template <class Config>
__device__ __forceinline__ uint32_t stream_scale_place(uint32_t word_stride) {
  uint32_t const t = threadIdx.x % 4;
  return Config::kAtoms == 2 ? t / 2 * word_stride + t % 2 * 2 : t;
}

// Makes operands of them: pieces as wgmma.cuh describes, [step][product][tile].
template <class Config>
__device__ __forceinline__ void expand_stream_tokens(uint32_t shared, uint32_t staging, int count) {
  uint32_t const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
  for (int i = static_cast<int>(warp); i < count; i += Config::kWarps) {
    uint32_t const step = static_cast<uint32_t>(i) / Config::kTokenTiles,
                   tile = static_cast<uint32_t>(i) % Config::kTokenTiles;
    uint32_t const place = staging + static_cast<uint32_t>(i) * 640;
    uint32_t const piece =
        shared + Config::kOperands + step * (Config::kProducts * Config::kProductBytes) + tile * 256 + lane * 4;
    uint4 const codes = shared_load16(place + lane * 16);
    uint32_t const words[4] = {codes.x, codes.y, codes.z, codes.w};
    MmaOperand<Config::kFormat> const operand =
        stream_operand<Config>(place + 512 + lane * 4 + stream_scale_place<Config>(0));
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      uint32_t pairs[4];
      operand.dequantize(w, words[w], pairs);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        shared_store4(piece + (2 * w + j / 2) * Config::kProductBytes + j % 2 * 128, pairs[j]);
    }
  }
}

// Sums += a step of weights * a step of activations. inside: whether this thread's values are within k. The second half of
// the products may be in flight still.
template <class Config>
__device__ __forceinline__ void multiply_stream_step(uint32_t slot, uint32_t operands, bool inside,
                                                     float (&sums)[Config::kTokens / 2]) {
  uint32_t const lane = threadIdx.x % 32;
  uint32_t const scales =
      slot + Config::kSlotScales + lane / 4 % 4 * 16 + lane / 16 * 4 + stream_scale_place<Config>(64);
  uint4 const first = shared_load16(slot + lane * 16), second = shared_load16(slot + lane * 16 + 512);
  // Scales beyond k may be NaN; their codes are zero.
  uint32_t bytes[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    bytes[h] = Config::kAtoms == 2 ? shared_load2(scales + h * 8) : shared_load1(scales + h * 8);
    if (!inside) bytes[h] = 0;
  }
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
  uint32_t const words[2][4] = {{first.x, first.y, first.z, first.w}, {second.x, second.y, second.z, second.w}};
  uint32_t const descriptor = wgmma_descriptor_pieces(operands);
  // Before the fence, lest the compiler moves the sums to the registers of the products behind it.
  if constexpr (!Config::kInFlight) wgmma_pin(sums);
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
    if (pair == 0 || Config::kInFlight) wgmma_wait<1>();
  }
  if constexpr (!Config::kInFlight) {
    wgmma_wait<0>();
    wgmma_pin(sums);
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1) wgmma_stream_gemm_kernel(WgmmaStreamArgs const args) {
  extern __shared__ __align__(128) uint8_t shared_memory[];
  pdl_launch_dependents();
  pdl_wait();
  uint32_t const shared = shared_address(shared_memory);
  uint32_t const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t const group = warp / 4, row_group = group % Config::kRowGroups, depth_group = group / Config::kRowGroups;
  uint32_t const slices = gridDim.x, rank = blockIdx.x, tile = blockIdx.y;
  uint32_t const first_token = blockIdx.z * Config::kTokens;
  int const first = min(static_cast<int>(rank) * args.slice_steps, args.steps);
  int const last = min(first + args.slice_steps, args.steps);
  int step = first + static_cast<int>(depth_group);
  uint32_t const slots = shared + warp * Config::kWarpBytes;

  uint32_t part = (tile * Config::kRowGroups + row_group) * 4 + warp % 4;
  if (part / 8 * kScaleAtomRows >= static_cast<uint32_t>(args.gemm.n)) part = 0;  // not stored
  StreamReader<Config> reader(args, part, step);
#pragma unroll 1
  for (int i = 0; i < Config::kSlots; ++i) {
    if (step + i * Config::kDepthGroups < last) reader.start(slots + i * Config::kSlotBytes);
    if (i == 0) {
      copy_stream_tokens<Config>(args, shared + Config::kStaging, first_token, first,
                                 min(first + Config::kChunk, last));
      if (threadIdx.x == 0 && args.gemm.alpha != nullptr) cp_async4(shared + Config::kAlpha, args.gemm.alpha, true);
    }
    cp_async_commit();
  }

  // Blocks of sums (below), and those that this CTA adds for its cluster.
  uint32_t const tokens = min(static_cast<uint32_t>(args.gemm.m) - first_token, uint32_t{Config::kTokens});
  uint32_t const blocks = (tokens * Config::kTokenUnits + 31) / 32, sums_barrier = shared + Config::kSumsBarrier;
  if (slices > 1) {
    if (threadIdx.x == 0) {
      mbarrier_init(sums_barrier, 1);
      mbarrier_init_release();
      mbarrier_arrive_expect(sums_barrier, (blocks + slices - 1 - rank) / slices * slices * Config::kBlockBytes);
    }
    cluster_arrive();
  }

  float sums[Config::kTokens / 2] = {};
  uint32_t slot = 0;  // offset
#pragma unroll 1
  for (int begin = first; begin < last; begin += Config::kChunk) {
    int const end = min(begin + Config::kChunk, last);
    if (begin == first) {
      cp_async_wait<Config::kSlots - 1>();
    } else {
      cp_async_wait<(Config::kRounds < Config::kSlots ? Config::kRounds : Config::kSlots) - 1>();
      __syncthreads();  // the previous chunk's readers
    }
    expand_stream_tokens<Config>(shared, shared + Config::kStaging, (end - begin) * Config::kTokenTiles);
    fence_async_shared();
    __syncthreads();
    copy_stream_tokens<Config>(args, shared + Config::kStaging, first_token, end, min(end + Config::kChunk, last));
#pragma unroll 1
    for (; step < end; step += Config::kDepthGroups) {
      cp_async_wait<Config::kSlots - 1>();
      __syncwarp();
      uint32_t const operands = shared + Config::kOperands +
                                static_cast<uint32_t>(step - begin) * (Config::kProducts * Config::kProductBytes);
      multiply_stream_step<Config>(slots + slot, operands,
                                   step * Config::kStep + static_cast<int>(lane % 4) * 32 < args.gemm.k, sums);
      __syncwarp();
      if (step + Config::kSlots * Config::kDepthGroups < last) reader.start(slots + slot);
      cp_async_commit();
      slot = slot == (Config::kSlots - 1) * Config::kSlotBytes ? 0 : slot + Config::kSlotBytes;
    }
    wgmma_wait<0>();
    wgmma_pin(sums);
  }
  cp_async_wait<0>();
  __syncthreads();

  // Sums [depth group][token][row in the order of columns].
  constexpr uint32_t kBlockGroups = Config::kRowGroups < 2 ? 1 : 2;  // row groups of a row block
  constexpr uint32_t kUnit = 16 * kBlockGroups;  // rows that are 32 apart in the matrix are as far apart here
  {
    uint32_t const row = row_group / kBlockGroups * kScaleAtomRows + lane / 16 * kUnit + row_group % kBlockGroups * 16 +
                         warp % 4 * 4 + lane / 4 % 4;
    uint32_t const own = shared + ((depth_group * Config::kTokens + lane % 4 * 2) * Config::kSumStride + row) * 4;
#pragma unroll
    for (int i = 0; i < Config::kTokens / 2; ++i)
      shared_store4(own + ((i / 4 * 8 + i % 2) * Config::kSumStride + i / 2 % 2 * (2 * kUnit)) * 4,
                    float_bits(sums[i]));
  }
  __syncthreads();
  float const scale = args.gemm.alpha != nullptr ? bits_float(shared_load4(shared + Config::kAlpha)) : 1.0f;
  // A unit is four results of a row of D, a block 32 units, whose sums one CTA of the cluster adds, always in one order.
  auto const own_sums = [&](uint32_t unit, float (&x)[4]) {
    uint32_t const token = unit / Config::kTokenUnits, row = unit % Config::kTokenUnits * 4;
    uint32_t const place = shared + (token * Config::kSumStride + row) * 4;
#pragma unroll
    for (int i = 0; i < Config::kDepthGroups; ++i) {
      uint4 const v = shared_load16(place + i * (Config::kTokens * Config::kSumStride * 4));
      x[0] += bits_float(v.x), x[1] += bits_float(v.y), x[2] += bits_float(v.z), x[3] += bits_float(v.w);
    }
  };
  uint32_t const sent = shared + Config::kSent + lane * 16;  // [own block][rank]
  if (slices > 1) {
    cluster_wait();  // all have begun
#pragma unroll 1
    for (uint32_t block = warp; block < blocks; block += Config::kWarps) {
      float x[4] = {};
      own_sums(block * 32 + lane, x);
      uint32_t const local = block / slices, owner = block % slices;
      cluster_store16_async(cluster_address(sent + (local * slices + rank) * Config::kBlockBytes, owner), x,
                            cluster_address(sums_barrier, owner));
    }
  }
  uint32_t address = sent + warp * slices * Config::kBlockBytes;
#pragma unroll 1
  for (uint32_t block = warp * slices + rank; block < blocks; block += Config::kWarps * slices) {
    uint32_t const unit = block * 32 + lane, row = unit % Config::kTokenUnits * 4;
    uint32_t const row_block =
        Config::kRowGroups == 1 ? tile / 2 * kScaleAtomRows + tile % 2 * 16 : tile * Config::kRows;
    uint32_t const column =
        row_block + row / kScaleAtomRows * kScaleAtomRows + row % kScaleAtomRows / kUnit * 32 + row % kUnit;
    uint32_t const d_row = first_token + unit / Config::kTokenUnits;
    float x[4] = {};
    if (slices > 1) {
      // So a CTA that gets sums is there when they come.
      mbarrier_wait(sums_barrier, 0);
#pragma unroll 1
      for (uint32_t slice = 0; slice < slices; ++slice) {
        uint4 const v = shared_load16(address + slice * Config::kBlockBytes);
        x[0] += bits_float(v.x), x[1] += bits_float(v.y), x[2] += bits_float(v.z), x[3] += bits_float(v.w);
      }
      address += Config::kWarps * slices * Config::kBlockBytes;
    } else {
      own_sums(unit, x);
    }
    if (d_row >= static_cast<uint32_t>(args.gemm.m) || column >= static_cast<uint32_t>(args.gemm.n)) continue;
#pragma unroll
    for (uint32_t c = 0; c < 4; ++c) {
      float const bias = args.gemm.bias != nullptr ? load_bias(args.gemm.bias, args.gemm.bias_dtype, column + c) : 0.0f;
      // Unshifted first: alpha times 2^28 may overflow where the result does not.
      x[c] = scale * (MmaOperand<Config::kFormat>::kUnshift * x[c]) + bias;
    }
    with_output(args.gemm, [&](auto* d, auto aligned) {
      store_outputs<decltype(aligned)::value>(d + d_row * args.gemm.d_stride + column, x);
    });
  }
}

}  // namespace fp4aot

#endif
