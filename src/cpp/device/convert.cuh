// Conversions between fp32, the 16-bit types, e4m3 and e2m1 in registers, to the bit as fp4aot/formats.h defines them.
#ifndef FP4AOT_DEVICE_CONVERT_CUH_
#define FP4AOT_DEVICE_CONVERT_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "fp4aot/formats.h"

namespace fp4aot {

template <class To, class From>
__device__ __forceinline__ To bit_cast(From const& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

__device__ __forceinline__ float max_nan(float a, float b) {  // NaN if either is
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// Element types as 32-bit words of kPerWord elements, the element of the lower index in the lower half. abs_max: of
// each element of two words the larger magnitude, NaN if either is; its sign bit is arbitrary. magnitude: of the larger
// element of a word.
template <class T>
struct Element;

template <>
struct Element<float> {
  static constexpr int kPerWord = 1;
  static __device__ __forceinline__ void unpack(uint32_t word, float* out) { out[0] = bits_float(word); }
  static __device__ __forceinline__ uint32_t pack(float const* in) { return float_bits(in[0]); }
  static __device__ __forceinline__ uint32_t abs_max(uint32_t a, uint32_t b) {
    return float_bits(max_nan(fabsf(bits_float(a)), fabsf(bits_float(b))));
  }
  static __device__ __forceinline__ float magnitude(uint32_t a) { return fabsf(bits_float(a)); }
};

template <>
struct Element<__nv_bfloat16> {
  static constexpr int kPerWord = 2;
  static __device__ __forceinline__ void unpack(uint32_t word, float* out) {
    out[0] = bits_float(word << 16);
    out[1] = bits_float(word & 0xFFFF0000u);
  }
  static __device__ __forceinline__ uint32_t pack(float const* in) {
    return bit_cast<uint32_t>(__floats2bfloat162_rn(in[0], in[1]));
  }
  static __device__ __forceinline__ uint32_t abs_max(uint32_t a, uint32_t b) {
    uint32_t result;  // one instruction, where the intrinsics take three
    asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
  }
  static __device__ __forceinline__ float magnitude(uint32_t a) {
    float halves[2];
    unpack(a & 0x7FFF7FFFu, halves);
    return max_nan(halves[0], halves[1]);
  }
};

template <>
struct Element<__half> {
  static constexpr int kPerWord = 2;
  static __device__ __forceinline__ void unpack(uint32_t word, float* out) {
    float2 const pair = __half22float2(bit_cast<__half2>(word));
    out[0] = pair.x;
    out[1] = pair.y;
  }
  static __device__ __forceinline__ uint32_t pack(float const* in) {
    return bit_cast<uint32_t>(__floats2half2_rn(in[0], in[1]));
  }
  static __device__ __forceinline__ uint32_t abs_max(uint32_t a, uint32_t b) {
    uint32_t result;
    asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
    return result;
  }
  static __device__ __forceinline__ float magnitude(uint32_t a) {
    float halves[2];
    unpack(a & 0x7FFF7FFFu, halves);
    return max_nan(halves[0], halves[1]);
  }
};

// e4m3 has conversion instructions on every architecture of ours (sm_89 and later).
__device__ __forceinline__ uint8_t e4m3_from_float(float x) {  // e4m3_rn_satfinite
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return static_cast<uint8_t>(pair);
}

__device__ __forceinline__ float e4m3_as_float(uint8_t byte) {  // e4m3_to_float
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(byte)));
  return __low2float(bit_cast<__half2>(halves));
}

// a / b, given an approximation of 1 / b: correctly rounded if that is within an ulp and neither the quotient nor what
// the remainder needs leaves the normal range. Zeros keep their sign.
__device__ __forceinline__ float divide_by_inverse(float a, float b, float inverse) {
  float const quotient = __fmul_rn(a, inverse);
  float const excess = __fmaf_rn(b, quotient, -a);
  return __fmaf_rn(-excess, inverse, quotient);
}

__device__ __forceinline__ float approximate_inverse(float x) {  // to an ulp; 0 for x > 2^126
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}

// a / b as the compiler divides, but without its branch to a path for extreme operands, which costs more than the
// arithmetic in an unrolled loop: correctly rounded for 2^-100 <= |a|, b <= 2^100 and for a = 0.
__device__ __forceinline__ float divide_moderate(float a, float b) {
  float const inverse = approximate_inverse(b);
  return divide_by_inverse(a, b, __fmaf_rn(__fmaf_rn(-b, inverse, 1.0f), inverse, inverse));
}

// Byte kByte of each word.
template <int kByte>
__device__ __forceinline__ uint32_t gather_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  constexpr uint32_t kPair = kByte | (kByte + 4) << 4;
  return __byte_perm(__byte_perm(a, b, kPair), __byte_perm(c, d, kPair), 0x5410);
}

// The signs of eight elements where e2m1 has them: bit 3 of each nibble of a word, the other bits 0.
template <class T>
__device__ __forceinline__ uint32_t e2m1_signs(uint32_t const* words) {
  uint32_t even, odd;
  if constexpr (Element<T>::kPerWord == 1) {
    even = gather_bytes<3>(words[0], words[2], words[4], words[6]);
    odd = gather_bytes<3>(words[1], words[3], words[5], words[7]);
  } else {
    uint32_t const low = __byte_perm(words[0], words[1], 0x7351);  // bytes 1, 1, 3, 3 of the two words
    uint32_t const high = __byte_perm(words[2], words[3], 0x7351);
    even = __byte_perm(low, high, 0x5410);
    odd = __byte_perm(low, high, 0x7632);
  }
  return (even >> 4 & 0x08080808u) | (odd & 0x80808080u);
}

// Eight e2m1 codes in a word, the lowest nibble first: e2m1_rn_satfinite(x[i] * r) for finite x. The codec is given
// r * kFactor, and `signs` from e2m1_signs. For architectures without a conversion instruction.
//
// With y = |x| * r the magnitude's code is the least of rn(2y), 2 + rn(y), 4 + rn(y / 2) and 7: each is the code on the
// part of the axis where e2m1 has that spacing, and larger elsewhere. Added to 1.5 * 2^23 an integer stands in the low
// bits of a float and its ties go to even, as e2m1's do, because 2 and 4 are even. y / 8 is clamped to 1 by the
// multiplication itself, which leaves 8 as the largest sum; eight nibbles at a time become 7. The products with powers
// of two are exact, or so small that the code is 0.
struct SoftwareE2m1 {
  static constexpr float kFactor = 0.125f;

  static __device__ __forceinline__ uint32_t encode8(float const* x, float r_eighth, uint32_t signs) {
    constexpr float kInteger = 12582912.0f;
    uint32_t sum[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float y;
      asm("mul.rn.sat.f32 %0, %1, %2;" : "=f"(y) : "f"(fabsf(x[i])), "f"(r_eighth));
      float const halves = __fmaf_rn(y, 16.0f, kInteger);
      float const ones = __fmaf_rn(y, 8.0f, kInteger + 2.0f);
      float const twos = __fmaf_rn(y, 4.0f, kInteger + 4.0f);
      sum[i] = float_bits(fminf(fminf(halves, ones), twos));
    }
    uint32_t pair[4];  // a byte of two codes, and above it what does not matter
#pragma unroll
    for (int i = 0; i < 4; ++i) pair[i] = sum[2 * i] + (sum[2 * i + 1] << 4);
    uint32_t const codes = gather_bytes<0>(pair[0], pair[1], pair[2], pair[3]);
    return (codes - (codes >> 3 & 0x11111111u)) | signs;
  }
};

}  // namespace fp4aot

#endif
