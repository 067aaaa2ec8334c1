// Arithmetic in f32 and f64. .rn, .rz, .rm, .rp are exact; .approx and .full forms give the correctly rounded result
// of the function (the hardware's differ by an ulp or two), with .ftz flushing as PTX says.
#include <cmath>

#include "isa/elementwise.h"
#include "isa/rounding.h"

namespace ptxsim {
namespace {

template <bool kFtz, bool kSat>
float finish(float v) {
  if (kSat) return v > 0 ? (v < 1 ? (kFtz ? flush(v) : v) : 1.0f) : 0.0f;
  return canonical(kFtz ? flush(v) : v);
}
template <bool kFtz>
float take(float v) {
  return kFtz ? flush(v) : v;
}

template <Rounding kMode, bool kFtz, bool kSat>
struct Add {
  static float apply(float a, float b) {
    a = take<kFtz>(a), b = take<kFtz>(b);
    return finish<kFtz, kSat>(kMode == Rounding::kNearest ? a + b : add_rounded(a, b, kMode));
  }
};
template <Rounding kMode, bool kFtz, bool kSat>
struct Sub {
  static float apply(float a, float b) { return Add<kMode, kFtz, kSat>::apply(a, -b); }
};
template <Rounding kMode, bool kFtz, bool kSat>
struct Mul {
  static float apply(float a, float b) {
    a = take<kFtz>(a), b = take<kFtz>(b);
    return finish<kFtz, kSat>(kMode == Rounding::kNearest ? a * b : mul_rounded(a, b, kMode));
  }
};
template <Rounding kMode, bool kFtz, bool kSat>
struct Fma {
  static float apply(float a, float b, float c) {
    a = take<kFtz>(a), b = take<kFtz>(b), c = take<kFtz>(c);
    return finish<kFtz, kSat>(kMode == Rounding::kNearest ? __builtin_fmaf(a, b, c) : fma_rounded(a, b, c, kMode));
  }
};
template <Rounding kMode, bool kFtz, bool kSat>
struct Div {
  static float apply(float a, float b) {
    a = take<kFtz>(a), b = take<kFtz>(b);
    return finish<kFtz, false>(kMode == Rounding::kNearest ? a / b : div_rounded(a, b, kMode));
  }
};
template <Rounding kMode, bool kFtz, bool kSat>
struct Reciprocal {
  static float apply(float a) { return Div<kMode, kFtz, kSat>::apply(1.0f, a); }
};
template <Rounding kMode, bool kFtz, bool kSat>
struct Sqrt {
  static float apply(float a) {
    a = take<kFtz>(a);
    return finish<kFtz, false>(kMode == Rounding::kNearest ? __builtin_sqrtf(a) : sqrt_rounded(a, kMode));
  }
};

enum class Curve { kRsqrt, kExp2, kLog2, kSin, kCos, kTanh };
template <Curve kFunction, bool kFtz>
struct Approximate {
  static float apply(float v) {
    double a = take<kFtz>(v);
    double r = kFunction == Curve::kRsqrt  ? 1.0 / std::sqrt(a)
               : kFunction == Curve::kExp2 ? std::exp2(a)
               : kFunction == Curve::kLog2 ? std::log2(a)
               : kFunction == Curve::kSin  ? std::sin(a)
               : kFunction == Curve::kCos  ? std::cos(a)
                                           : std::tanh(a);
    return finish<kFtz, false>(static_cast<float>(r));
  }
};

// On an H200 a NaN becomes the canonical one here too (conformance/).
constexpr bool is_nan_code(uint32_t a) { return (a & 0x7FFFFFFF) > 0x7F800000; }
template <bool kFtz>
struct Negate {
  static uint32_t apply(uint32_t a) {
    return is_nan_code(a) ? 0x7FFFFFFF : (kFtz && (a & 0x7F800000) == 0 ? a & 0x80000000 : a) ^ 0x80000000;
  }
};
template <bool kFtz>
struct Magnitude {
  static uint32_t apply(uint32_t a) {
    return is_nan_code(a) ? 0x7FFFFFFF : (kFtz && (a & 0x7F800000) == 0 ? 0 : a) & 0x7FFFFFFF;
  }
};
struct CopySign {
  static uint32_t apply(uint32_t sign, uint32_t value) { return (value & 0x7FFFFFFF) | (sign & 0x80000000); }
};

// -0 counts as less than +0; a NaN gives way to a number unless kNan.
template <bool kMax, bool kFtz, bool kNan, bool kXorSign>
struct Extremum {
  static float apply(float a, float b) {
    a = take<kFtz>(a), b = take<kFtz>(b);
    uint32_t ia, ib;
    std::memcpy(&ia, &a, 4);
    std::memcpy(&ib, &b, 4);
    uint32_t sign = kXorSign ? (ia ^ ib) & 0x80000000 : 0;
    if (kXorSign) ia &= 0x7FFFFFFF, ib &= 0x7FFFFFFF;
    bool nan_a = (ia & 0x7FFFFFFF) > 0x7F800000, nan_b = (ib & 0x7FFFFFFF) > 0x7F800000;
    // Order of the numbers as that of integers.
    int32_t ka = static_cast<int32_t>(ia) < 0 ? static_cast<int32_t>(ia ^ 0x7FFFFFFF) : static_cast<int32_t>(ia);
    int32_t kb = static_cast<int32_t>(ib) < 0 ? static_cast<int32_t>(ib ^ 0x7FFFFFFF) : static_cast<int32_t>(ib);
    bool pick_a = kMax ? ka > kb : ka < kb;
    uint32_t r = pick_a ? ia : ib;
    r = nan_a ? ib : nan_b ? ia : r;
    r |= sign;
    bool nan = kNan ? nan_a || nan_b : nan_a && nan_b;
    r = nan ? 0x7FFFFFFF : r;
    float out;
    std::memcpy(&out, &r, 4);
    return out;
  }
};
template <bool kMax, bool kFtz, bool kNan>
struct Extremum3 {
  using Two = Extremum<kMax, kFtz, kNan, false>;
  static float apply(float a, float b, float c) { return Two::apply(Two::apply(a, b), c); }
};

struct AddDouble {
  static double apply(double a, double b) { return a + b; }
};
struct SubDouble {
  static double apply(double a, double b) { return a - b; }
};
struct MulDouble {
  static double apply(double a, double b) { return a * b; }
};
struct FmaDouble {
  static double apply(double a, double b, double c) { return __builtin_fma(a, b, c); }
};
struct DivDouble {
  static double apply(double a, double b) { return a / b; }
};
struct ReciprocalDouble {
  static double apply(double a) { return 1.0 / a; }
};
struct SqrtDouble {
  static double apply(double a) { return std::sqrt(a); }
};
struct NegDouble {
  static double apply(double a) { return -a; }
};
struct AbsDouble {
  static double apply(double a) { return std::fabs(a); }
};
struct MinDouble {
  static double apply(double a, double b) { return std::fmin(a, b); }
};
struct MaxDouble {
  static double apply(double a, double b) { return std::fmax(a, b); }
};

template <template <Rounding, bool, bool> class Op, class... A>
struct Choose {
  template <bool kFtz, bool kSat>
  static Handler by_mode(Decoder& d, Rounding mode) {
    switch (mode) {
      case Rounding::kZero:
        return elementwise<Op<Rounding::kZero, kFtz, kSat>, float, A...>(d, Class::kFloat);
      case Rounding::kDown:
        return elementwise<Op<Rounding::kDown, kFtz, kSat>, float, A...>(d, Class::kFloat);
      case Rounding::kUp:
        return elementwise<Op<Rounding::kUp, kFtz, kSat>, float, A...>(d, Class::kFloat);
      default:
        return elementwise<Op<Rounding::kNearest, kFtz, kSat>, float, A...>(d, Class::kFloat);
    }
  }
  static Handler of(Decoder& d, Rounding mode, bool ftz, bool sat) {
    if (ftz) return sat ? by_mode<true, true>(d, mode) : by_mode<true, false>(d, mode);
    return sat ? by_mode<false, true>(d, mode) : by_mode<false, false>(d, mode);
  }
};

template <Curve kFunction>
Handler approximate(Decoder& d, bool ftz) {
  return ftz ? elementwise<Approximate<kFunction, true>, float, float>(d, Class::kFloat)
             : elementwise<Approximate<kFunction, false>, float, float>(d, Class::kFloat);
}

template <bool kMax, bool kFtz>
Handler extremum(Decoder& d, bool nan, bool xorsign) {
  if (d.operand_count() == 4) {
    if (xorsign) return d.fail("three operands with .xorsign");
    return nan ? elementwise<Extremum3<kMax, kFtz, true>, float, float, float, float>(d, Class::kFloat)
               : elementwise<Extremum3<kMax, kFtz, false>, float, float, float, float>(d, Class::kFloat);
  }
  if (nan) {
    return xorsign ? elementwise<Extremum<kMax, kFtz, true, true>, float, float, float>(d, Class::kFloat)
                   : elementwise<Extremum<kMax, kFtz, true, false>, float, float, float>(d, Class::kFloat);
  }
  return xorsign ? elementwise<Extremum<kMax, kFtz, false, true>, float, float, float>(d, Class::kFloat)
                 : elementwise<Extremum<kMax, kFtz, false, false>, float, float, float>(d, Class::kFloat);
}

Handler double_arithmetic(Decoder& d, std::string_view op) {
  if (d.take_one_of({"rz", "rm", "rp"}) >= 0) return d.fail("directed rounding of f64");
  d.take("rn");
  if (op == "add") return elementwise<AddDouble, double, double, double>(d, Class::kFloat);
  if (op == "sub") return elementwise<SubDouble, double, double, double>(d, Class::kFloat);
  if (op == "mul") return elementwise<MulDouble, double, double, double>(d, Class::kFloat);
  if (op == "fma" || op == "mad") return elementwise<FmaDouble, double, double, double, double>(d, Class::kFloat);
  if (op == "div") return elementwise<DivDouble, double, double, double>(d, Class::kFloat);
  if (op == "rcp") return elementwise<ReciprocalDouble, double, double>(d, Class::kFloat);
  if (op == "sqrt") return elementwise<SqrtDouble, double, double>(d, Class::kFloat);
  if (op == "neg") return elementwise<NegDouble, double, double>(d, Class::kFloat);
  if (op == "abs") return elementwise<AbsDouble, double, double>(d, Class::kFloat);
  if (op == "min") return elementwise<MinDouble, double, double, double>(d, Class::kFloat);
  if (op == "max") return elementwise<MaxDouble, double, double, double>(d, Class::kFloat);
  return d.fail("f64");
}

// Two f32 in a 64-bit register.
template <class Op, class... A>
struct TwoFloats {
  static uint64_t apply(A... values) {
    uint64_t out = 0;
    for (int half = 0; half < 2; ++half) {
      float r = Op::apply(part(values, half)...);
      uint32_t bits;
      std::memcpy(&bits, &r, 4);
      out |= uint64_t{bits} << (32 * half);
    }
    return out;
  }

