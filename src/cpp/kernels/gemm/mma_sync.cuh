// W4A4 for few activation rows: weights stream through each thread's own shared memory to the registers of mma.sync.
//
// A CTA owns kUnits * 8 weight rows and kTokenTiles * 8 activation rows; its warps share k in steps of 128 values, one
// step a warp and turn, and add their sums through shared memory at the end. Nothing is shared before, so no warp waits
// for another.
//
// A thread (lane = 4 * g + t) reads values 32t..32t+31 of a step, 16 bytes, of row g of each unit of 8 rows, and
// dequantises both operands itself. The order along k is that of dequantize_word, the same for both.
// Units follow each other through a block of 128 rows such that four of them, rows r, r + 32, r + 64 and r + 96, have
// their scales in neighbouring bytes.
#ifndef FP4AOT_KERNELS_GEMM_MMA_SYNC_CUH_
#define FP4AOT_KERNELS_GEMM_MMA_SYNC_CUH_

#include "device/cp_async.cuh"
#include "device/mbarrier.cuh"
#include "device/pdl.cuh"
#include "device/shared_memory.cuh"
#include "kernels/gemm/args.h"
#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/mma_operand.cuh"

namespace fp4aot {

template <Format kFormatValue, int kUnitsValue, int kTokenTilesValue>
struct MmaSyncConfig {
  static constexpr Format kFormat = kFormatValue;
  static constexpr int kUnits = kUnitsValue;  // of 8 weight rows
  static constexpr int kTokenTiles = kTokenTilesValue;
  static constexpr int kRows = 8 * kUnits, kTokens = 8 * kTokenTiles;
  static constexpr int kStrips = (kUnits + 1) / 2;             // 16-row operands
  static constexpr int kScaleUnits = kUnits % 4 == 0 ? 4 : 1;  // whose scales are neighbours in every CTA
  static constexpr int kScaleWords = kUnits / kScaleUnits;
  static_assert(kTokens <= 32 && 32 % kTokens == 0, "a CTA's tokens have their scales in one column of words");
  // What the registers of a thread allow.
  static constexpr int kMaxWarps = kTokenTiles == 1 || kUnits * kTokenTiles <= 8 ? 16
                                   : kUnits * kTokenTiles <= 16                  ? 12
                                                                                 : 8;
  static constexpr int kStep = 128;
  static constexpr int kStepAtomBytes = kStep / (kVector<kFormat> * kScaleAtomColumns) * kScaleAtomBytes;

  static constexpr int kWords = kTokenTiles <= 2 ? 4 : 2;  // dequantised at once, as there are registers for

  // A slot holds a step of a warp: a thread reads only what it copied itself, so that no barrier is needed.
  static constexpr int kSlots = kUnits <= 4 && kTokenTiles <= 2 ? 3 : 2;
  static constexpr int kVectors = kUnits + kTokenTiles;  // 16 bytes of codes and a word of scales a thread
  static constexpr int kScaleOffset = kVectors * 512;
  static constexpr int kSlotBytes = kScaleOffset + kVectors * 128;
  static constexpr int kWarpBytes = kSlots * kSlotBytes;
  static_assert(kWarpBytes >= kTokens * kRows * 4, "a warp's sums lie over its slots");
  // Slots or sums, and alpha: it comes with the first copies, as a load at the end would wait for memory.
  __host__ __device__ static constexpr int shared_bytes(int warps) { return warps * kWarpBytes + 16; }
  static_assert(shared_bytes(kMaxWarps) <= 227 * 1024);
};

// The row of unit `unit`'s row 0 in the matrix.
__host__ __device__ constexpr uint32_t unit_row(uint32_t unit) {
  return unit / 16 * kScaleAtomRows + unit % 4 * 32 + unit % 16 / 4 * 8;
}

// A thread's copies. Its lane is 4 * g + t. All of its set-up is in the way of the first copies: few instructions.
template <class Config>
class StepReader {
 public:
  static constexpr Format kFormat = Config::kFormat;

