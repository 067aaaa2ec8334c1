// Bit instructions: and, or, xor, not, cnot, shl, shr, shf, lop3, prmt, bfe, bfi, brev, popc, clz, bfind, szext, bmsk.
#include <algorithm>

#include "isa/elementwise.h"

namespace ptxsim {
namespace {

template <class T>
struct And {
  static T apply(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T apply(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T apply(T a, T b) { return a ^ b; }
};
template <class T>
struct Not {
  static T apply(T a) { return static_cast<T>(~a); }
};
template <class T>
struct Cnot {
  static T apply(T a) { return a == 0; }
};
// Shifts beyond the width give zero, or the sign.
template <class T>
struct ShiftLeft {
  static T apply(T a, uint32_t n) { return n >= 8 * sizeof(T) ? 0 : static_cast<T>(a << n); }
};
template <class T>
struct ShiftRight {
  static T apply(T a, uint32_t n) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    if (n >= kBits) return std::is_signed_v<T> ? static_cast<T>(a >> (kBits - 1)) : 0;
    return static_cast<T>(a >> n);
  }
};

template <bool kLeft, bool kWrap>
struct Funnel {
  static uint32_t apply(uint32_t low, uint32_t high, uint32_t n) {
    n = kWrap ? n & 31 : std::min<uint32_t>(n, 32);
    uint64_t both = uint64_t{high} << 32 | low;
    return kLeft ? static_cast<uint32_t>((both << n) >> 32) : static_cast<uint32_t>(both >> n);
  }
};

struct Lop3 {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t out = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      uint32_t term = (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
      out |= table >> i & 1 ? term : 0;
    }
    return out;
  }
};

struct Permute {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t both = uint64_t{b} << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; ++i) {
      uint32_t pick = selector >> (4 * i) & 15;
      uint32_t byte = static_cast<uint32_t>(both >> (8 * (pick & 7))) & 0xFF;
      if (pick & 8) byte = byte & 0x80 ? 0xFF : 0;
      out |= byte << (8 * i);
    }
    return out;
  }
};

// The modes of prmt: the low two bits of the selector say where to begin.
template <int kMode>
struct PermuteMode {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t selector) {
    static constexpr uint16_t kTable[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                              {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                              {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    return Permute::apply(a, b, kTable[kMode][selector & 3]);
  }
};

template <class T>
struct ExtractField {
  static T apply(T a, uint32_t position, uint32_t length) {
    using U = std::make_unsigned_t<T>;
    constexpr uint32_t kTop = 8 * sizeof(T) - 1;
    position &= 0xFF;
    length &= 0xFF;
    U sign = 0;
    if (std::is_signed_v<T> && length != 0) sign = static_cast<U>(a) >> std::min(position + length - 1, kTop) & 1;
    U field = position > kTop ? 0 : static_cast<U>(a) >> position;
    if (length > kTop) length = kTop + 1;
    uint32_t have = position > kTop ? 0 : std::min(length, kTop + 1 - position);
    U mask = have > kTop ? ~U{0} : static_cast<U>((U{1} << have) - 1);
    field &= mask;
    return static_cast<T>(sign ? field | static_cast<U>(~mask) : field);
  }
};

template <class T>
struct InsertField {
  static T apply(T a, T b, uint32_t position, uint32_t length) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    position &= 0xFF;
    length &= 0xFF;
    if (position >= kBits || length == 0) return b;
    length = std::min(length, kBits - position);
    T mask = length == kBits ? ~T{0} : static_cast<T>((T{1} << length) - 1);
    return static_cast<T>((b & ~(mask << position)) | (a & mask) << position);
  }
};

template <class T>
struct Reverse {
  static T apply(T a) {
    T out = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i) out = static_cast<T>(out << 1 | (a >> i & 1));
    return out;
  }
};
template <class T>
struct CountOnes {
  static uint32_t apply(T a) { return static_cast<uint32_t>(__builtin_popcountll(a)); }
};
template <class T>
struct LeadingZeros {
  static uint32_t apply(T a) {
    return a == 0 ? 8 * sizeof(T) : static_cast<uint32_t>(__builtin_clzll(a)) - (64 - 8 * sizeof(T));
  }
};
template <class T, bool kAmount>
struct FindBit {
  static uint32_t apply(T a) {
    using U = std::make_unsigned_t<T>;
    U bits = std::is_signed_v<T> && a < 0 ? static_cast<U>(~a) : static_cast<U>(a);
    if (bits == 0) return 0xFFFFFFFFu;
    uint32_t position = 63 - static_cast<uint32_t>(__builtin_clzll(bits));
    return kAmount ? 8 * sizeof(T) - 1 - position : position;
  }
};
template <bool kSigned, bool kWrap>
struct Extend {
  static uint32_t apply(uint32_t a, uint32_t n) {
    n = kWrap ? n & 31 : std::min<uint32_t>(n, 32);
    if (n == 32) return a;
    uint32_t mask = (1u << n) - 1;
    bool negative = kSigned && n != 0 && (a >> (n - 1) & 1);
    return negative ? a | ~mask : a & mask;
  }
};
template <bool kWrap>
struct BitMask {
  static uint32_t apply(uint32_t position, uint32_t length) {
    position = kWrap ? position & 31 : std::min<uint32_t>(position, 32);
    length = kWrap ? length & 31 : std::min<uint32_t>(length, 32);
    uint64_t mask = ((uint64_t{1} << length) - 1) << position;
    return static_cast<uint32_t>(mask);
  }
};

