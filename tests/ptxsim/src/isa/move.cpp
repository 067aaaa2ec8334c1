// mov (with packing and unpacking), cvta, isspacep, mapa, getctarank, and the clocks.
#include <algorithm>
#include <chrono>

#include "isa/elementwise.h"

namespace ptxsim {
namespace {

template <class T>
struct Copy {
  static T apply(T a) { return a; }
};

Step run_move_predicate(Warp& w, Instruction const& in) {
  w.set_predicate(in.operands[0], w.predicate(in.operands[1]));
  return Step::kNext;
}

Step run_move_wide(Warp& w, Instruction const& in) {
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint64_t v[2];
    w.value128(in.operands[1], lane, v);
    w.set128(in.operands[0], lane, v);
  }
  return Step::kNext;
}

// mov.b64 d, {a, b} and mov.b64 {a, b}, s: element 0 holds the lowest bits. in.variant: bytes of the whole.
Step run_pack(Warp& w, Instruction const& in) {
  Operand const& from = in.operands[1];
  size_t each = in.variant / from.elements.size();
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint8_t bytes[16] = {};
    for (size_t k = 0; k < from.elements.size(); ++k) {
      uint64_t v = w.value(from.elements[k], lane);
      std::memcpy(bytes + k * each, &v, each);
    }
    uint64_t both[2];
    std::memcpy(both, bytes, 16);
    in.variant == 16 ? w.set128(in.operands[0], lane, both) : w.set(in.operands[0], lane, both[0]);
  }
  return Step::kNext;
}

Step run_unpack(Warp& w, Instruction const& in) {
  Operand const& to = in.operands[0];
  size_t each = in.variant / to.elements.size();
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint64_t both[2];
    w.value128(in.operands[1], lane, both);
    for (size_t k = 0; k < to.elements.size(); ++k) {
      uint64_t v = 0;
      std::memcpy(&v, reinterpret_cast<uint8_t const*>(both) + k * each, each);
      w.set(to.elements[k], lane, v);
    }
  }
  return Step::kNext;
}

Step run_clock(Warp& w, Instruction const& in) {
  uint64_t now = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    w.set(in.operands[0], __builtin_ctz(rest), in.variant ? now >> 32 : now);
  }
  return Step::kNext;
}

Step run_explicit_cluster(Warp& w, Instruction const& in) {
  w.set_predicate(in.operands[0], w.cluster().size() > 1 ? kAllLanes : 0);
  return Step::kNext;
}

constexpr uint64_t window_base(uint64_t window) { return window << kWindowShift; }

template <uint64_t kWindow>
struct ToGeneric {
  static uint64_t apply(uint64_t a) { return a | window_base(kWindow); }
};
struct FromGeneric {
  static uint64_t apply(uint64_t a) { return a & (window_base(1) - 1); }
};
struct FromGeneric32 {
  static uint32_t apply(uint32_t a) { return a; }
};

// An address of the own CTA is one of the cluster's window as well. shared::cta holds only the own CTA's addresses.
Step run_isspacep(Warp& w, Instruction const& in) {
  uint32_t mask = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    uint64_t a = w.value(in.operands[1], lane);
    bool is = (a >> kWindowShift) == static_cast<uint64_t>(in.aux);
    if (in.aux == 0) is = is && a != 0;
    if (is && in.variant == 1) is = (a >> kSharedRankShift & 0xFF) == w.cta().rank();
    mask |= static_cast<uint32_t>(is) << lane;
  }
  w.set_predicate(in.operands[0], mask);
  return Step::kNext;
}

template <class T>
Step run_mapa(Warp& w, Instruction const& in) {
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint64_t address = w.value(in.operands[1], lane);
    if (in.operands[1].kind == Operand::Kind::kAddress) address = w.address(in.operands[1], lane);
    uint32_t rank = static_cast<uint32_t>(w.value(in.operands[2], lane));
    // A rank that the cluster does not have gives an address that it does not have: CUTLASS maps for every lane, and uses
    // the address in those that a guard lets through.
    rank = std::min<uint32_t>(rank, 0xFF);
    uint64_t mapped = (address & ~(uint64_t{0xFF} << kSharedRankShift)) | uint64_t{rank} << kSharedRankShift;
    w.set(in.operands[0], lane, mapped);
  }
  return Step::kNext;
}