  // first_step: of the first copies. stride: steps from one to the next.
  __device__ __forceinline__ StepReader(GemmArgs const& args, uint32_t first_unit, uint32_t first_token,
                                        uint32_t first_step, uint32_t stride)
      : left_(args.k - static_cast<int32_t>((threadIdx.x % 4 + first_step * 4) * 32)),
        stride_(stride),
        tokens_inside_(0) {
    uint32_t const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    uint32_t const row_block =  // bytes of scales
        (static_cast<uint32_t>(args.k) / kVector<kFormat> + kScaleAtomColumns - 1) / kScaleAtomColumns *
        kScaleAtomBytes;
    // From a row's first byte, or that of its row block's scales, to this thread's 16 bytes of codes, and to the word
    // with its scale bytes.
    uint32_t const code = first_step * (Config::kStep / 2) + t * 16;
    uint32_t const scale =
        first_step * Config::kStepAtomBytes + (kFormat == Format::kNvfp4 ? t / 2 * kScaleAtomBytes : 0);
    uint64_t const b_stride = static_cast<uint32_t>(args.b_stride), a_stride = static_cast<uint32_t>(args.a_stride);
#pragma unroll
    for (int i = 0; i < Config::kUnits; ++i) {
      uint32_t row = unit_row(first_unit + i);
      if (row >= static_cast<uint32_t>(args.n)) row = 0;  // reaches only results that are not stored
      codes_[i] = args.b_codes + (code + g * b_stride) + row * b_stride;
      if (i % Config::kScaleUnits == 0) {
        scales_[i / Config::kScaleUnits] = args.b_scales + (scale + g * 16) +
                                           uint64_t{row / kScaleAtomRows} * row_block +
                                           (row % 32 * 16 + row % kScaleAtomRows / 32 * 4);
      }
    }
    token_scales_ = args.a_scales + uint64_t{first_token / kScaleAtomRows} * row_block +
                    (scale + first_token % 32 * 16 + first_token % kScaleAtomRows / 32 * 4);
#pragma unroll
    for (int i = 0; i < Config::kTokenTiles; ++i) {
      uint32_t const row = first_token + 8 * i + g;
      if (row < static_cast<uint32_t>(args.m)) tokens_inside_ |= 1u << i;
      token_offsets_[i] = row < static_cast<uint32_t>(args.m) ? i * 128 + g * 16 : 0;  // else the scales of another row
      codes_[Config::kUnits + i] = args.a_codes + (code + row * a_stride);
    }
  }

  // Starts the next copies. Values beyond k become zero codes with zero scales, rows of A outside of it zero codes; their
  // memory is not touched.
  __device__ __forceinline__ void start(uint32_t code_slot, uint32_t scale_slot) {
    bool const inside = left_ > 0;
#pragma unroll
    for (int i = 0; i < Config::kVectors; ++i) {
      bool const weight = i < Config::kUnits;
      int const tile = i - Config::kUnits;
      cp_async16(code_slot + i * 512, codes_[i], inside && (weight || (tokens_inside_ >> tile & 1) != 0));
      cp_async4(scale_slot + i * 128,
                weight ? scales_[i / Config::kScaleUnits] + i % Config::kScaleUnits * 4
                       : token_scales_ + token_offsets_[weight ? 0 : tile],
                inside);
      codes_[i] += stride_ * (Config::kStep / 2);
    }
#pragma unroll
    for (int i = 0; i < Config::kScaleWords; ++i) scales_[i] += stride_ * Config::kStepAtomBytes;
    token_scales_ += stride_ * Config::kStepAtomBytes;
    left_ -= static_cast<int32_t>(stride_ * Config::kStep);
  }

