// The arithmetic that all tensor-core instructions share.
//
// Products of the small formats and their scales are exact in double. A row's products are summed in double, in the
// order of k, the accumulator last, and the sum is rounded once to the accumulator's type. Hardware aligns and
// truncates in ways that are not documented, so results are compared with it (and with references) by tolerance,
// never bit for bit.
#ifndef PTXSIM_UNITS_MATMUL_H_
#define PTXSIM_UNITS_MATMUL_H_

#include <cstdint>

#include "units/convert.h"

namespace ptxsim {

enum class MmaType : uint8_t { kFp16, kBf16, kTf32, kE4m3, kE5m2, kE2m3, kE3m2, kE2m1 };

// Value of a code in its own width (tf32: a 32-bit register).
inline double mma_value(MmaType type, uint32_t code) {
  switch (type) {
    case MmaType::kFp16:
      return fp16_value(code);
    case MmaType::kBf16:
      return bf16_value(code & 0xFFFF);
    case MmaType::kTf32:
      return decode_tf32(code);
    case MmaType::kE4m3:
      return e4m3_value(code);
    case MmaType::kE5m2:
      return e5m2_value(code);
    case MmaType::kE2m3:
      return decode(kE2m3, code & 0x3F);
    case MmaType::kE3m2:
      return decode(kE3m2, code & 0x3F);
    case MmaType::kE2m1:
      return e2m1_value(code);
  }
  return 0;
}

// Scale factors. A ue4m3 byte with bit 7 set is not a scale; scale_is_valid tells, the value is that of the low 7 bits.
enum class ScaleType : uint8_t { kUe4m3, kUe8m0 };
inline double scale_value(ScaleType type, uint32_t byte) {
  return type == ScaleType::kUe8m0 ? static_cast<double>(ue8m0_value(byte)) : e4m3_value(byte & 0x7F);
}
inline bool scale_is_valid(ScaleType type, uint32_t byte) { return type == ScaleType::kUe8m0 || (byte & 0x80) == 0; }

// d[m][n] = sum over k of a[m][k] * b[k][n], all row-major.
void matrix_product(int m, int n, int k, double const* a, double const* b, double* d);

// The only rounding: to float, as bits; NaN is the canonical one.
inline uint32_t round_to_float(double value) {
  return value != value ? kFp32.nan : float_bits(static_cast<float>(value));
}
inline uint32_t round_to_half(double value) { return encode(kFp16, value, RoundMode::kNearestEven, false, false); }

}  // namespace ptxsim

#endif
