// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, neg, abs, sad.
#include <algorithm>

#include "isa/elementwise.h"

namespace ptxsim {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
struct WiderOf;
template <>
struct WiderOf<int16_t> {
  using type = int32_t;
};
template <>
struct WiderOf<uint16_t> {
  using type = uint32_t;
};
template <>
struct WiderOf<int32_t> {
  using type = int64_t;
};
template <>
struct WiderOf<uint32_t> {
  using type = uint64_t;
};
template <>
struct WiderOf<int64_t> {
  using type = __int128;
};
template <>
struct WiderOf<uint64_t> {
  using type = unsigned __int128;
};
template <class T>
using Wider = typename WiderOf<T>::type;

// Sums and products wrap: computed unsigned, of at least 32 bits.
template <class T>
T wrap(uint64_t v) {
  return static_cast<T>(v);
}

template <class T>
struct Add {
  static T apply(T a, T b) { return wrap<T>(uint64_t(Unsigned<T>(a)) + Unsigned<T>(b)); }
};
template <>
struct Add<uint32_t> {
  static uint32_t apply(uint32_t a, uint32_t b) { return a + b; }
};
template <class T>
struct Sub {
  static T apply(T a, T b) { return wrap<T>(uint64_t(Unsigned<T>(a)) - Unsigned<T>(b)); }
};
template <>
struct Sub<uint32_t> {
  static uint32_t apply(uint32_t a, uint32_t b) { return a - b; }
};
template <class T>
struct MulLow {
  static T apply(T a, T b) { return wrap<T>(uint64_t(Unsigned<T>(a)) * Unsigned<T>(b)); }
};
template <>
struct MulLow<uint32_t> {
  static uint32_t apply(uint32_t a, uint32_t b) { return a * b; }
};
template <class T>
struct MulHigh {
  static T apply(T a, T b) { return static_cast<T>((Wider<T>(a) * Wider<T>(b)) >> (8 * sizeof(T))); }
};
template <class T>
struct MulWide {
  static Wider<T> apply(T a, T b) { return Wider<T>(a) * Wider<T>(b); }
};
template <class T>
struct MadLow {
  static T apply(T a, T b, T c) { return Add<T>::apply(MulLow<T>::apply(a, b), c); }
};
template <class T>
struct MadHigh {
  static T apply(T a, T b, T c) { return Add<T>::apply(MulHigh<T>::apply(a, b), c); }
};
template <class T>
struct MadWide {
  static Wider<T> apply(T a, T b, Wider<T> c) { return Add<Wider<T>>::apply(MulWide<T>::apply(a, b), c); }
};
// The low 24 bits of each factor.
struct Mul24Unsigned {
  static uint32_t apply(uint32_t a, uint32_t b) { return (a & 0xFFFFFF) * (b & 0xFFFFFF); }
};
struct Mul24Signed {
  static uint32_t apply(uint32_t a, uint32_t b) {
    return static_cast<uint32_t>((static_cast<int32_t>(a << 8) >> 8) * int64_t{static_cast<int32_t>(b << 8) >> 8});
  }
};
// Division by zero gives all ones on the hardware (the remainder: the dividend); PTX leaves it open.
template <class T>
struct Div {
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Sub<T>::apply(0, a);
    return static_cast<T>(a / b);
  }
};
template <class T>
struct Rem {
  static T apply(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
template <class T>
struct Min {
  static T apply(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct Max {
  static T apply(T a, T b) { return a > b ? a : b; }
};
template <class T>
struct MinRelu {
  static T apply(T a, T b) { return std::max<T>(0, std::min(a, b)); }
};
template <class T>
struct MaxRelu {
  static T apply(T a, T b) { return std::max<T>(0, std::max(a, b)); }
};
template <class T>
struct Neg {
  static T apply(T a) { return Sub<T>::apply(0, a); }
};
template <class T>
struct Abs {
  static T apply(T a) { return a < 0 ? Sub<T>::apply(0, a) : a; }
};
template <class T>
struct Sad {
  static T apply(T a, T b, T c) { return Add<T>::apply(c, a < b ? Sub<T>::apply(b, a) : Sub<T>::apply(a, b)); }
};
template <class T>
struct AddSaturating {
  static T apply(T a, T b) { return static_cast<T>(std::clamp<int64_t>(int64_t{a} + b, INT32_MIN, INT32_MAX)); }
};
template <class T>
struct SubSaturating {
  static T apply(T a, T b) { return static_cast<T>(std::clamp<int64_t>(int64_t{a} - b, INT32_MIN, INT32_MAX)); }
};
// Pairs of 16-bit integers.
template <class T, template <class> class Op>
struct Pair {
  static uint32_t apply(uint32_t a, uint32_t b) {
    T low = Op<T>::apply(static_cast<T>(a), static_cast<T>(b));
    T high = Op<T>::apply(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
    return static_cast<uint16_t>(low) | uint32_t{static_cast<uint16_t>(high)} << 16;
  }
};

template <template <class> class Op>
Handler unary(Decoder& d, Type type) {
  switch (type.bytes) {
    case 2:
      return elementwise<Op<int16_t>, int16_t, int16_t>(d, Class::kInteger);
    case 4:
      return elementwise<Op<int32_t>, int32_t, int32_t>(d, Class::kInteger);
    case 8:
      return elementwise<Op<int64_t>, int64_t, int64_t>(d, Class::kInteger);
    default:
      return d.fail("integers of this size");
  }
}

template <template <class> class Op>
Handler ternary(Decoder& d, Type type) {
  bool is_signed = type.letter == 's';
  switch (type.bytes) {
    case 2:
      return is_signed ? elementwise<Op<int16_t>, int16_t, int16_t, int16_t, int16_t>(d, Class::kInteger)
                       : elementwise<Op<uint16_t>, uint16_t, uint16_t, uint16_t, uint16_t>(d, Class::kInteger);
    case 4:
      return is_signed ? elementwise<Op<int32_t>, int32_t, int32_t, int32_t, int32_t>(d, Class::kInteger)
                       : elementwise<Op<uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kInteger);
    case 8:
      return is_signed ? elementwise<Op<int64_t>, int64_t, int64_t, int64_t, int64_t>(d, Class::kInteger)
                       : elementwise<Op<uint64_t>, uint64_t, uint64_t, uint64_t, uint64_t>(d, Class::kInteger);
    default:
      return d.fail("integers of this size");
  }
}

template <class T>
Handler wide_for(Decoder& d, bool add) {
  return add ? elementwise<MadWide<T>, Wider<T>, T, T, Wider<T>>(d, Class::kInteger)
             : elementwise<MulWide<T>, Wider<T>, T, T>(d, Class::kInteger);
}

Handler wide(Decoder& d, Type type, bool add) {
  bool is_signed = type.letter == 's';
  if (type.bytes == 2) return is_signed ? wide_for<int16_t>(d, add) : wide_for<uint16_t>(d, add);
  if (type.bytes == 4) return is_signed ? wide_for<int32_t>(d, add) : wide_for<uint32_t>(d, add);
  return d.fail("wide products of this type");
}

Handler pair_arithmetic(Decoder& d, std::string_view op, bool is_signed) {
  if (op == "add") return elementwise<Pair<uint16_t, Add>, uint32_t, uint32_t, uint32_t>(d, Class::kInteger);
  if (op == "min") {
    return is_signed ? elementwise<Pair<int16_t, Min>, uint32_t, uint32_t, uint32_t>(d, Class::kInteger)
                     : elementwise<Pair<uint16_t, Min>, uint32_t, uint32_t, uint32_t>(d, Class::kInteger);
  }
  if (op == "max") {
    return is_signed ? elementwise<Pair<int16_t, Max>, uint32_t, uint32_t, uint32_t>(d, Class::kInteger)
                     : elementwise<Pair<uint16_t, Max>, uint32_t, uint32_t, uint32_t>(d, Class::kInteger);
  }
  return d.fail("pairs of integers");
}

}  // namespace

Handler integer_arithmetic(Decoder& d, std::string_view op, Type type) {
  bool sat = d.take("sat");
  bool relu = (op == "min" || op == "max") && type.letter == 's' && d.take("relu");
  if (sat) {
    if (type.letter != 's' || type.bytes != 4) return d.fail("saturation of this type");
    if (op == "add") return elementwise<AddSaturating<int32_t>, int32_t, int32_t, int32_t>(d, Class::kInteger);
    if (op == "sub") return elementwise<SubSaturating<int32_t>, int32_t, int32_t, int32_t>(d, Class::kInteger);
    return d.fail("saturation");
  }
  if (op == "add") return integer_binary<Add>(d, {'u', type.bytes});
  if (op == "sub") return integer_binary<Sub>(d, {'u', type.bytes});
  if (op == "mul") {
    if (d.take("wide")) return wide(d, type, false);
    if (d.take("hi")) return integer_binary<MulHigh>(d, type);
    return d.take("lo") ? integer_binary<MulLow>(d, {'u', type.bytes}) : d.fail("neither .lo, .hi nor .wide");
  }
  if (op == "mad") {
    if (d.take("wide")) return wide(d, type, true);
    if (d.take("hi")) return ternary<MadHigh>(d, type);
    return d.take("lo") ? ternary<MadLow>(d, {'u', type.bytes}) : d.fail("neither .lo, .hi nor .wide");
  }
  if (op == "mul24" && d.take("lo")) {
    return type.letter == 's' ? elementwise<Mul24Signed, uint32_t, uint32_t, uint32_t>(d, Class::kInteger)
                              : elementwise<Mul24Unsigned, uint32_t, uint32_t, uint32_t>(d, Class::kInteger);
  }
  if (op == "div") return integer_binary<Div>(d, type);
  if (op == "rem") return integer_binary<Rem>(d, type);
  if (op == "min") return relu ? integer_binary<MinRelu>(d, type) : integer_binary<Min>(d, type);
  if (op == "max") return relu ? integer_binary<MaxRelu>(d, type) : integer_binary<Max>(d, type);
  if (op == "neg") return unary<Neg>(d, type);
  if (op == "abs") return unary<Abs>(d, type);
  if (op == "sad") return ternary<Sad>(d, type);
  return d.fail("integers");
}

// Every opcode that integers, floating point and halves share.
Handler decode_arithmetic(Decoder& d) {
  std::string_view op = d.statement().opcode;
  if (d.take("u16x2")) return pair_arithmetic(d, op, false);
  if (d.take("s16x2")) return pair_arithmetic(d, op, true);
  Type type;
  if (!d.take_type(&type)) return d.fail("no type");
  switch (type.letter) {
    case 'u':
    case 's':
      return integer_arithmetic(d, op, type);
    case 'f':
      return float_arithmetic(d, op, type);
    case 'h':
    case 'y':
      return half_arithmetic(d, op, type);
    default:
      return (op == "neg" || op == "abs") ? half_arithmetic(d, op, type) : d.fail("untyped operands");
  }
}

}  // namespace ptxsim
