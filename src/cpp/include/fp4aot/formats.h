// The encodings, layouts and quantisation rules of NVFP4 and MXFP4, for host and device. Every kernel of every image
// produces exactly the bytes that these functions define (fused forms: see the end of the table).
//
// NVFP4: blocks of 16 along k; element e2m1, block scale e4m3 (unsigned), one fp32 global_scale a tensor.
// MXFP4: blocks of 32 along k; element e2m1, block scale ue8m0 (OCP Microscaling Formats v1.0, section 5).
//
//   e2m1   sign, 2 exponent bits (bias 1), 1 mantissa bit. Codes 0..7 = 0, 0.5, 1, 1.5, 2, 3, 4, 6; bit 3 = sign.
//   e4m3   bias 7, no infinity, 0x7F = NaN, largest 0x7E = 448, subnormals m * 2^-9. As a scale bit 7 must be 0.
//   ue8m0  2^(byte - 127), 0xFF = NaN.
//
// Edge cases. fp32 arithmetic is IEEE, round to nearest even, no flush to zero, no approximate reciprocal.
//
//   case                                    NVFP4                                 MXFP4
//   ------------------------------------------------------------------------------------------------------------
//   block amax                              max |x| in fp32, a NaN anywhere makes it NaN (both)
//   amax NaN or infinite                    scale 0x7F, all codes 0x0             scale 0xFF, all codes 0x0
//   global_scale NaN, infinite, <= 0        scale 0x7F, all codes 0x0             (none)
//   amax = 0                                scale 0x00, codes 0x0 / 0x8 by sign   scale 0x00, codes 0x0 / 0x8 by sign
//   scale                                   e4m3_rn_satfinite(                    ceil: smallest e with amax / 6 <= 2^e
//                                             (global_scale * amax) / 6)          floor: floor(log2(amax)) - 2
//                                                                                 e clamped to [-127, 127]; byte e + 127
//   scale rounds to 0x00 (amax tiny)        r = 0: codes 0x0 / 0x8 by sign        cannot happen: e is clamped
//   r, the factor of the elements           min(global_scale / scale, FLT_MAX)    2^-e, exact
//   code                                    e2m1_rn_satfinite(x * r)              e2m1_rn_satfinite(x * r)
//   |x * r| > 5                             0x7 / 0xF (6; ties at 5 go to 4)      the same ("floor" scales saturate here)
//   x = -0, or x < 0 that rounds to zero    0x8                                   0x8
//   ties                                    to the even code: .25 -> 0, .75 -> 1, 1.25 -> 1, 1.75 -> 2, 2.5 -> 2,
//                                           3.5 -> 4, 5 -> 4 (as values)
//   scale padding (swizzled)                rows beyond M and columns beyond ceil(k/vec): 0x00 (both)
//   global_scale of a tensor                448 * 6 / amax over finite values, clamped to [2^-100, 2^100]; amax 0 -> 1
//   dequantise                              (e2m1 * scale) / global_scale,        e2m1 * scale, rounded once to the
//                                           rounded once more to the output type  output type
//   dequantise, global_scale bad            IEEE division by what it is           (none)
//   dequantise, scale NaN                   NaN for the whole block (both), also for codes 0
//   dequantise, e4m3 scale with bit 7       invalid input: the result is unspecified, never a trap
//   fused (silu * up, rmsnorm)              the intermediate is computed in fp32, rounded to the input type, and then
//                                           quantised as above; exp and sqrt may differ between images, so at most 1e-4
//                                           of the codes differ, by one step
#ifndef FP4AOT_FORMATS_H_
#define FP4AOT_FORMATS_H_

#include <cfloat>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define FP4AOT_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define FP4AOT_HOST_DEVICE inline
#endif

