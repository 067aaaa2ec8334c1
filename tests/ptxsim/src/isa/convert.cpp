// cvt: integers, floating point of 16 to 64 bits, and the packed small formats.
#include <immintrin.h>

#include <cmath>
#include <limits>

#include "isa/elementwise.h"
#include "isa/rounding.h"
#include "units/convert.h"

namespace ptxsim {
namespace {

template <class D, class S>
struct Plain {
  static D apply(S v) { return static_cast<D>(v); }
};
template <class D, class S>
struct Saturate {
  static D apply(S v) {
    __int128 wide = v;
    __int128 low = std::numeric_limits<D>::min(), high = std::numeric_limits<D>::max();
    return static_cast<D>(wide < low ? low : wide > high ? high : wide);
  }
};

template <class S, template <class, class> class Op>
Handler integer_to(Decoder& d, Type to) {
  bool is_signed = to.letter == 's';
  switch (to.bytes) {
    case 1:
      return is_signed ? elementwise<Op<int8_t, S>, int8_t, S>(d, Class::kConvert)
                       : elementwise<Op<uint8_t, S>, uint8_t, S>(d, Class::kConvert);
    case 2:
      return is_signed ? elementwise<Op<int16_t, S>, int16_t, S>(d, Class::kConvert)
                       : elementwise<Op<uint16_t, S>, uint16_t, S>(d, Class::kConvert);
    case 4:
      return is_signed ? elementwise<Op<int32_t, S>, int32_t, S>(d, Class::kConvert)
                       : elementwise<Op<uint32_t, S>, uint32_t, S>(d, Class::kConvert);
    default:
      return is_signed ? elementwise<Op<int64_t, S>, int64_t, S>(d, Class::kConvert)
                       : elementwise<Op<uint64_t, S>, uint64_t, S>(d, Class::kConvert);
  }
}

template <template <class, class> class Op>
Handler integer_conversion(Decoder& d, Type to, Type from) {
  bool is_signed = from.letter == 's';
  switch (from.bytes) {
    case 1:
      return is_signed ? integer_to<int8_t, Op>(d, to) : integer_to<uint8_t, Op>(d, to);
    case 2:
      return is_signed ? integer_to<int16_t, Op>(d, to) : integer_to<uint16_t, Op>(d, to);
    case 4:
      return is_signed ? integer_to<int32_t, Op>(d, to) : integer_to<uint32_t, Op>(d, to);
    default:
      return is_signed ? integer_to<int64_t, Op>(d, to) : integer_to<uint64_t, Op>(d, to);
  }
}

// The frequent ones, whole warps at a time.
struct HalfToFloat {
  static float apply(uint16_t v) { return canonical(_cvtsh_ss(v)); }
};
// Other bits behind the same ones: a NaN keeps its own, as on an H200 (conformance/).
struct BrainToFloat {
  static uint32_t apply(uint16_t v) { return static_cast<uint32_t>(v) << 16; }
};
uint16_t half_of(float v) { return v != v ? 0x7FFF : _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT); }
uint16_t brain_of(float v) {
  uint32_t bits = float_bits(v);
  uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FFF : rounded);
}
struct FloatToHalf {
  static uint16_t apply(float v) { return half_of(v); }
};
struct FloatToBrain {
  static uint16_t apply(float v) { return brain_of(v); }
};
struct FloatsToHalves {
  static uint32_t apply(float a, float b) { return half_of(b) | uint32_t{half_of(a)} << 16; }
};
struct FloatsToBrains {
  static uint32_t apply(float a, float b) { return brain_of(b) | uint32_t{brain_of(a)} << 16; }
};
template <bool kFtz>
struct SaturateFloat {
  static float apply(float v) { return v > 0 ? (v < 1 ? (kFtz ? flush(v) : v) : 1.0f) : 0.0f; }
};

// Everything else goes through double, lane by lane.
enum class Format : uint8_t { kF64, kF32, kF16, kBf16, kTf32, kE4m3, kE5m2, kE2m1, kE2m3, kE3m2, kUe8m0, kInteger };

struct Conversion {
  Format to = Format::kF32, from = Format::kF32;
  Type integer_to, integer_from;
  int elements = 1;            // of the result
  bool packed_source = false;  // the source holds both elements in one register
  RoundMode rounding = RoundMode::kNearestEven;
  bool to_integral = false, ftz = false, sat = false, satfinite = false, relu = false;
};

int bits_of(Format f) {
  switch (f) {
    case Format::kF64:
      return 64;
    case Format::kF32:
    case Format::kTf32:
      return 32;
    case Format::kF16:
    case Format::kBf16:
      return 16;
    case Format::kE2m1:
      return 4;
    default:
      return 8;
  }
}

FloatFormat const& format_of(Format f) {
  switch (f) {
    case Format::kF16:
      return kFp16;
    case Format::kBf16:
      return kBf16;
    case Format::kE4m3:
      return kE4m3;
    case Format::kE5m2:
      return kE5m2;
    case Format::kE2m1:
      return kE2m1;
    case Format::kE2m3:
      return kE2m3;
    case Format::kE3m2:
      return kE3m2;
    default:
      return kFp32;
  }
}

