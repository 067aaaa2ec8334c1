#include "units/convert.h"

#include <array>
#include <cmath>
#include <limits>

namespace ptxsim {
namespace {

int code_bits(FloatFormat const& f) { return f.exponent_bits + f.mantissa_bits; }

// Whether |value| = quotient + remainder / 2^shift units in the last place goes up to quotient + 1.
bool rounds_up(uint64_t quotient, uint64_t remainder, uint64_t half, bool negative, RoundMode rounding) {
  switch (rounding) {
    case RoundMode::kNearestEven:
      return remainder > half || (remainder == half && (quotient & 1) != 0);
    case RoundMode::kNearestAway:
      return remainder >= half;
    case RoundMode::kZero:
      return false;
    case RoundMode::kUp:
      return remainder != 0 && !negative;
    case RoundMode::kDown:
      return remainder != 0 && negative;
  }
  return false;
}

template <size_t N, class Value>
std::array<float, N> table(Value value) {
  std::array<float, N> t;
  for (size_t i = 0; i < N; ++i) t[i] = static_cast<float>(value(static_cast<uint32_t>(i)));
  return t;
}

}  // namespace

uint32_t encode(FloatFormat const& f, double value, RoundMode rounding, bool satfinite, bool relu) {
  if (std::isnan(value)) return f.nan;
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  bool const negative = bits >> 63 != 0;
  if (negative && relu) return 0;
  uint32_t const sign = negative ? 1u << code_bits(f) : 0;
  uint64_t const significand = bits & ((uint64_t{1} << 52) - 1);
  int const field = static_cast<int>(bits >> 52 & 0x7FF);
  if (field == 0 && significand == 0) return sign;
  bool const infinite = field == 0x7FF;
  uint64_t code = 0;
  if (!infinite) {
    // Units of the last place of a value with exponent e are 2^(max(e, smallest normal) - mantissa_bits).
    int const smallest = 1 - f.bias;
    int const exponent = field == 0 ? -1022 : field - 1023;
    uint64_t const mantissa = field == 0 ? significand : significand | uint64_t{1} << 52;
    int const unit = exponent > smallest ? exponent : smallest;
    int const shift = 52 - f.mantissa_bits + (unit - exponent);
    uint64_t const quotient = shift > 63 ? 0 : mantissa >> shift;
    uint64_t const remainder = shift > 63 ? mantissa : mantissa & ((uint64_t{1} << shift) - 1);
    uint64_t const half = shift > 63 ? UINT64_MAX : uint64_t{1} << (shift - 1);
    // The implicit bit of a normal value adds one to the exponent field; a carry out of the mantissa does so too.
    code = (static_cast<uint64_t>(unit - smallest) << f.mantissa_bits) + quotient;
    if (rounds_up(quotient, remainder, half, negative, rounding)) ++code;
  }
  if (!infinite && code <= f.max_finite) return sign | static_cast<uint32_t>(code);
  if (satfinite) return sign | f.max_finite;
  bool const to_finite = !infinite && (rounding == RoundMode::kZero || (rounding == RoundMode::kUp && negative) ||
                                       (rounding == RoundMode::kDown && !negative));
  if (to_finite) return sign | f.max_finite;
  if (f.infinity != 0) return sign | f.infinity;
  return f.has_nan ? f.nan : sign | f.max_finite;
}

double decode(FloatFormat const& f, uint32_t code) {
  uint32_t const magnitude = code & ((1u << code_bits(f)) - 1);
  double const sign = (code >> code_bits(f) & 1) != 0 ? -1.0 : 1.0;
  if (magnitude > f.max_finite) {
    if (f.infinity != 0 && magnitude == f.infinity) return sign * std::numeric_limits<double>::infinity();
    return std::numeric_limits<double>::quiet_NaN();
  }
  int const field = static_cast<int>(magnitude >> f.mantissa_bits);
  uint32_t const mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  if (field == 0) return sign * std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
  return sign * std::ldexp((1u << f.mantissa_bits) + mantissa, field - f.bias - f.mantissa_bits);
}

uint8_t encode_ue8m0(double value, RoundMode rounding, bool satfinite) {
  if (std::isnan(value)) return 0xFF;
  double const magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return satfinite ? 0xFE : 0xFF;
  if (magnitude <= std::ldexp(1.0, -127)) return 0;
  int exponent;  // magnitude = fraction * 2^exponent, fraction in [0.5, 1)
  double const fraction = std::frexp(magnitude, &exponent);
  int code = exponent - 1 + 127;
  if (rounding == RoundMode::kUp && fraction != 0.5) ++code;
  if (code > 0xFE) return satfinite ? 0xFE : 0xFF;
  return static_cast<uint8_t>(code);
}

double decode_ue8m0(uint8_t code) {
  return code == 0xFF ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
}

uint32_t encode_tf32(double value, RoundMode rounding, bool satfinite, bool relu) {
  if (std::isnan(value)) return kFp32.nan;
  return encode(kTf32, value, rounding, satfinite, relu) << 13;
}

uint32_t pack2(FloatFormat const& f, double a, double b, RoundMode rounding, bool satfinite, bool relu) {
  // Formats of 6 bits lie in bytes, with two zero bits above.
  int const width = code_bits(f) + 1 == 6 ? 8 : code_bits(f) + 1;
  return encode(f, a, rounding, satfinite, relu) << width | encode(f, b, rounding, satfinite, relu);
}

float e2m1_value(uint32_t code) {
  static auto const values = table<16>([](uint32_t c) { return decode(kE2m1, c); });
  return values[code & 15];
}
float e4m3_value(uint32_t code) {
  static auto const values = table<256>([](uint32_t c) { return decode(kE4m3, c); });
  return values[code & 255];
}
float e5m2_value(uint32_t code) {
  static auto const values = table<256>([](uint32_t c) { return decode(kE5m2, c); });
  return values[code & 255];
}
float ue8m0_value(uint32_t code) {
  static auto const values = table<256>([](uint32_t c) { return decode_ue8m0(static_cast<uint8_t>(c)); });
  return values[code & 255];
}
float fp16_value(uint32_t code) {
  static auto const values = table<65536>([](uint32_t c) { return decode(kFp16, c); });
  return values[code & 65535];
}

}  // namespace ptxsim
