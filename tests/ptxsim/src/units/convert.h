// Small floating-point formats: values of codes, and codes of values with PTX's rounding, saturation, relu and NaN
// rules.
//
// Written from the PTX ISA's description of cvt; shares nothing with the library under test. Every source format is
// exact in double, so there is one encoder, from double. What PTX leaves open, and what is done here:
//   e2m1 has no NaN: NaN becomes +6 (0x7). A NaN never keeps its payload: bf16 and fp16 0x7FFF, tf32 and fp32
//   0x7FFFFFFF.
//   The sign of a zero is kept, of values that round to zero too (e2m1 of -0.1 is 0x8); relu turns all of those
//   into +0.
//   ue8m0 takes the magnitude of negative values; magnitudes up to 2^-127 (zero too) become 0x00. So does the vendor's
//   host code for the same conversion.
#ifndef PTXSIM_UNITS_CONVERT_H_
#define PTXSIM_UNITS_CONVERT_H_

#include <cstdint>
#include <cstring>

namespace ptxsim {

enum class RoundMode : uint8_t { kNearestEven, kNearestAway, kZero, kUp, kDown };

// A signed format with subnormals: code = sign, exponent_bits, mantissa_bits. Codes above max_finite are infinity (if
// any) and NaN.
struct FloatFormat {
  int exponent_bits, mantissa_bits, bias;
  uint32_t max_finite;  // code of the largest finite value
  uint32_t infinity;    // code; 0: the format has none
  uint32_t nan;         // the code that NaN becomes (of e2m1, e2m3, e3m2: the largest value)
  bool has_nan;
};
constexpr FloatFormat kE2m1{2, 1, 1, 0x7, 0, 0x7, false};
constexpr FloatFormat kE2m3{2, 3, 1, 0x1F, 0, 0x1F, false};
constexpr FloatFormat kE3m2{3, 2, 3, 0x1F, 0, 0x1F, false};
constexpr FloatFormat kE4m3{4, 3, 7, 0x7E, 0, 0x7F, true};
constexpr FloatFormat kE5m2{5, 2, 15, 0x7B, 0x7C, 0x7F, true};
constexpr FloatFormat kFp16{5, 10, 15, 0x7BFF, 0x7C00, 0x7FFF, true};
constexpr FloatFormat kBf16{8, 7, 127, 0x7F7F, 0x7F80, 0x7FFF, true};
constexpr FloatFormat kTf32{8, 10, 127, 0x3FBFF, 0x3FC00, 0x3FFFF, true};  // the upper 19 bits of a register
constexpr FloatFormat kFp32{8, 23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF, true};

// The code of a value. Overflow without satfinite: infinity, or what the rounding says (kZero: the largest finite
// value); in a format without infinity NaN (e4m3), or the largest value. relu: results with the sign set become +0.
uint32_t encode(FloatFormat const& format, double value, RoundMode rounding, bool satfinite, bool relu);
// The value of a code; bits above the format are ignored.
double decode(FloatFormat const& format, uint32_t code);

// ue8m0: 2^(code - 127), 0xFF is NaN. rounding kZero or kUp.
uint8_t encode_ue8m0(double value, RoundMode rounding, bool satfinite);
double decode_ue8m0(uint8_t code);

// tf32 in a 32-bit register: the low 13 bits are zero.
uint32_t encode_tf32(double value, RoundMode rounding, bool satfinite, bool relu);
inline float decode_tf32(uint32_t word) {  // as the tensor core reads it: the low 13 bits do not count
  word &= 0xFFFFE000u;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

inline uint32_t float_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float bits_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Packed conversions, as PTX packs: a in the upper half, b in the lower.
uint32_t pack2(FloatFormat const& format, double a, double b, RoundMode rounding, bool satfinite, bool relu);

// The same by table, for inner loops. Codes: 4, 8, 8, 8, 16 and 16 bits.
float e2m1_value(uint32_t code);
float e4m3_value(uint32_t code);
float e5m2_value(uint32_t code);
float ue8m0_value(uint32_t code);
float fp16_value(uint32_t code);
inline float bf16_value(uint32_t code) { return bits_float(code << 16); }

}  // namespace ptxsim

#endif