double value_of(Format f, uint64_t bits) {
  switch (f) {
    case Format::kF64: {
      double v;
      std::memcpy(&v, &bits, 8);
      return v;
    }
    case Format::kF32:
      return bits_float(static_cast<uint32_t>(bits));
    case Format::kTf32:
      return decode_tf32(static_cast<uint32_t>(bits));
    case Format::kUe8m0:
      return decode_ue8m0(static_cast<uint8_t>(bits));
    default:
      return decode(format_of(f), static_cast<uint32_t>(bits));
  }
}

uint64_t code_of(Conversion const& c, double v) {
  switch (c.to) {
    case Format::kF64: {
      uint64_t bits;
      std::memcpy(&bits, &v, 8);
      return bits;
    }
    case Format::kTf32:
      return encode_tf32(v, c.rounding, c.satfinite, c.relu);
    case Format::kUe8m0:
      return encode_ue8m0(v, c.rounding, c.satfinite);
    default:
      return encode(format_of(c.to), v, c.rounding, c.satfinite, c.relu);
  }
}

double to_integral(double v, RoundMode mode) {
  switch (mode) {
    case RoundMode::kZero:
      return std::trunc(v);
    case RoundMode::kDown:
      return std::floor(v);
    case RoundMode::kUp:
      return std::ceil(v);
    case RoundMode::kNearestAway:
      return std::round(v);
    default:
      return std::nearbyint(v);
  }
}

double prepared(Conversion const& c, double v) {
  if (c.ftz && c.from == Format::kF32) v = std::fabs(v) < 0x1p-126 ? std::copysign(0.0, v) : v;
  if (c.to_integral) v = to_integral(v, c.rounding);
  if (c.sat) v = v > 0 ? (v < 1 ? v : 1.0) : 0.0;
  return v;
}

Step run_float(Warp& w, Instruction const& in) {
  Conversion const& c = in.decoded<Conversion>();
  int width = bits_of(c.to), source_width = bits_of(c.from);
  // Sub-byte formats in separate bytes when not packed two in a byte: only e2m1 is.
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint64_t result = 0;
    for (int e = 0; e < c.elements; ++e) {
      // Element 0 is the lower one: of two operands the second.
      uint64_t bits = c.packed_source ? w.value(in.operands[1], lane) >> (e * source_width)
                                      : w.value(in.operands[c.elements - e], lane);
      if (source_width < 64) bits &= (uint64_t{1} << source_width) - 1;
      uint64_t code = code_of(c, prepared(c, value_of(c.from, bits)));
      if (c.ftz && c.to == Format::kF32 && (code & 0x7F800000) == 0) code &= 0x80000000;
      result |= code << (e * width);
    }
    w.set(in.operands[0], lane, result);
  }
  return Step::kNext;
}

Step run_float_to_integer(Warp& w, Instruction const& in) {
  Conversion const& c = in.decoded<Conversion>();
  int bits = 8 * c.integer_to.bytes;
  bool is_signed = c.integer_to.letter == 's';
  double low = is_signed ? -std::ldexp(1.0, bits - 1) : 0.0;
  double limit = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // first value that is too large
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    double v = prepared(c, value_of(c.from, w.value(in.operands[1], lane)));
    uint64_t result;
    if (v != v) {
      result = 0;
    } else if (v >= limit) {
      result = (is_signed ? uint64_t{1} << (bits - 1) : bits == 64 ? 0 : uint64_t{1} << bits) - 1;
    } else if (v <= low) {
      result = static_cast<uint64_t>(static_cast<int64_t>(low));
    } else {
      result = is_signed ? static_cast<uint64_t>(static_cast<int64_t>(v)) : static_cast<uint64_t>(v);
    }
    w.set(in.operands[0], lane, result);
  }
  return Step::kNext;
}

Step run_integer_to_float(Warp& w, Instruction const& in) {
  Conversion const& c = in.decoded<Conversion>();
  int unused = 64 - 8 * c.integer_from.bytes;
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint64_t bits = w.value(in.operands[1], lane) << unused;
    bool negative = c.integer_from.letter == 's' && static_cast<int64_t>(bits) < 0;
    uint64_t magnitude =
        c.integer_from.letter == 's' ? static_cast<uint64_t>(static_cast<int64_t>(bits) >> unused) : bits >> unused;
    if (negative) magnitude = 0 - magnitude;
    // 64 bits do not fit a double: what is lost only matters as "not exactly".
    double v = static_cast<double>(magnitude >> 12) * 4096.0;
    uint64_t low = magnitude & 0xFFF;
    double exact = magnitude >> 53 == 0 ? static_cast<double>(magnitude) : sum_to_odd(v, static_cast<double>(low));
    if (c.to == Format::kF64 && magnitude >> 53 != 0) exact = static_cast<double>(magnitude);
    uint64_t code = code_of(c, prepared(c, negative ? -exact : exact));
    w.set(in.operands[0], lane, code);
  }
  return Step::kNext;
}

