// Arithmetic in f16, bf16 and their pairs. A product or sum of two is exact enough in f32 for its rounding to give the
// right result; fused products go through a sum rounded to odd.
#include <immintrin.h>

#include <cmath>

#include "isa/elementwise.h"
#include "isa/rounding.h"
#include "units/convert.h"

namespace ptxsim {
namespace {

struct Half {
  static float value(uint16_t code) { return _cvtsh_ss(code); }
  static uint16_t code(float v) { return v != v ? 0x7FFF : _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT); }
  static uint16_t code_of_double(double v) {
    return static_cast<uint16_t>(encode(kFp16, v, RoundMode::kNearestEven, false, false));
  }
  static constexpr uint16_t kInfinity = 0x7C00;
};
struct Brain {
  static float value(uint16_t code) { return bf16_value(code); }
  static uint16_t code(float v) {
    if (v != v) return 0x7FFF;
    uint32_t bits = float_bits(v);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  static uint16_t code_of_double(double v) {
    return static_cast<uint16_t>(encode(kBf16, v, RoundMode::kNearestEven, false, false));
  }
  static constexpr uint16_t kInfinity = 0x7F80;
};

template <class F, bool kFtz>
uint16_t take(uint16_t v) {
  constexpr uint16_t kExponent = F::kInfinity;
  return kFtz && (v & kExponent) == 0 ? v & 0x8000 : v;
}
enum class End { kPlain, kSat, kRelu };
template <class F, bool kFtz, End kEnd>
uint16_t finish(uint16_t v) {
  v = take<F, kFtz>(v);
  bool nan = (v & 0x7FFF) > F::kInfinity;
  if (kEnd == End::kSat) return nan || (v & 0x8000) ? 0 : (F::value(v) > 1 ? F::code(1) : v);
  if (kEnd == End::kRelu) return nan ? 0x7FFF : (v & 0x8000 ? 0 : v);
  return nan ? 0x7FFF : v;
}

template <class F, bool kFtz, End kEnd>
struct Add {
  static uint16_t apply(uint16_t a, uint16_t b) {
    return finish<F, kFtz, kEnd>(F::code(F::value(take<F, kFtz>(a)) + F::value(take<F, kFtz>(b))));
  }
};
template <class F, bool kFtz, End kEnd>
struct Sub {
  static uint16_t apply(uint16_t a, uint16_t b) { return Add<F, kFtz, kEnd>::apply(a, b ^ 0x8000); }
};
template <class F, bool kFtz, End kEnd>
struct Mul {
  static uint16_t apply(uint16_t a, uint16_t b) {
    return finish<F, kFtz, kEnd>(F::code(F::value(take<F, kFtz>(a)) * F::value(take<F, kFtz>(b))));
  }
};
template <class F, bool kFtz, End kEnd>
struct Fma {
  static uint16_t apply(uint16_t a, uint16_t b, uint16_t c) {
    double product = double{F::value(take<F, kFtz>(a))} * F::value(take<F, kFtz>(b));
    return finish<F, kFtz, kEnd>(F::code_of_double(sum_to_odd(product, F::value(take<F, kFtz>(c)))));
  }
};

template <class F, bool kMax, bool kFtz, bool kNan, bool kXorSign>
struct Extremum {
  static uint16_t apply(uint16_t a, uint16_t b) {
    a = take<F, kFtz>(a), b = take<F, kFtz>(b);
    uint16_t sign = kXorSign ? (a ^ b) & 0x8000 : 0;
    if (kXorSign) a &= 0x7FFF, b &= 0x7FFF;
    bool nan_a = (a & 0x7FFF) > F::kInfinity, nan_b = (b & 0x7FFF) > F::kInfinity;
    int ka = a & 0x8000 ? -1 - (a & 0x7FFF) : a, kb = b & 0x8000 ? -1 - (b & 0x7FFF) : b;
    uint16_t r = (kMax ? ka > kb : ka < kb) ? a : b;
    r = nan_a ? b : nan_b ? a : r;
    bool nan = kNan ? nan_a || nan_b : nan_a && nan_b;
    return nan ? 0x7FFF : static_cast<uint16_t>(r | sign);
  }
};

// On an H200 a NaN becomes the canonical one here too (conformance/).
template <class F>
struct Negate {
  static uint16_t apply(uint16_t a) { return (a & 0x7FFF) > F::kInfinity ? 0x7FFF : a ^ 0x8000; }
};
template <class F>
struct Magnitude {
  static uint16_t apply(uint16_t a) { return (a & 0x7FFF) > F::kInfinity ? 0x7FFF : a & 0x7FFF; }
};

template <class F, int kFunction>
struct Approximate {
  static uint16_t apply(uint16_t a) {
    float v = F::value(a);
    return F::code(static_cast<float>(kFunction == 0 ? std::exp2(double{v}) : std::tanh(double{v})));
  }
};

// The operation on both halves of a pair.
template <class Op, class... A>
struct Pair {
  static uint32_t apply(A... values) {
    uint32_t low = Op::apply(static_cast<uint16_t>(values)...);
    uint32_t high = Op::apply(static_cast<uint16_t>(values >> 16)...);
    return low | high << 16;
  }
};

template <class Op>
Handler unary(Decoder& d, bool pair) {
  return pair ? elementwise<Pair<Op, uint32_t>, uint32_t, uint32_t>(d, Class::kHalf)
              : elementwise<Op, uint16_t, uint16_t>(d, Class::kHalf);
}
template <class Op>
Handler binary(Decoder& d, bool pair) {
  return pair ? elementwise<Pair<Op, uint32_t, uint32_t>, uint32_t, uint32_t, uint32_t>(d, Class::kHalf)
              : elementwise<Op, uint16_t, uint16_t, uint16_t>(d, Class::kHalf);
}
template <class Op>
Handler ternary(Decoder& d, bool pair) {
  return pair ? elementwise<Pair<Op, uint32_t, uint32_t, uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t>(
                    d, Class::kHalf)
              : elementwise<Op, uint16_t, uint16_t, uint16_t, uint16_t>(d, Class::kHalf);
}

template <class F, bool kFtz, End kEnd>
Handler sums(Decoder& d, std::string_view op, bool pair) {
  if (op == "add") return binary<Add<F, kFtz, kEnd>>(d, pair);
  if (op == "sub") return binary<Sub<F, kFtz, kEnd>>(d, pair);
  if (op == "mul") return binary<Mul<F, kFtz, kEnd>>(d, pair);
  if (op == "fma") return ternary<Fma<F, kFtz, kEnd>>(d, pair);
  return d.fail("half precision");
}

template <class F, bool kMax, bool kFtz>
Handler extremum(Decoder& d, bool pair) {
  bool nan = d.take("NaN");
  bool xorsign = d.take("xorsign");
  if (xorsign && !d.take("abs")) return d.fail(".xorsign without .abs");
  if (nan) {
    return xorsign ? binary<Extremum<F, kMax, kFtz, true, true>>(d, pair)
                   : binary<Extremum<F, kMax, kFtz, true, false>>(d, pair);
  }
  return xorsign ? binary<Extremum<F, kMax, kFtz, false, true>>(d, pair)
                 : binary<Extremum<F, kMax, kFtz, false, false>>(d, pair);
}

template <class F, bool kFtz>
Handler choose(Decoder& d, std::string_view op, bool pair) {
  if (op == "neg") return unary<Negate<F>>(d, pair);
  if (op == "abs") return unary<Magnitude<F>>(d, pair);
  if (op == "min") return extremum<F, false, kFtz>(d, pair);
  if (op == "max") return extremum<F, true, kFtz>(d, pair);
  if (op == "ex2" || op == "tanh") {
    if (!d.take("approx")) return d.fail("no .approx");
    return op == "ex2" ? unary<Approximate<F, 0>>(d, pair) : unary<Approximate<F, 1>>(d, pair);
  }
  if (!d.take("rn") && op == "fma") return d.fail("no rounding mode");
  if (d.take("sat")) return sums<F, kFtz, End::kSat>(d, op, pair);
  if (d.take("relu")) return sums<F, kFtz, End::kRelu>(d, op, pair);
  return sums<F, kFtz, End::kPlain>(d, op, pair);
}

}  // namespace

Handler half_arithmetic(Decoder& d, std::string_view op, Type type) {
  bool ftz = d.take("ftz");
  bool pair = type.bytes == 4;
  if (type.letter == 'y') return choose<Brain, false>(d, op, pair);
  return ftz ? choose<Half, true>(d, op, pair) : choose<Half, false>(d, op, pair);
}

}  // namespace ptxsim
