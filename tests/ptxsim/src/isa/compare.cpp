// Comparisons and selections: setp, set, selp, slct, testp.
#include <cmath>

#include "isa/elementwise.h"
#include "isa/rounding.h"
#include "units/convert.h"

namespace ptxsim {
namespace {

enum Relation { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };

template <class T>
bool holds(Relation r, T a, T b) {
  bool unordered = a != a || b != b;
  switch (r) {
    case kEq:
      return a == b;
    case kNe:
      return !unordered && a != b;
    case kLt:
      return a < b;
    case kLe:
      return a <= b;
    case kGt:
      return a > b;
    case kGe:
      return a >= b;
    case kEqu:
      return unordered || a == b;
    case kNeu:
      return unordered || a != b;
    case kLtu:
      return unordered || a < b;
    case kLeu:
      return unordered || a <= b;
    case kGtu:
      return unordered || a > b;
    case kGeu:
      return unordered || a >= b;
    case kNum:
      return !unordered;
    case kNan:
      return unordered;
  }
  return false;
}

// A lane's operand as T: integers and floats as they are, halves by their values.
template <class T, bool kFtz>
struct As {
  using Storage = T;
  static T of(T v) { return v; }
};
template <>
struct As<float, true> {
  using Storage = float;
  static float of(float v) { return flush(v); }
};
struct HalfOperand;
struct BrainOperand;
template <bool kFtz>
struct As<HalfOperand, kFtz> {
  using Storage = uint16_t;
  static float of(uint16_t v) { return fp16_value(v); }
};
template <bool kFtz>
struct As<BrainOperand, kFtz> {
  using Storage = uint16_t;
  static float of(uint16_t v) { return bf16_value(v); }
};

enum Combine { kAlone, kAnd, kOr, kXor };

struct Comparison {
  Combine combine = kAlone;
  bool as_float = false;  // set: 1.0f instead of all ones
};

template <class T, bool kFtz, Relation kRelation>
uint32_t compare(Warp& w, Operand const& left, Operand const& right) {
  using S = typename As<T, kFtz>::Storage;
  Lanes<S> sa, sb;
  S const* a = w.lanes<S>(left, sa);
  S const* b = w.lanes<S>(right, sb);
  alignas(32) uint8_t flags[kWarpSize];
  for (int i = 0; i < kWarpSize; ++i) flags[i] = holds(kRelation, As<T, kFtz>::of(a[i]), As<T, kFtz>::of(b[i]));
  return pack_mask(flags);
}

uint32_t combined(Warp& w, Instruction const& in, uint32_t mask) {
  switch (static_cast<Combine>(in.variant & 3)) {
    case kAnd:
      return mask & w.predicate(in.operands[3]);
    case kOr:
      return mask | w.predicate(in.operands[3]);
    case kXor:
      return mask ^ w.predicate(in.operands[3]);
    default:
      return mask;
  }
}

template <class T, bool kFtz, Relation kRelation>
Step run_setp(Warp& w, Instruction const& in) {
  uint32_t mask = compare<T, kFtz, kRelation>(w, in.operands[1], in.operands[2]);
  Operand const& to = in.operands[0];
  if (to.kind == Operand::Kind::kPair) {
    w.set_predicate(to.elements[0], combined(w, in, mask));
    w.set_predicate(to.elements[1], combined(w, in, ~mask));
  } else {
    w.set_predicate(to, combined(w, in, mask));
  }
  return Step::kNext;
}

template <class T, bool kFtz, Relation kRelation>
Step run_set(Warp& w, Instruction const& in) {
  uint32_t mask = combined(w, in, compare<T, kFtz, kRelation>(w, in.operands[1], in.operands[2]));
  uint32_t yes = in.aux ? 0x3F800000u : 0xFFFFFFFFu;
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    w.set(in.operands[0], lane, mask >> lane & 1 ? yes : 0);
  }
  return Step::kNext;
}

template <class T, bool kFtz, bool kSet, int... kRelations>
Handler pick(int relation, std::integer_sequence<int, kRelations...>) {
  static constexpr Handler kTable[] = {(kSet ? run_set<T, kFtz, static_cast<Relation>(kRelations)>
                                             : run_setp<T, kFtz, static_cast<Relation>(kRelations)>)...};
  return relation < static_cast<int>(sizeof...(kRelations)) ? kTable[relation] : nullptr;
}

template <class T, bool kSet, int kCount, bool kFtz = false>
Handler comparison(Decoder& d, int relation) {
  constexpr uint8_t kWidth = sizeof(typename As<T, kFtz>::Storage);
  d.constant_width(1, kWidth);
  d.constant_width(2, kWidth);
  Handler h = pick<T, kFtz, kSet>(relation, std::make_integer_sequence<int, kCount>());
  return h == nullptr ? d.fail("this relation of integers") : h;
}

template <bool kSet>
Handler by_type(Decoder& d, Type type, int relation, bool ftz) {
  bool is_signed = type.letter == 's';
  switch (type.letter) {
    case 'f':
      if (type.bytes == 8) return comparison<double, kSet, 14>(d, relation);
      return ftz ? comparison<float, kSet, 14, true>(d, relation) : comparison<float, kSet, 14>(d, relation);
    case 'h':
      return type.bytes == 2 ? comparison<HalfOperand, kSet, 14>(d, relation) : d.fail("pairs of halves");
    case 'y':
      return type.bytes == 2 ? comparison<BrainOperand, kSet, 14>(d, relation) : d.fail("pairs of halves");
    default:
      break;
  }
  switch (type.bytes) {
    case 2:
      return is_signed ? comparison<int16_t, kSet, 6>(d, relation) : comparison<uint16_t, kSet, 6>(d, relation);
    case 4:
      return is_signed ? comparison<int32_t, kSet, 6>(d, relation) : comparison<uint32_t, kSet, 6>(d, relation);
    case 8:
      return is_signed ? comparison<int64_t, kSet, 6>(d, relation) : comparison<uint64_t, kSet, 6>(d, relation);
    default:
      return d.fail("this size");
  }
}

int take_relation(Decoder& d) {
  int r = d.take_one_of({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  if (r >= 0) return r;
  int u = d.take_one_of({"lo", "ls", "hi", "hs"});
  return u < 0 ? -1 : kLt + u;
}

// selp: an undefined operand that is not chosen does not matter.
template <class T>
Step run_selp(Warp& w, Instruction const& in) {
  Lanes<T> sa, sb, out;
  T const* a = w.lanes<T>(in.operands[1], sa);
  T const* b = w.lanes<T>(in.operands[2], sb);
  uint32_t choose = w.predicate(in.operands[3]);
  uint32_t bad = (w.poison(in.operands[1]) & choose) | (w.poison(in.operands[2]) & ~choose) | w.poison(in.operands[3]);
  for (int i = 0; i < kWarpSize; ++i) out.v[i] = choose >> i & 1 ? a[i] : b[i];
  w.store_lanes<T>(in.operands[0], out.v);
  if (bad & w.active()) w.set_poison(in.operands[0], bad);
  return Step::kNext;
}

template <class T>
struct Slct {
  static T apply(T a, T b, int32_t c) { return c >= 0 ? a : b; }
};
template <class T>
struct SlctFloat {
  static T apply(T a, T b, float c) { return c >= 0 ? a : b; }
};

template <int kWhat>
struct Test {
  static bool of(float v) {
    int kind = std::fpclassify(v);
    switch (kWhat) {
      case 0:
        return std::isfinite(v);
      case 1:
        return std::isinf(v);
      case 2:
        return kind != FP_NAN;
      case 3:
        return kind == FP_NAN;
      case 4:
        return kind == FP_NORMAL;
      default:
        return kind == FP_SUBNORMAL;
    }
  }
};

Step run_testp(Warp& w, Instruction const& in) {
  uint32_t mask = 0;
  for (int i = 0; i < kWarpSize; ++i) {
    float v = w.value_float(in.operands[1], i);
    bool is = in.variant == 0   ? Test<0>::of(v)
              : in.variant == 1 ? Test<1>::of(v)
              : in.variant == 2 ? Test<2>::of(v)
              : in.variant == 3 ? Test<3>::of(v)
              : in.variant == 4 ? Test<4>::of(v)
                                : Test<5>::of(v);
    mask |= static_cast<uint32_t>(is) << i;
  }
  w.set_predicate(in.operands[0], mask);
  return Step::kNext;
}

}  // namespace

Handler decode_setp(Decoder& d) {
  bool is_set = d.statement().opcode == "set";
  int relation = take_relation(d);
  if (relation < 0) return d.fail("no relation");
  Combine combine = static_cast<Combine>(1 + d.take_one_of({"and", "or", "xor"}));
  bool ftz = d.take("ftz");
  Type result{'u', 4}, type;
  if (is_set && !d.take_type(&result)) return d.fail("no result type");
  if (!d.take_type(&type)) return d.fail("no type");
  int expected = combine == kAlone ? 3 : 4;
  if (!d.operands(expected, expected)) return nullptr;
  if (is_set && result.bytes != 4) return d.fail("this result type");
  d.instruction().variant = combine;
  d.instruction().aux = result.letter == 'f';
  d.instruction().category = Class::kCompare;
  d.propagate();
  return is_set ? by_type<true>(d, type, relation, ftz) : by_type<false>(d, type, relation, ftz);
}

Handler decode_selp(Decoder& d) {
  Type type;
  if (!d.take_type(&type) || !d.operands(4, 4)) return d.fail("no type");
  d.instruction().category = Class::kCompare;
  d.instruction().pure = true;
  d.constant_width(1, type.bytes);
  d.constant_width(2, type.bytes);
  switch (type.bytes) {
    case 2:
      return run_selp<uint16_t>;
    case 4:
      return run_selp<uint32_t>;
    case 8:
      return run_selp<uint64_t>;
    default:
      return d.fail("this size");
  }
}

Handler decode_slct(Decoder& d) {
  d.take("ftz");
  Type type, by;
  if (!d.take_type(&type) || !d.take_type(&by)) return d.fail("no types");
  if (by.letter == 'f') {
    if (type.bytes == 4)
      return elementwise<SlctFloat<uint32_t>, uint32_t, uint32_t, uint32_t, float>(d, Class::kCompare);
    if (type.bytes == 8)
      return elementwise<SlctFloat<uint64_t>, uint64_t, uint64_t, uint64_t, float>(d, Class::kCompare);
    return d.fail("this size");
  }
  if (type.bytes == 4) return elementwise<Slct<uint32_t>, uint32_t, uint32_t, uint32_t, int32_t>(d, Class::kCompare);
  if (type.bytes == 8) return elementwise<Slct<uint64_t>, uint64_t, uint64_t, uint64_t, int32_t>(d, Class::kCompare);
  return d.fail("this size");
}

Handler decode_testp(Decoder& d) {
  int what = d.take_one_of({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  Type type;
  if (what < 0 || !d.take_type(&type) || type.letter != 'f' || type.bytes != 4) return d.fail("this test");
  if (!d.operands(2, 2)) return nullptr;
  d.instruction().variant = static_cast<uint32_t>(what);
  d.instruction().category = Class::kCompare;
  d.propagate();
  return run_testp;
}

}  // namespace ptxsim
