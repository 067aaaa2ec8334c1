// Exact conversion of FP4 codes and their block scales to bf16, for tensor cores without FP4.
//
// e2m1 has bias 1 and 1 mantissa bit, bf16 bias 127 and 7: a code whose exponent and mantissa are moved to bits 8..6 of a
// bf16 is e2m1 * 2^-126 (subnormals too), so that one product with scale * 2^(126 - shift) dequantises it.
//   NVFP4: scales reach 448 < 2^9, so shift = 7 keeps the factor within bf16. e2m1 * e4m3 has 6 significant bits.
//   MXFP4: the factor 2^(byte - 127 + 126 - shift) does not fit; two products with about half the exponent each do. With
//          shift = 2 the results lie between 2^-130 and 1.5 * 2^127, exact in bf16 (subnormals reach 2^-133).
// Both operands of a product are dequantised with the same shift; kUnshift = 2^(2 * shift) undoes it on the accumulator.
#ifndef FP4AOT_KERNELS_GEMM_DEQUANT_CUH_
#define FP4AOT_KERNELS_GEMM_DEQUANT_CUH_

#include <cstdint>

#include "fp4aot/formats.h"

namespace fp4aot {

__device__ __forceinline__ uint32_t multiply_bf16x2(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

// What the codes of one scale block are multiplied with.
template <Format kFormat>
struct Factor;

template <>
struct Factor<Format::kNvfp4> {
  uint32_t value;  // twice, one in each half, as below
  __device__ __forceinline__ uint32_t apply(uint32_t pair) const { return multiply_bf16x2(pair, value); }
};

template <>
struct Factor<Format::kMxfp4> {
  uint32_t first, second;
  __device__ __forceinline__ uint32_t apply(uint32_t pair) const {
    return multiply_bf16x2(multiply_bf16x2(pair, first), second);
  }
};

// The factors of 32 consecutive k, whose scale bytes are in the low bits of `bytes` (NVFP4: 2 bytes, MXFP4: 1).
template <Format kFormat>
struct BlockFactors;

template <>
struct BlockFactors<Format::kNvfp4> {
  static constexpr float kUnshift = 16384.0f;  // 2^(2 * 7)
  uint32_t factor[2];                          // of k 0..15 and 16..31

  BlockFactors() = default;
  __device__ __forceinline__ explicit BlockFactors(uint32_t bytes) {
    uint32_t const f = convert(__byte_perm(bytes, 0, 0x4140));
    factor[0] = __byte_perm(f, 0, 0x1010);
    factor[1] = __byte_perm(f, 0, 0x3232);
  }
  // word = 0..3 of the 4 words that hold the 32 codes
  __device__ __forceinline__ Factor<Format::kNvfp4> of_word(int word) const { return {factor[word / 2]}; }

  // Of words 2 * half and 2 * half + 1 only.
  __device__ __forceinline__ static Factor<Format::kNvfp4> of_half(uint32_t bytes, int half) {
    return {convert(__byte_perm(bytes, 0, half == 0 ? 0x4040 : 0x4141))};
  }

 private:
  // One e4m3 byte in each half to bf16, times 2^119.
  __device__ __forceinline__ static uint32_t convert(uint32_t halves) {
    uint32_t const nan = (halves + 0x00010001u) & 0x00800080u;     // 0x7F + 1 carries into bit 7
    uint32_t const f = multiply_bf16x2(halves << 4, 0x7B807B80u);  // (e4m3 * 2^-120) * 2^120
    return multiply_bf16x2(f, 0x7B007B00u) | nan;                  // * 2^119; 480 * 2^119 | bit 7 is a NaN
  }
};

template <>
struct BlockFactors<Format::kMxfp4> {
  static constexpr float kUnshift = 16.0f;  // 2^(2 * 2)
  Factor<Format::kMxfp4> factor;

  BlockFactors() = default;
  __device__ __forceinline__ explicit BlockFactors(uint32_t bytes) {
    // 2^(byte - 3) = 2^(x - 127) * 2^(y - 127) with x = (byte + 251) / 2 and y = (byte + 252) / 2, rounded down.
    uint32_t const sum = (bytes & 0xFFu) + 251u;
    uint32_t const x = sum << 6 & 0x7F80u;
    uint32_t y = (sum + 1u) << 6 & 0x7F80u;
    if ((bytes & 0xFFu) == kUe8m0Nan) y = 0x7FC0u;
    factor.first = __byte_perm(x, 0, 0x1010);
    factor.second = __byte_perm(y, 0, 0x1010);
  }
  __device__ __forceinline__ Factor<Format::kMxfp4> of_word(int) const { return factor; }
  __device__ __forceinline__ static Factor<Format::kMxfp4> of_half(uint32_t bytes, int) {
    return BlockFactors(bytes).factor;
  }
};

// Eight codes of one scale block to bf16: pairs[i] holds k = i (low half) and k = i + 4 of the word.
template <Format kFormat>
__device__ __forceinline__ void dequantize_word(uint32_t codes, Factor<kFormat> const& factor, uint32_t (&pairs)[4]) {
  // One product moves sign and magnitude of a nibble: by 12 and 6 (or 8 and 2) bits. Other bits are masked off before,
  // so that nothing carries, and the copies that landed between are masked off after.
  constexpr uint32_t kSignAndMagnitude = 0x81C081C0u;
  uint32_t const high = codes >> 8;
  pairs[0] = factor.apply((codes & 0x000F000Fu) * 0x1040u & kSignAndMagnitude);
  pairs[1] = factor.apply((codes & 0x00F000F0u) * 0x0104u & kSignAndMagnitude);
  pairs[2] = factor.apply((high & 0x000F000Fu) * 0x1040u & kSignAndMagnitude);
  pairs[3] = factor.apply((high & 0x00F000F0u) * 0x0104u & kSignAndMagnitude);
}

}  // namespace fp4aot

#endif
