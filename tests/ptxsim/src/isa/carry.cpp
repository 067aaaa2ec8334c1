// Additions that write or read the carry: add.cc, addc, sub.cc, subc, mad.cc, madc. For subtractions it is the borrow.
#include "machine.h"

namespace ptxsim {
namespace {

enum class Product : uint8_t { kNone, kLow, kHigh };
struct Carry {
  bool subtracts = false, reads = false, writes = false;
  Product product = Product::kNone;
  Type type;
};

uint64_t multiply(Carry const& c, uint64_t a, uint64_t b) {
  if (c.type.bytes == 4) {
    uint64_t const whole = c.type.letter == 's'
                               ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(a)} * static_cast<int32_t>(b))
                               : uint64_t{static_cast<uint32_t>(a)} * static_cast<uint32_t>(b);
    return c.product == Product::kLow ? whole : whole >> 32;
  }
  if (c.product == Product::kLow) return a * b;
  unsigned __int128 const whole =
      c.type.letter == 's'
          ? static_cast<unsigned __int128>(static_cast<__int128>(static_cast<int64_t>(a)) * static_cast<int64_t>(b))
          : static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(whole >> 64);
}

Step run_carry(Warp& w, Instruction const& in) {
  Carry const& c = in.decoded<Carry>();
  uint64_t const mask = c.type.bytes == 4 ? 0xFFFFFFFF : ~uint64_t{0};
  uint32_t undefined = c.reads ? w.carry_poison : 0;
  for (int i = 1; i < in.operand_count; ++i) undefined |= w.poison(in.operand(i));
  uint32_t carries = 0;
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int const lane = __builtin_ctz(rest);
    uint64_t a = w.value(in.operand(1), lane), b = w.value(in.operand(2), lane);
    if (c.product != Product::kNone) a = multiply(c, a, b), b = w.value(in.operand(3), lane);
    a &= mask, b &= mask;
    unsigned const carry = c.reads ? w.carry >> lane & 1 : 0;
    unsigned __int128 const wide =
        c.subtracts ? static_cast<unsigned __int128>(a) - b - carry : static_cast<unsigned __int128>(a) + b + carry;
    carries |= static_cast<uint32_t>(wide >> (8 * c.type.bytes) & 1) << lane;
    w.set(in.operand(0), lane, static_cast<uint64_t>(wide) & mask);
  }
  w.set_poison(in.operand(0), undefined);
  if (!c.writes) return Step::kNext;
  w.carry = (w.carry & ~w.active()) | carries;
  w.carry_poison = (w.carry_poison & ~w.active()) | (undefined & w.active());
  return Step::kNext;
}

}  // namespace

Handler decode_carry(Decoder& d) {
  auto c = std::make_shared<Carry>();
  std::string_view const op = d.statement().opcode;
  c->subtracts = op == "sub" || op == "subc";
  c->reads = op == "addc" || op == "subc" || op == "madc";
  c->writes = d.take("cc");
  if (op == "mad" || op == "madc") {
    int const part = d.take_one_of({"lo", "hi"});
    if (part < 0) return d.fail("neither .lo nor .hi");
    c->product = part == 0 ? Product::kLow : Product::kHigh;
  } else if (op != "add" && op != "addc" && !c->subtracts) {
    return d.fail("no carry");
  }
  if (!d.take_type(&c->type) || (c->type.letter != 'u' && c->type.letter != 's') || c->type.bytes < 4)
    return d.fail("no integers of 32 or 64 bits");
  int const operands = c->product == Product::kNone ? 3 : 4;
  if (!d.operands(operands, operands)) return nullptr;
  for (int i = 1; i < operands; ++i) d.constant_width(i, c->type.bytes);
  d.instruction().data = c;
  d.instruction().pure = true;
  d.instruction().category = Class::kInteger;
  return run_carry;
}

}  // namespace ptxsim