 private:
  static float part(uint64_t v, int half) {
    uint32_t bits = static_cast<uint32_t>(v >> (32 * half));
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  }
};

Handler two_floats(Decoder& d, std::string_view op) {
  bool ftz = d.take("ftz");
  if (d.take_one_of({"rz", "rm", "rp"}) >= 0) return d.fail("directed rounding of f32x2");
  d.take("rn");
  using U = uint64_t;
  constexpr Rounding kRn = Rounding::kNearest;
  if (op == "add") {
    return ftz ? elementwise<TwoFloats<Add<kRn, true, false>, U, U>, U, U, U>(d, Class::kFloat)
               : elementwise<TwoFloats<Add<kRn, false, false>, U, U>, U, U, U>(d, Class::kFloat);
  }
  if (op == "mul") {
    return ftz ? elementwise<TwoFloats<Mul<kRn, true, false>, U, U>, U, U, U>(d, Class::kFloat)
               : elementwise<TwoFloats<Mul<kRn, false, false>, U, U>, U, U, U>(d, Class::kFloat);
  }
  if (op == "fma") {
    return ftz ? elementwise<TwoFloats<Fma<kRn, true, false>, U, U, U>, U, U, U, U>(d, Class::kFloat)
               : elementwise<TwoFloats<Fma<kRn, false, false>, U, U, U>, U, U, U, U>(d, Class::kFloat);
  }
  return d.fail("f32x2");
}

}  // namespace

Handler decode_two_floats(Decoder& d) {
  d.take("f32x2");
  return two_floats(d, d.statement().opcode);
}

Handler float_arithmetic(Decoder& d, std::string_view op, Type type) {
  if (type.bytes == 8) return double_arithmetic(d, op);
  bool ftz = d.take("ftz");
  if (op == "neg") {
    return ftz ? elementwise<Negate<true>, uint32_t, uint32_t>(d, Class::kFloat)
               : elementwise<Negate<false>, uint32_t, uint32_t>(d, Class::kFloat);
  }
  if (op == "abs") {
    return ftz ? elementwise<Magnitude<true>, uint32_t, uint32_t>(d, Class::kFloat)
               : elementwise<Magnitude<false>, uint32_t, uint32_t>(d, Class::kFloat);
  }
  if (op == "copysign") return elementwise<CopySign, uint32_t, uint32_t, uint32_t>(d, Class::kFloat);
  if (op == "min" || op == "max") {
    bool nan = d.take("NaN");
    bool xorsign = d.take("xorsign");
    if (xorsign && !d.take("abs")) return d.fail(".xorsign without .abs");
    if (op == "max") return ftz ? extremum<true, true>(d, nan, xorsign) : extremum<true, false>(d, nan, xorsign);
    return ftz ? extremum<false, true>(d, nan, xorsign) : extremum<false, false>(d, nan, xorsign);
  }
  bool sat = d.take("sat");
  bool approx = d.take("approx") || d.take("full");
  if (approx) {
    if (op == "rsqrt") return approximate<Curve::kRsqrt>(d, ftz);
    if (op == "ex2") return approximate<Curve::kExp2>(d, ftz);
    if (op == "lg2") return approximate<Curve::kLog2>(d, ftz);
    if (op == "sin") return approximate<Curve::kSin>(d, ftz);
    if (op == "cos") return approximate<Curve::kCos>(d, ftz);
    if (op == "tanh") return approximate<Curve::kTanh>(d, ftz);
    if (op != "div" && op != "rcp" && op != "sqrt") return d.fail("approximate form");
  }
  int named = approx ? 0 : d.take_one_of({"rn", "rz", "rm", "rp"});
  Rounding mode = named <= 0 ? Rounding::kNearest : static_cast<Rounding>(named);
  if (named < 0 && op != "add" && op != "sub" && op != "mul") return d.fail("no rounding mode");
  if (op == "add") return Choose<Add, float, float>::of(d, mode, ftz, sat);
  if (op == "sub") return Choose<Sub, float, float>::of(d, mode, ftz, sat);
  if (op == "mul") return Choose<Mul, float, float>::of(d, mode, ftz, sat);
  if (op == "fma" || op == "mad") return Choose<Fma, float, float, float>::of(d, mode, ftz, sat);
  if (op == "div") return Choose<Div, float, float>::of(d, mode, ftz, sat);
  if (op == "rcp") return Choose<Reciprocal, float>::of(d, mode, ftz, sat);
  if (op == "sqrt") return Choose<Sqrt, float>::of(d, mode, ftz, sat);
  return d.fail("f32");
}

}  // namespace ptxsim