 private:
  int32_t left_;  // values from this thread's first one to k
  uint32_t stride_;
  uint32_t tokens_inside_;  // a bit a token tile
  uint8_t const* codes_[Config::kVectors];
  uint8_t const* scales_[Config::kScaleWords];  // the words of kScaleUnits units follow each other
  uint8_t const* token_scales_;                 // of the first row
  uint32_t token_offsets_[Config::kTokenTiles];
};

template <int kWords>
struct RowWords {
  uint32_t word[kWords];
};

// kWords words of codes of row i of a slot: all four, or two from `half` on.
template <int kWords>
__device__ __forceinline__ RowWords<kWords> load_row(uint32_t code_slot, int i, int half) {
  if constexpr (kWords == 4) {
    uint4 const v = shared_load16(code_slot + i * 512);
    return {{v.x, v.y, v.z, v.w}};
  } else {
    uint2 const v = shared_load8(code_slot + i * 512 + half * 8);
    return {{v.x, v.y}};
  }
}

// words(i, half): load_row. scales(i, half): what an Operand is made of, for row i of a slot, or for that half of it.
template <class Config, class Operand, class Words, class Scales>
__device__ __forceinline__ void multiply_step(Words const& words, Scales const& scales,
                                              float (&accumulator)[Config::kStrips][Config::kTokenTiles][4]) {
  constexpr int kWords = Config::kWords;
#pragma unroll 1
  for (int half = 0; half < 4 / kWords; ++half) {
    auto const load = [&](int i, uint32_t (&pairs)[kWords][4]) {
      RowWords<kWords> const codes = words(i, half);
      Operand const operand(scales(i, half));
#pragma unroll
      for (int w = 0; w < kWords; ++w) operand.dequantize(w, codes.word[w], pairs[w]);
    };
    uint32_t tokens[Config::kTokenTiles][kWords][4];
#pragma unroll
    for (int i = 0; i < Config::kTokenTiles; ++i) load(Config::kUnits + i, tokens[i]);
#pragma unroll
    for (int strip = 0; strip < Config::kStrips; ++strip) {
      uint32_t rows[2][kWords][4] = {};  // an odd last unit leaves zeros
      load(2 * strip, rows[0]);
      if (2 * strip + 1 < Config::kUnits) load(2 * strip + 1, rows[1]);
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          uint32_t const operand[4] = {rows[0][w][2 * j], rows[1][w][2 * j], rows[0][w][2 * j + 1],
                                       rows[1][w][2 * j + 1]};
#pragma unroll
          for (int i = 0; i < Config::kTokenTiles; ++i) {
            Operand::multiply(accumulator[strip][i], operand, tokens[i][w][2 * j], tokens[i][w][2 * j + 1]);
          }
        }
      }
    }
  }
}

