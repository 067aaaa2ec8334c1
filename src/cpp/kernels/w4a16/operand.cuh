// Prepared codes and scales (fp4aot/w4a16_layout.h) to operands of mma.m16n8k16 in registers.
//
// 16 bytes of codes are rows g and g + 8 of 16 k; their four words make the A registers of four products. All values are
// exact; a power of two is left over, kUnscale, for the accumulator.
//   bfloat16  e2m1 * 2^-126 by moving bits; NVFP4: times scale * 2^119; MXFP4: times 2^124 and then times the scale
//   fp16      e2m1 * 2^-14;                 NVFP4: times scale * 2^7;   MXFP4: as it is, its scales go to sums
#ifndef FP4AOT_KERNELS_W4A16_OPERAND_CUH_
#define FP4AOT_KERNELS_W4A16_OPERAND_CUH_

#include <cstdint>

#include "device/mma_sync.cuh"
#include "device/packed.cuh"
#include "fp4aot/w4a16_layout.h"

namespace fp4aot {

// (a & mask) | (b & ~mask); opaque as masked() is.
template <uint32_t kMask>
__device__ __forceinline__ uint32_t select_bits(uint32_t a, uint32_t b) {
  uint32_t word;
  asm("lop3.b32 %0, %1, %2, %3, 0xE4;" : "=r"(word) : "r"(a), "r"(b), "n"(kMask));
  return word;
}

__device__ __forceinline__ uint32_t rotate_right(uint32_t x, int count) { return __funnelshift_r(x, x, count); }

// Both halves of `pair` times both of `factors`.
template <bool kBf16>
__device__ __forceinline__ uint32_t multiply_pair(uint32_t pair, uint32_t factors) {
  uint32_t word;
  if constexpr (kBf16) {
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(pair), "r"(factors));
  } else {
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(word) : "r"(pair), "r"(factors));
  }
  return word;
}

// The four registers of a word of prepared codes (w4a16_layout.h): e2m1 * 2^-126 or e2m1 * 2^-14.
template <bool kBf16>
__device__ __forceinline__ void spread_codes(uint32_t w, uint32_t (&a)[4]) {
  if constexpr (kBf16) {
    constexpr uint32_t kBits = 0x81C081C0u;
    a[0] = masked(w, kBits);
    a[1] = masked(w << 6, kBits);
    a[2] = masked(rotate_right(w, 4), kBits);
    a[3] = masked(select_bits<0x01000100u>(w >> 6, w << 2), kBits);
  } else {
    constexpr uint32_t kBits = 0x8E008E00u, kSigns = 0x80008000u;
    a[0] = masked(select_bits<kSigns>(w, w << 3), kBits);
    a[1] = masked(select_bits<kSigns>(w << 6, w << 9), kBits);
    a[2] = masked(select_bits<kSigns>(rotate_right(w, 4), w >> 1), kBits);
    a[3] = masked(select_bits<kSigns>(w << 2, select_bits<0x08000800u>(w >> 3, w << 5)), kBits);
  }
}

// The scales of rows g (low byte of `bytes`) and g + 8 (the byte above) of one block, as factors in the two halves.
// kSmall: MXFP4 and bf16, if the scales are below 2: times 2^124, which codes then need not be multiplied with.
template <Format kFormat, bool kBf16, bool kSmall = false>
__device__ __forceinline__ uint32_t row_factors(uint32_t bytes) {
  uint32_t const halves = __byte_perm(bytes, 0, 0x4140);
  uint32_t f;
  if constexpr (!kBf16) {
    f = halves << 7;
  } else if constexpr (kSmall) {
    f = halves * 128u + 0x3E003E00u;
  } else if constexpr (kFormat == Format::kNvfp4) {
    // 2^97, which a zero became, is less than half a unit in the last place of all others, which begin at 2^110.
    uint32_t const normal = halves * 16u + 0x70007000u;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(f) : "r"(normal), "r"(0x3F803F80u), "r"(0xF000F000u));
  } else {
    // 2^(byte - 127): but 0 is 2^-127 and infinity NaN.
    uint32_t const normal = halves << 7;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(f) : "r"(normal), "r"(0x00400040u));
    asm("fma.rn.bf16x2 %0, %1, %2, %1;" : "=r"(f) : "r"(f), "r"(0u));
  }
  return f;
}

// Whether one of the ue8m0 scales of row_factors' `bytes`, or of several of them by OR, is 2 or more, or NaN.
__device__ __forceinline__ bool w4a16_large_scale(uint32_t bytes) { return (bytes & 0x8080u) != 0; }

// Both factors, each in both halves of a register.
template <Format kFormat, bool kBf16>
struct RowFactors {
  uint32_t row[2];

  RowFactors() = default;
  __device__ __forceinline__ explicit RowFactors(uint32_t bytes) { set(row_factors<kFormat, kBf16>(bytes)); }

  // f: of row_factors.
  __device__ __forceinline__ void set(uint32_t f) {
    // As moves of halves, which become operand modifiers of the products; byte permutations would not.
    asm("{\n"
        ".reg .b16 low, high;\n"
        "mov.b32 {low, high}, %2;\n"
        "mov.b32 %0, {low, low};\n"
        "mov.b32 %1, {high, high};\n"
        "}"
        : "=r"(row[0]), "=r"(row[1])
        : "r"(f));
  }
};

// Half of the operands of 16 bytes of codes: k 8 * kHalf .. 8 * kHalf + 7 of the block, a[j] for four of them. The two
// registers of a product come from two words, so that its activations are neighbours in memory and need no moves.
template <Format kFormat, bool kBf16, int kHalf, bool kSmall = false>
__device__ __forceinline__ void dequantize_half(uint4 codes, RowFactors<kFormat, kBf16> const& factors,
                                                uint32_t (&a)[2][4]) {
  uint32_t const words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t word[4];
    spread_codes<kBf16>(words[i], word);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint32_t pair = word[2 * kHalf + h];
      if constexpr (kFormat == Format::kMxfp4 && kBf16 && !kSmall) pair = multiply_pair<true>(pair, 0x7D807D80u);
      a[i / 2][i % 2 * 2 + h] = multiply_pair<kBf16>(pair, factors.row[h]);
    }
  }
}

// MXFP4 with fp16 activations: fp16 cannot hold the scales, so a block's sums are scaled, in fp32.
__device__ __forceinline__ float ue8m0_factor(uint32_t byte_at_23) {
  float const f = fmaxf(bits_float(byte_at_23 & 0x7F800000u), 0x1p-127f);
  return __fmaf_rn(f, 0.0f, f);  // infinity becomes NaN
}

// What results are multiplied with at the end.
template <Format kFormat, bool kBf16>
inline constexpr float kW4a16Unscale = kFormat == Format::kNvfp4 ? 128.0f
                                       : kBf16                   ? 4.0f
                                                                 : 1.0f;

template <bool kBf16>
__device__ __forceinline__ void multiply_tile(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kBf16) {
    mma_m16n8k16(d, a, b0, b1);
  } else {
    mma_m16n8k16_f16(d, a, b0, b1);
  }
}

}  // namespace fp4aot

#endif
