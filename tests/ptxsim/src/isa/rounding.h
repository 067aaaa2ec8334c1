// IEEE arithmetic in a rounding mode of one's own, without touching the host's.
#ifndef PTXSIM_ISA_ROUNDING_H_
#define PTXSIM_ISA_ROUNDING_H_

#include <cmath>
#include <cstdint>
#include <cstring>

namespace ptxsim {

enum class Rounding : uint8_t { kNearest, kZero, kDown, kUp };

// The double next to the exact sum of s and err (|err| at most half a unit of s) on the odd side: it keeps everything
// that a later rounding to at most 51 bits needs to know.
inline double to_odd(double s, double err) {
  if (err == 0 || !std::isfinite(s)) return s;
  uint64_t bits;
  std::memcpy(&bits, &s, 8);
  if ((err > 0) != (s > 0)) --bits;
  bits |= 1;
  std::memcpy(&s, &bits, 8);
  return s;
}

inline double sum_to_odd(double a, double b) {
  double s = a + b;
  double part = s - a;
  double err = (a - (s - part)) + (b - part);
  return to_odd(s, err);
}

inline float round_float(double exact, Rounding mode) {
  float f = static_cast<float>(exact);
  double back = f;
  if (back == exact || exact != exact) return f;
  switch (mode) {
    case Rounding::kNearest:
      return f;
    case Rounding::kZero:
      return std::fabs(back) > std::fabs(exact) ? std::nextafterf(f, 0.0f) : f;
    case Rounding::kDown:
      return back > exact ? std::nextafterf(f, -INFINITY) : f;
    case Rounding::kUp:
      return back < exact ? std::nextafterf(f, INFINITY) : f;
  }
  return f;
}

inline float add_rounded(float a, float b, Rounding mode) {
  double exact = sum_to_odd(a, b);
  if (exact == 0 && mode == Rounding::kDown && std::signbit(a) != std::signbit(b)) return -0.0f;
  if (exact == 0 && mode == Rounding::kDown && a != 0) return -0.0f;
  return round_float(exact, mode);
}
inline float mul_rounded(float a, float b, Rounding mode) { return round_float(double{a} * b, mode); }
inline float fma_rounded(float a, float b, float c, Rounding mode) {
  double product = double{a} * b;
  double exact = sum_to_odd(product, c);
  if (exact == 0 && mode == Rounding::kDown && (product != 0 || std::signbit(product) != std::signbit(c))) return -0.0f;
  return round_float(exact, mode);
}
// q = a / b: the sign of the remainder says on which side of q the quotient lies.
inline float div_rounded(float a, float b, Rounding mode) {
  double q = double{a} / b;
  if (!std::isfinite(q) || q == 0) return static_cast<float>(q);
  double rest = std::fma(-q, double{b}, double{a});
  return round_float(to_odd(q, (rest < 0) != (b < 0) ? -std::fabs(rest) : std::fabs(rest)), mode);
}
inline float sqrt_rounded(float a, Rounding mode) {
  double root = std::sqrt(double{a});
  if (!std::isfinite(root) || root == 0) return static_cast<float>(root);
  return round_float(to_odd(root, std::fma(-root, root, double{a})), mode);
}

inline float flush(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  if ((bits & 0x7F800000) == 0) bits &= 0x80000000;
  std::memcpy(&v, &bits, 4);
  return v;
}

// The NaN that arithmetic gives.
inline float canonical(float v) {
  if (v == v) return v;
  uint32_t const bits = 0x7FFFFFFF;
  std::memcpy(&v, &bits, 4);
  return v;
}

}  // namespace ptxsim

#endif