// The same for either format. scale_bytes: where the scale bytes of this thread for row 0 are.
template <class Config>
__device__ __forceinline__ void multiply_any_step(uint32_t code_slot, uint32_t scale_bytes,
                                                  float (&accumulator)[Config::kStrips][Config::kTokenTiles][4]) {
  constexpr int kWords = Config::kWords, kUnits = Config::kUnits;
  if constexpr (Config::kFormat == Format::kNvfp4) {
    auto const words = [&](int i, int half) { return load_row<kWords>(code_slot, i, half); };
    auto const scales = [&](int i, int half) {
      return kWords == 4 ? shared_load2(scale_bytes + i * 128) : shared_load1(scale_bytes + i * 128 + half);
    };
    multiply_step<Config, MmaOperand<Config::kFormat>>(words, scales, accumulator);
  } else {
    using Narrow = Mxfp4F16Operand;
    auto const bias = [](int i) { return i < kUnits ? Narrow::kWeightBias : Narrow::kActivationBias; };
    uint32_t fields[Config::kVectors], misfit = 0;
#pragma unroll
    for (int i = 0; i < Config::kVectors; ++i) fields[i] = shared_load1(scale_bytes + i * 128) - bias(i);
    // What is needed first, before the scales are looked at.
    RowWords<kWords> first[3] = {};
    auto const words = [&](int i, int half) {
      if (kWords == 4 && (i < 2 || i == kUnits)) return first[i < 2 ? i : 2];
      return load_row<kWords>(code_slot, i, half);
    };
    if constexpr (kWords == 4) {
      first[2] = load_row<kWords>(code_slot, kUnits, 0);
#pragma unroll
      for (int i = 0; i < 2; ++i) first[i] = load_row<kWords>(code_slot, i, 0);
    }
#pragma unroll
    for (int i = 0; i < Config::kVectors; ++i) misfit |= Narrow::misfit(fields[i]);
    if (__builtin_expect(__all_sync(~0u, misfit < 32), 1)) {  // fewer instructions
      multiply_step<Config, Narrow>(words, [&](int i, int) { return fields[i]; }, accumulator);
    } else {
      auto const scales = [&](int i, int) { return fields[i] + bias(i); };
      multiply_step<Config, MmaOperand<Config::kFormat>>(words, scales, accumulator);
    }
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kMaxWarps * 32, 1) mma_sync_gemm_kernel(GemmArgs const args) {
  extern __shared__ __align__(16) float sums[];  // slots, then [warp][token][row of the CTA]
  constexpr int kWarpFloats = Config::kTokens * Config::kRows;
  pdl_wait();
  int const warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  uint32_t const first_unit = blockIdx.x * Config::kUnits;
  int const first_token = blockIdx.y * Config::kTokens;
  int const steps = (args.k + Config::kStep - 1) / Config::kStep;
  StepReader<Config> reader(args, first_unit, first_token, warp, warps);
  uint32_t const slots = shared_address(sums) + warp * Config::kWarpBytes;
#pragma unroll 1
  for (int i = 0; i < Config::kSlots; ++i) {
    uint32_t const slot = slots + i * Config::kSlotBytes;
    if (warp + i * warps < steps) reader.start(slot + lane * 16, slot + Config::kScaleOffset + lane * 4);
    cp_async_commit();
  }
  uint32_t const alpha = shared_address(sums) + warps * Config::kWarpBytes;
  if (threadIdx.x == 0 && args.alpha != nullptr) cp_async4(alpha, args.alpha, true);
  float accumulator[Config::kStrips][Config::kTokenTiles][4] = {};
  uint32_t const scale_byte = Config::kFormat == Format::kNvfp4 ? t % 2 * 2 : t;
  uint32_t slot = 0;  // offset
#pragma unroll 1
  for (int step = warp; step < steps; step += warps) {
    cp_async_wait<Config::kSlots - 1>();
    uint32_t const code_slot = slots + slot + lane * 16, scale_slot = slots + slot + Config::kScaleOffset + lane * 4;
    multiply_any_step<Config>(code_slot, scale_slot + scale_byte, accumulator);
    if (step + Config::kSlots * warps < steps) reader.start(code_slot, scale_slot);
    cp_async_commit();
    slot = slot == (Config::kSlots - 1) * Config::kSlotBytes ? 0 : slot + Config::kSlotBytes;
  }
  pdl_launch_dependents();  // not before: CTAs of the next kernel that wait beside this one's slow it down
  cp_async_wait<0>();
  __syncthreads();

  float* const own = sums + warp * kWarpFloats;
#pragma unroll
  for (int strip = 0; strip < Config::kStrips; ++strip) {
#pragma unroll
    for (int i = 0; i < Config::kTokenTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (2 * strip + h >= Config::kUnits) continue;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          own[(8 * i + 2 * t + e) * Config::kRows + (2 * strip + h) * 8 + g] = accumulator[strip][i][2 * h + e];
        }
      }
    }
  }
  __syncthreads();
  float const scale = args.alpha != nullptr ? bits_float(shared_load4(alpha)) : 1.0f;
#pragma unroll 1
  for (int i = threadIdx.x; i < kWarpFloats; i += blockDim.x) {
    int const token = first_token + i / Config::kRows, row = i % Config::kRows;
    int const column = static_cast<int>(unit_row(first_unit + row / 8)) + row % 8;
    if (token >= args.m || column >= args.n) continue;
    float sum = 0.0f;
#pragma unroll 4
    for (int w = 0; w < warps; ++w) sum += sums[w * kWarpFloats + i];
    float const bias = args.bias != nullptr ? load_bias(args.bias, args.bias_dtype, column) : 0.0f;
    // Unshifted first: alpha times 2^28 may overflow where the result does not.
    float const x[1] = {scale * (MmaOperand<Config::kFormat>::kUnshift * sum) + bias};
    with_output(args, [&](auto* d, auto) { store_outputs<false>(d + token * args.d_stride + column, x); });
  }
}

}  // namespace fp4aot

#endif