namespace fp4aot {

constexpr int kNvfp4Vector = 16;  // elements a block scale covers
constexpr int kMxfp4Vector = 32;
constexpr float kE2m1Max = 6.0f;
constexpr float kE4m3Max = 448.0f;
constexpr uint8_t kE4m3Nan = 0x7F;
constexpr uint8_t kUe8m0Nan = 0xFF;
constexpr float kGlobalScaleMin = 0x1p-100f;
constexpr float kGlobalScaleMax = 0x1p+100f;
constexpr int kScaleAtomRows = 128;
constexpr int kScaleAtomColumns = 4;
constexpr int kScaleAtomBytes = kScaleAtomRows * kScaleAtomColumns;

enum class Format { kNvfp4, kMxfp4 };

template <Format kFormat>
inline constexpr int kVector = kFormat == Format::kNvfp4 ? kNvfp4Vector : kMxfp4Vector;

FP4AOT_HOST_DEVICE uint32_t float_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

FP4AOT_HOST_DEVICE float bits_float(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Scale layouts -------------------------------------------------------------------------------------------------

FP4AOT_HOST_DEVICE constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Byte of (row, column) in a swizzled scale tensor with `columns` = ceil(k/vec) scales a row: the layout of the Blackwell
// tensor cores (CUTLASS Sm1xxBlockScaledConfig, Sm103BlockScaledConfig: tests compare with both).
FP4AOT_HOST_DEVICE constexpr int64_t scale_offset(int64_t row, int64_t column, int64_t columns) {
  int64_t const atoms_a_row = (columns + kScaleAtomColumns - 1) / kScaleAtomColumns;
  int64_t const atom = row / kScaleAtomRows * atoms_a_row + column / kScaleAtomColumns;
  return atom * kScaleAtomBytes + row % 32 * 16 + row % kScaleAtomRows / 32 * 4 + column % kScaleAtomColumns;
}

FP4AOT_HOST_DEVICE constexpr int64_t swizzled_scale_bytes(int64_t rows, int64_t columns) {
  return round_up(rows, kScaleAtomRows) * round_up(columns, kScaleAtomColumns);
}

// e2m1 ----------------------------------------------------------------------------------------------------------

// Nearest e2m1 code, ties to even, saturating; the sign of zero is kept. NaN (which the rules above never produce)
// gives 0x7, as the Blackwell conversion does.
FP4AOT_HOST_DEVICE uint8_t e2m1_rn_satfinite(float x) {
  uint32_t const sign = float_bits(x) >> 31 << 3;
  float const a = bits_float(float_bits(x) & 0x7FFFFFFFu);
  if (a != a) return 0x7;
  uint32_t const code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.0f);
  return static_cast<uint8_t>(sign | code);
}

FP4AOT_HOST_DEVICE float e2m1_to_float(uint32_t code) {
  uint32_t const exponent = code >> 1 & 3, mantissa = code & 1;
  float const magnitude =
      exponent == 0 ? 0.5f * static_cast<float>(mantissa) : bits_float((exponent + 126) << 23 | mantissa << 22);
  return code & 8 ? -magnitude : magnitude;
}

// Block scales --------------------------------------------------------------------------------------------------

// Nearest e4m3 byte of x >= 0, ties to even, saturating at 448. NaN gives 0x7F.
FP4AOT_HOST_DEVICE uint8_t e4m3_rn_satfinite(float x) {
  if (x != x) return kE4m3Nan;
  if (x >= kE4m3Max) return 0x7E;
  if (x < 0x1p-6f) {  // subnormal: units of 2^-9; adding 2^14 leaves that unit in the last place
    return static_cast<uint8_t>(float_bits(x + 0x1p+14f) & 0xFFu);
  }
  uint32_t const bits = float_bits(x);
  uint32_t const rounded = bits + 0x7FFFFu + (bits >> 20 & 1u);  // keep 3 mantissa bits
  return static_cast<uint8_t>((rounded >> 20) - (120u << 3));
}

FP4AOT_HOST_DEVICE float e4m3_to_float(uint8_t byte) {
  if ((byte & 0x7F) == kE4m3Nan) return bits_float(0x7FC00000u);
  uint32_t const exponent = byte >> 3 & 15, mantissa = byte & 7;
  float const magnitude =
      exponent == 0 ? static_cast<float>(mantissa) * 0x1p-9f : bits_float((exponent + 120) << 23 | mantissa << 20);
  return byte & 0x80 ? -magnitude : magnitude;
}

FP4AOT_HOST_DEVICE float ue8m0_to_float(uint8_t byte) {
  if (byte == kUe8m0Nan) return bits_float(0x7FC00000u);
  return bits_float(byte == 0 ? 0x00400000u : static_cast<uint32_t>(byte) << 23);  // 2^-127 is subnormal
}

// A block's scale byte and the factor r its elements are multiplied with before e2m1_rn_satfinite. `poisoned`: the codes
// are 0 whatever the elements are.
struct BlockScale {
  uint8_t byte;
  bool poisoned;
  float r;
};

FP4AOT_HOST_DEVICE bool is_finite(float x) { return (float_bits(x) & 0x7F800000u) != 0x7F800000u; }

// amax = max |x| over the block, NaN if any x is.
FP4AOT_HOST_DEVICE BlockScale nvfp4_block_scale(float amax, float global_scale) {
  if (!is_finite(amax) || !is_finite(global_scale) || !(global_scale > 0.0f)) return {kE4m3Nan, true, 0.0f};
  uint8_t const byte = e4m3_rn_satfinite(global_scale * amax / kE2m1Max);
  float const r = byte == 0 ? 0.0f : global_scale / e4m3_to_float(byte);
  return {byte, false, r < FLT_MAX ? r : FLT_MAX};
}

// floor_rounding: the OCP rule; else the smallest power of two with amax / 6 <= scale.
FP4AOT_HOST_DEVICE BlockScale mxfp4_block_scale(float amax, bool floor_rounding) {
  if (!is_finite(amax)) return {kUe8m0Nan, true, 0.0f};
  uint32_t const bits = float_bits(amax);
  // A subnormal amax is below 2^-126, so that e would be below -127: the clamp gives byte 0 either way. Otherwise, with
  // amax = m * 2^x, 1 <= m < 2: amax <= 6 * 2^e = 1.5 * 2^(e+2) gives e = x - 2, or x - 1 if m > 1.5.
  int32_t const biased = static_cast<int32_t>(bits >> 23) - 2 + (!floor_rounding && (bits & 0x7FFFFFu) > 0x400000u);
  int32_t const byte = biased < 0 ? 0 : biased;
  int32_t const inverse = 254 - byte;  // biased exponent of 2^-e, within 1..254 as byte <= 253
  return {static_cast<uint8_t>(byte), false, bits_float(static_cast<uint32_t>(inverse) << 23)};
}

template <Format kFormat>
FP4AOT_HOST_DEVICE float scale_to_float(uint8_t byte) {
  return kFormat == Format::kNvfp4 ? e4m3_to_float(byte) : ue8m0_to_float(byte);
}

FP4AOT_HOST_DEVICE float nvfp4_global_scale_of(float finite_amax) {
  if (finite_amax == 0.0f) return 1.0f;
  float const scale = kE4m3Max * kE2m1Max / finite_amax;
  return scale < kGlobalScaleMin ? kGlobalScaleMin : scale > kGlobalScaleMax ? kGlobalScaleMax : scale;
}

}  // namespace fp4aot

#endif