struct RankOf {
  static uint32_t apply(uint64_t a) { return static_cast<uint32_t>(a >> kSharedRankShift & 0xFF); }
};

}  // namespace

Handler decode_mov(Decoder& d) {
  Type type;
  if (!d.take_type(&type) || !d.operands(2, 2)) return d.fail("no type");
  d.instruction().category = Class::kMove;
  d.propagate();
  if (d.operand(1).kind == Operand::Kind::kName) {
    if (d.operand(1).text == "%is_explicit_cluster") return run_explicit_cluster;
    if (d.operand(1).text.empty() || d.operand(1).text[0] != '%') return d.fail("no such name");
    d.instruction().variant = d.operand(1).text == "%clock_hi";
    return run_clock;
  }
  if (type.letter == 'p') return run_move_predicate;
  d.instruction().variant = type.bytes;
  if (d.operand(1).kind == Operand::Kind::kVector) {
    return d.operand(1).elements.size() == 2 || d.operand(1).elements.size() == 4 ? run_pack : d.fail("this vector");
  }
  if (d.operand(0).kind == Operand::Kind::kVector) {
    return d.operand(0).elements.size() == 2 || d.operand(0).elements.size() == 4 ? run_unpack : d.fail("this vector");
  }
  if (d.operand(1).kind == Operand::Kind::kLabel) return d.fail("the address of a label");
  switch (type.bytes) {
    case 2:
      return elementwise<Copy<uint16_t>, uint16_t, uint16_t>(d, Class::kMove);
    case 4:
      return elementwise<Copy<uint32_t>, uint32_t, uint32_t>(d, Class::kMove);
    case 8:
      return elementwise<Copy<uint64_t>, uint64_t, uint64_t>(d, Class::kMove);
    case 16:
      return run_move_wide;
    default:
      return d.fail("this size");
  }
}

Handler decode_cvta(Decoder& d) {
  bool to = d.take("to");
  int space =
      d.take_one_of({"global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry"});
  Type type;
  if (space < 0 || !d.take_type(&type)) return d.fail("no space");
  if (type.bytes == 4) return d.fail("32-bit generic addresses");
  if (to) return elementwise<FromGeneric, uint64_t, uint64_t>(d, Class::kMove);
  if (space < 2) return elementwise<Copy<uint64_t>, uint64_t, uint64_t>(d, Class::kMove);
  if (space < 5) return elementwise<ToGeneric<kSharedWindow>, uint64_t, uint64_t>(d, Class::kMove);
  return space == 5 ? elementwise<ToGeneric<kLocalWindow>, uint64_t, uint64_t>(d, Class::kMove)
                    : elementwise<ToGeneric<kParamWindow>, uint64_t, uint64_t>(d, Class::kMove);
}

Handler decode_isspacep(Decoder& d) {
  int space =
      d.take_one_of({"global", "const", "shared::cta", "shared", "shared::cluster", "local", "param", "param::entry"});
  if (space < 0 || !d.operands(2, 2)) return d.fail("no space");
  static constexpr uint64_t kWindows[] = {
      0, 0, kSharedWindow, kSharedWindow, kSharedWindow, kLocalWindow, kParamWindow, kParamWindow};
  d.instruction().aux = static_cast<int64_t>(kWindows[space]);
  d.instruction().variant = space == 2 || space == 3;
  d.instruction().category = Class::kMove;
  d.propagate();
  return run_isspacep;
}

Handler decode_mapa(Decoder& d) {
  d.take("shared::cluster");
  Type type;
  if (!d.take_type(&type) || !d.operands(3, 3)) return d.fail("no type");
  d.instruction().category = Class::kMove;
  d.propagate();
  return type.bytes == 4 ? run_mapa<uint32_t> : run_mapa<uint64_t>;
}

Handler decode_getctarank(Decoder& d) {
  d.take("shared::cluster");
  Type type;
  if (!d.take_type(&type)) return d.fail("no type");
  return elementwise<RankOf, uint32_t, uint64_t>(d, Class::kMove);
}

}  // namespace ptxsim
