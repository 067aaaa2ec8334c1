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

// The factors of 32 consecutive k, whose scale bytes are in the low bits of `bytes` (NVFP4: 2 bytes, MXFP4: 1).
template <Format kFormat>
struct BlockFactors;

template <>
struct BlockFactors<Format::kNvfp4> {
  static constexpr float kUnshift = 16384.0f;  // 2^(2 * 7)
  uint32_t factor[2];                          // of k 0..15 and 16..31, twice in a register

  BlockFactors() = default;
  __device__ __forceinline__ explicit BlockFactors(uint32_t bytes) {
    uint32_t const halves = __byte_perm(bytes, 0, 0x4140);             // one byte in each half
    uint32_t const nan = (halves + 0x00010001u) & 0x00800080u;          // 0x7F + 1 carries into bit 7
    uint32_t f = multiply_bf16x2(halves << 4, 0x7B807B80u);             // (e4m3 * 2^-120) * 2^120
    f = multiply_bf16x2(f, 0x7B007B00u) | nan;                          // * 2^119; 480 * 2^119 | bit 7 is a NaN
    factor[0] = __byte_perm(f, 0, 0x1010);
    factor[1] = __byte_perm(f, 0, 0x3232);
  }

  __device__ __forceinline__ uint32_t apply(uint32_t pair, int word) const {
    return multiply_bf16x2(pair, factor[word / 2]);
  }
};

template <>
struct BlockFactors<Format::kMxfp4> {
  static constexpr float kUnshift = 16.0f;  // 2^(2 * 2)
  uint32_t factor[2];                       // first and second, each twice in a register

  BlockFactors() = default;
  __device__ __forceinline__ explicit BlockFactors(uint32_t bytes) {
    // 2^(byte - 3) = 2^(x - 127) * 2^(y - 127) with x = (byte + 251) / 2 and y = (byte + 252) / 2, rounded down.
    uint32_t const sum = (bytes & 0xFFu) + 251u;
    uint32_t const x = sum << 6 & 0x7F80u;
    uint32_t y = (sum + 1u) << 6 & 0x7F80u;
    if ((bytes & 0xFFu) == kUe8m0Nan) y = 0x7FC0u;
    factor[0] = __byte_perm(x, 0, 0x1010);
    factor[1] = __byte_perm(y, 0, 0x1010);
  }

  __device__ __forceinline__ uint32_t apply(uint32_t pair, int) const {
    return multiply_bf16x2(multiply_bf16x2(pair, factor[0]), factor[1]);
  }
};

// Eight codes to bf16: pairs[i] holds k = i (low half) and k = i + 4 of the word. word = 0..3: its place in the 32 codes
// that `factors` are for.
template <Format kFormat>
__device__ __forceinline__ void dequantize_word(uint32_t codes, BlockFactors<kFormat> const& factors, int word,
                                                uint32_t (&pairs)[4]) {
  // One product moves sign and magnitude of a nibble: by 12 and 6 (or 8 and 2) bits. Other bits are masked off before,
  // so that nothing carries, and the copies that landed between are masked off after.
  constexpr uint32_t kSignAndMagnitude = 0x81C081C0u;
  uint32_t const high = codes >> 8;
  pairs[0] = factors.apply((codes & 0x000F000Fu) * 0x1040u & kSignAndMagnitude, word);
  pairs[1] = factors.apply((codes & 0x00F000F0u) * 0x0104u & kSignAndMagnitude, word);
  pairs[2] = factors.apply((high & 0x000F000Fu) * 0x1040u & kSignAndMagnitude, word);
  pairs[3] = factors.apply((high & 0x00F000F0u) * 0x0104u & kSignAndMagnitude, word);
}

}  // namespace fp4aot

#endif
