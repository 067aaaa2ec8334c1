// FP4 operands of mma.sync, dequantised exactly in registers.
//
// NVFP4 in fp16: a code whose exponent and mantissa are moved to bits 11..9 of an fp16 is e2m1 * 2^-14 (subnormals
// too), and its product with an e4m3 scale a multiple of 2^-24 below 1: exact, with no other factor, and the scale has
// a conversion instruction. MXFP4 in bf16, whose range its scales need: dequant.cuh; or in fp16 as well, of scales that do
// not need it.
// The order along k is that of dequantize_word for both.
#ifndef FP4AOT_KERNELS_GEMM_MMA_OPERAND_CUH_
#define FP4AOT_KERNELS_GEMM_MMA_OPERAND_CUH_

#include "device/mma_sync.cuh"
#include "device/packed.cuh"
#include "kernels/gemm/dequant.cuh"

namespace fp4aot {

// Eight codes to fp16: pairs[i] holds e2m1 * 2^-14 of k = i (low half) and k = i + 4.
__device__ __forceinline__ void unpack_f16(uint32_t codes, uint32_t (&pairs)[4]) {
  // Signs to bit 7 of each byte, magnitudes to bits 3..1, for all even nibbles at once and for all odd ones; then a byte is
  // the upper one of a half as it is or 8 bits further. What else is in it is masked off last.
  constexpr uint32_t kSigns = 0x80808080u, kSignAndMagnitude = 0x8E008E00u;
  uint32_t const even = select_bits(codes << 4, codes << 1, kSigns), odd = select_bits(codes, codes >> 3, kSigns);
  pairs[0] = masked(even << 8, kSignAndMagnitude);
  pairs[1] = masked(odd << 8, kSignAndMagnitude);
  pairs[2] = masked(even, kSignAndMagnitude);
  pairs[3] = masked(odd, kSignAndMagnitude);
}

// 32 consecutive k of a row: constructed from their scale bytes in the low bits of `bytes` (NVFP4: 2, MXFP4: 1).
// kUnshift: what a product of two operands is to be multiplied with.
template <Format kFormat>
struct MmaOperand;

template <>
struct MmaOperand<Format::kNvfp4> {
  static constexpr float kUnshift = 268435456.0f;  // 2^(2 * 14)
  uint32_t scales;                                 // of words 0 and 1, and of words 2 and 3

  __device__ __forceinline__ explicit MmaOperand(uint32_t bytes) : scales(e4m3x2_to_f16x2(bytes)) {}

  // Word 0..3 of the four that hold the codes.
  __device__ __forceinline__ void dequantize(int word, uint32_t codes, uint32_t (&pairs)[4]) const {
    uint32_t shifted[4];
    unpack_f16(codes, shifted);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = word < 2 ? multiply_f16x2<0>(shifted[i], scales) : multiply_f16x2<1>(shifted[i], scales);
    }
  }

  static __device__ __forceinline__ void multiply(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k16_f16(d, a, b0, b1);
  }
};

template <>
struct MmaOperand<Format::kMxfp4> {
  static constexpr float kUnshift = BlockFactors<Format::kMxfp4>::kUnshift;
  Factor<Format::kMxfp4> factor;

  // As BlockFactors, but in both halves at once: for a byte alone.
  __device__ __forceinline__ explicit MmaOperand(uint32_t byte) {
    constexpr uint32_t kBoth = 0x00010001u, kExponents = 0x7F80u * kBoth;
    uint32_t const sum = byte * (kBoth << 6) + (251u << 6) * kBoth;
    factor.first = sum & kExponents;
    factor.second = byte == kUe8m0Nan ? 0x7FC0u * kBoth : (sum + (kBoth << 6)) & kExponents;
  }

  __device__ __forceinline__ void dequantize(int, uint32_t codes, uint32_t (&pairs)[4]) const {
    dequantize_word(codes, factor, pairs);
  }

  static __device__ __forceinline__ void multiply(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k16(d, a, b0, b1);
  }
};

// MXFP4 as MmaOperand<Format::kMxfp4>, in two steps, of which the second is for scales above kOneProduct alone: of others one
// factor fits into bf16.
struct Mxfp4TwoStepOperand {
  static constexpr uint32_t kOneProduct = 130;
  Factor<Format::kMxfp4> factor;

  // second: whether the second step will follow.
  __device__ __forceinline__ Mxfp4TwoStepOperand(uint32_t byte, bool second)
      : factor(second ? MmaOperand<Format::kMxfp4>(byte).factor
                      : Factor<Format::kMxfp4>{byte * 0x00800080u + 124u * 0x00800080u, 0}) {}

  __device__ __forceinline__ void dequantize(uint32_t codes, uint32_t (&pairs)[4]) const {
    dequantize_word(codes, Factor<Format::kNvfp4>{factor.first}, pairs);
  }
  __device__ __forceinline__ void finish(uint32_t& pair) const { pair = multiply_bf16x2(pair, factor.second); }
};

// MXFP4 in fp16, with the same products as MmaOperand<Format::kMxfp4>'s: for scales whose `field` fits.
struct Mxfp4F16Operand {
  // A scale byte less this is the exponent field of an fp16 that is the scale times 2^13 (weights) or 2^11 (activations).
  static constexpr uint32_t kWeightBias = 99, kActivationBias = 101;
  uint32_t factor;

  __device__ __forceinline__ explicit Mxfp4F16Operand(uint32_t field) : factor(field << 10) {}

  // From 6, below which a product with e2m1 * 2^-14 may lose bits, to 30. A value that is less than 32 for all fields
  // that fit, also of several combined by |.
  static __device__ __forceinline__ uint32_t misfit(uint32_t field) { return (field - 6) | (field + 1); }

  __device__ __forceinline__ void dequantize(int, uint32_t codes, uint32_t (&pairs)[4]) const {
    uint32_t shifted[4];
    unpack_f16(codes, shifted);
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = multiply_f16x2<0>(shifted[i], factor);
  }

  static __device__ __forceinline__ void multiply(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k16_f16(d, a, b0, b1);
  }
};

}  // namespace fp4aot

#endif