struct Name {
  std::string_view text;
  Format format;
  int elements;
};
constexpr Name kNames[] = {{"f64", Format::kF64, 1},      {"f32", Format::kF32, 1},     {"f16", Format::kF16, 1},
                           {"bf16", Format::kBf16, 1},    {"tf32", Format::kTf32, 1},   {"f16x2", Format::kF16, 2},
                           {"bf16x2", Format::kBf16, 2},  {"e4m3x2", Format::kE4m3, 2}, {"e5m2x2", Format::kE5m2, 2},
                           {"e2m1x2", Format::kE2m1, 2},  {"e2m3x2", Format::kE2m3, 2}, {"e3m2x2", Format::kE3m2, 2},
                           {"ue8m0x2", Format::kUe8m0, 2}};

// The next type among the modifiers, a floating one or an integer.
bool take_format(Decoder& d, Format* format, Type* integer, int* elements) {
  for (std::string_view m : d.left()) {
    for (Name const& name : kNames) {
      if (m != name.text) continue;
      d.take(m);
      *format = name.format;
      *elements = name.elements;
      return true;
    }
    if (m.size() >= 2 && m.size() <= 3 && (m[0] == 'u' || m[0] == 's') && m[1] >= '0' && m[1] <= '9') {
      *format = Format::kInteger;
      *elements = 1;
      return d.take_type(integer);
    }
  }
  return false;
}

Handler fast_form(Decoder& d, Conversion const& c) {
  if (c.satfinite || c.relu || c.to_integral || c.ftz || c.rounding != RoundMode::kNearestEven) return nullptr;
  if (c.to == Format::kF32 && c.elements == 1 && !c.sat) {
    if (c.from == Format::kF16) return elementwise<HalfToFloat, float, uint16_t>(d, Class::kConvert);
    if (c.from == Format::kBf16) return elementwise<BrainToFloat, uint32_t, uint16_t>(d, Class::kConvert);
  }
  if (c.from != Format::kF32) return nullptr;
  if (c.sat)
    return c.to == Format::kF32 ? elementwise<SaturateFloat<false>, float, float>(d, Class::kConvert) : nullptr;
  if (c.to == Format::kF16) {
    return c.elements == 2 ? elementwise<FloatsToHalves, uint32_t, float, float>(d, Class::kConvert)
                           : elementwise<FloatToHalf, uint16_t, float>(d, Class::kConvert);
  }
  if (c.to == Format::kBf16) {
    return c.elements == 2 ? elementwise<FloatsToBrains, uint32_t, float, float>(d, Class::kConvert)
                           : elementwise<FloatToBrain, uint16_t, float>(d, Class::kConvert);
  }
  return nullptr;
}

}  // namespace

Handler decode_cvt(Decoder& d) {
  if (d.statement().modifiers.size() == 0) return d.fail("no types");
  Conversion c;
  int rounding = d.take_one_of({"rn", "rna", "rz", "rp", "rm", "rni", "rzi", "rpi", "rmi"});
  static constexpr RoundMode kModes[] = {RoundMode::kNearestEven, RoundMode::kNearestAway, RoundMode::kZero,
                                         RoundMode::kUp,          RoundMode::kDown,        RoundMode::kNearestEven,
                                         RoundMode::kZero,        RoundMode::kUp,          RoundMode::kDown};
  if (rounding >= 0) c.rounding = kModes[rounding];
  c.to_integral = rounding >= 5;
  c.ftz = d.take("ftz");
  c.sat = d.take("sat");
  c.satfinite = d.take("satfinite");
  c.relu = d.take("relu");
  int source_elements = 1;
  if (!take_format(d, &c.to, &c.integer_to, &c.elements) ||
      !take_format(d, &c.from, &c.integer_from, &source_elements)) {
    return d.fail("types not known");
  }
  bool to_integer = c.to == Format::kInteger, from_integer = c.from == Format::kInteger;
  if (to_integer && from_integer) {
    return c.sat ? integer_conversion<Saturate>(d, c.integer_to, c.integer_from)
                 : integer_conversion<Plain>(d, c.integer_to, c.integer_from);
  }
  c.packed_source = source_elements == 2;
  if (c.packed_source != (c.elements == 2) && c.packed_source) return d.fail("these types");
  int expected = c.elements == 2 && !c.packed_source ? 3 : 2;
  if (!d.operands(expected, expected)) return nullptr;
  if (Handler fast = to_integer || from_integer ? nullptr : fast_form(d, c)) return fast;
  if (to_integer && !c.to_integral) return d.fail("no rounding to an integer");
  bool widens = bits_of(c.from) <= bits_of(c.to);
  if (!to_integer && !from_integer && rounding < 0 && !widens && c.to != Format::kUe8m0)
    return d.fail("no rounding mode");
  d.instruction().data = std::make_shared<Conversion>(c);
  d.instruction().category = Class::kConvert;
  d.propagate();
  if (to_integer) return run_float_to_integer;
  return from_integer ? run_integer_to_float : run_float;
}

}  // namespace ptxsim