// Predicates are masks: and, or, xor, not work on all lanes at once.
template <int kOp>
Step run_predicate(Warp& w, Instruction const& in) {
  uint32_t a = w.predicate(in.operands[1]);
  uint32_t b = in.operand_count > 2 ? w.predicate(in.operands[2]) : 0;
  w.set_predicate(in.operands[0], kOp == 0 ? a & b : kOp == 1 ? a | b : kOp == 2 ? a ^ b : ~a);
  return Step::kNext;
}

template <template <class> class Op>
Handler shift(Decoder& d, Type type) {
  bool is_signed = type.letter == 's';
  switch (type.bytes) {
    case 2:
      return is_signed ? elementwise<Op<int16_t>, int16_t, int16_t, uint32_t>(d, Class::kLogic)
                       : elementwise<Op<uint16_t>, uint16_t, uint16_t, uint32_t>(d, Class::kLogic);
    case 4:
      return is_signed ? elementwise<Op<int32_t>, int32_t, int32_t, uint32_t>(d, Class::kLogic)
                       : elementwise<Op<uint32_t>, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
    case 8:
      return is_signed ? elementwise<Op<int64_t>, int64_t, int64_t, uint32_t>(d, Class::kLogic)
                       : elementwise<Op<uint64_t>, uint64_t, uint64_t, uint32_t>(d, Class::kLogic);
    default:
      return d.fail("shifts of this size");
  }
}

template <template <class> class Op>
Handler unary(Decoder& d, Type type) {
  if (type.bytes == 2) return elementwise<Op<uint16_t>, uint16_t, uint16_t>(d, Class::kLogic);
  if (type.bytes == 4) return elementwise<Op<uint32_t>, uint32_t, uint32_t>(d, Class::kLogic);
  return type.bytes == 8 ? elementwise<Op<uint64_t>, uint64_t, uint64_t>(d, Class::kLogic) : d.fail("this size");
}

template <template <class> class Op>
Handler counting(Decoder& d, Type type) {
  if (type.bytes == 4) return elementwise<Op<uint32_t>, uint32_t, uint32_t>(d, Class::kLogic);
  return type.bytes == 8 ? elementwise<Op<uint64_t>, uint32_t, uint64_t>(d, Class::kLogic) : d.fail("this size");
}

template <bool kAmount>
Handler find_bit(Decoder& d, Type type) {
  if (type.letter == 's') {
    return type.bytes == 4 ? elementwise<FindBit<int32_t, kAmount>, uint32_t, int32_t>(d, Class::kLogic)
                           : elementwise<FindBit<int64_t, kAmount>, uint32_t, int64_t>(d, Class::kLogic);
  }
  return type.bytes == 4 ? elementwise<FindBit<uint32_t, kAmount>, uint32_t, uint32_t>(d, Class::kLogic)
                         : elementwise<FindBit<uint64_t, kAmount>, uint32_t, uint64_t>(d, Class::kLogic);
}

Handler permute(Decoder& d) {
  switch (d.take_one_of({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"})) {
    case 0:
      return elementwise<PermuteMode<0>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
    case 1:
      return elementwise<PermuteMode<1>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
    case 2:
      return elementwise<PermuteMode<2>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
    case 3:
      return elementwise<PermuteMode<3>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
    case 4:
      return elementwise<PermuteMode<4>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
    case 5:
      return elementwise<PermuteMode<5>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
    default:
      return elementwise<Permute, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
  }
}

Handler field(Decoder& d, Type type, bool insert) {
  if (insert) {
    if (type.bytes == 4)
      return elementwise<InsertField<uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
    return elementwise<InsertField<uint64_t>, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t>(d, Class::kLogic);
  }
  bool is_signed = type.letter == 's';
  if (type.bytes == 4) {
    return is_signed ? elementwise<ExtractField<int32_t>, int32_t, int32_t, uint32_t, uint32_t>(d, Class::kLogic)
                     : elementwise<ExtractField<uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
  }
  return is_signed ? elementwise<ExtractField<int64_t>, int64_t, int64_t, uint32_t, uint32_t>(d, Class::kLogic)
                   : elementwise<ExtractField<uint64_t>, uint64_t, uint64_t, uint32_t, uint32_t>(d, Class::kLogic);
}

template <bool kSigned>
Handler extend(Decoder& d) {
  if (d.take("wrap")) return elementwise<Extend<kSigned, true>, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
  d.take("clamp");
  return elementwise<Extend<kSigned, false>, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
}

}  // namespace

Handler decode_logic(Decoder& d) {
  std::string_view op = d.statement().opcode;
  Type type;
  if (!d.take_type(&type)) return d.fail("no type");
  if (type.letter == 'p') {
    if (!d.operands(2, 3)) return nullptr;
    d.propagate();
    d.instruction().category = Class::kLogic;
    if (op == "and") return run_predicate<0>;
    if (op == "or") return run_predicate<1>;
    if (op == "xor") return run_predicate<2>;
    return op == "not" ? run_predicate<3> : d.fail("predicates");
  }
  Type plain{'u', type.bytes};
  if (op == "and") return integer_binary<And>(d, plain, Class::kLogic);
  if (op == "or") return integer_binary<Or>(d, plain, Class::kLogic);
  if (op == "xor") return integer_binary<Xor>(d, plain, Class::kLogic);
  if (op == "not") return unary<Not>(d, type);
  if (op == "cnot") return unary<Cnot>(d, type);
  if (op == "shl") return shift<ShiftLeft>(d, plain);
  if (op == "shr") return shift<ShiftRight>(d, type);
  if (op == "brev") return unary<Reverse>(d, type);
  if (op == "popc") return counting<CountOnes>(d, type);
  if (op == "clz") return counting<LeadingZeros>(d, type);
  if (op == "bfind") return d.take("shiftamt") ? find_bit<true>(d, type) : find_bit<false>(d, type);
  if (op == "bfe") return field(d, type, false);
  if (op == "bfi") return field(d, type, true);
  if (op == "prmt") return permute(d);
  if (op == "lop3") return elementwise<Lop3, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
  if (op == "szext") return type.letter == 's' ? extend<true>(d) : extend<false>(d);
  if (op == "bmsk") {
    if (d.take("wrap")) return elementwise<BitMask<true>, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
    d.take("clamp");
    return elementwise<BitMask<false>, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
  }
  if (op == "shf") {
    bool left = d.take("l");
    if (!left && !d.take("r")) return d.fail("neither .l nor .r");
    bool wrap = d.take("wrap");
    if (!wrap && !d.take("clamp")) return d.fail("neither .wrap nor .clamp");
    if (left) {
      return wrap ? elementwise<Funnel<true, true>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic)
                  : elementwise<Funnel<true, false>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
    }
    return wrap ? elementwise<Funnel<false, true>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic)
                : elementwise<Funnel<false, false>, uint32_t, uint32_t, uint32_t, uint32_t>(d, Class::kLogic);
  }
  return d.fail("bit instructions");
}

}  // namespace ptxsim
