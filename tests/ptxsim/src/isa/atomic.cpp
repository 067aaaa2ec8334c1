// atom and red.
#include <cmath>
#include <mutex>

#include "isa/atomic.h"

#include "isa/memory_modifiers.h"
#include "machine.h"
#include "units/convert.h"

namespace ptxsim {
namespace {

using Operation = AtomicOperation;

struct Atomic {
  Operation op;
  Space space;
  Type type;
  int elements = 1;
  bool returns = true;
};

uint16_t add_half(uint16_t a, uint16_t b, char letter) {
  FloatFormat const& f = letter == 'h' ? kFp16 : kBf16;
  return static_cast<uint16_t>(encode(f, decode(f, a) + decode(f, b), RoundMode::kNearestEven, false, false));
}

uint64_t add_float(uint64_t a, uint64_t b, Type type) {
  if (type.letter == 'h' || type.letter == 'y') {
    uint64_t low = add_half(static_cast<uint16_t>(a), static_cast<uint16_t>(b), type.letter);
    if (type.bytes == 2) return low;
    return low | uint64_t{add_half(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16), type.letter)} << 16;
  }
  if (type.bytes == 4) {
    return float_bits(bits_float(static_cast<uint32_t>(a)) + bits_float(static_cast<uint32_t>(b)));
  }
  double x, y;
  std::memcpy(&x, &a, 8);
  std::memcpy(&y, &b, 8);
  x += y;
  std::memcpy(&a, &x, 8);
  return a;
}

uint64_t result(Atomic const& at, uint64_t old, uint64_t b, uint64_t c) {
  return atomic_result(at.op, at.type, old, b, c);
}

// One lane. Shared memory: atomics of different threads are ordered, so that the checks of order do not apply.
void one(Warp& w, Instruction const& in, Atomic const& at, int lane, int element) {
  int first = at.returns ? 1 : 0;
  Operand const& where = in.operands[first];
  auto part = [&](int i) -> Operand const& {
    return at.elements > 1 ? in.operands[i].elements[static_cast<size_t>(element)] : in.operands[i];
  };
  uint64_t mask = at.type.bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * at.type.bytes)) - 1;
  uint64_t address = w.address(where, lane) + static_cast<uint64_t>(element) * at.type.bytes;
  uint64_t b = w.value(part(first + 1), lane) & mask;
  uint64_t c = at.op == Operation::kCompare ? w.value(part(first + 2), lane) & mask : 0;
  uint32_t poison = w.poison(part(first + 1)) | (at.op == Operation::kCompare ? w.poison(part(first + 2)) : 0);
  uint64_t old = 0;
  bool undefined = false;
  bool is_shared = at.space == Space::kShared || at.space == Space::kSharedCluster ||
                   (at.space == Space::kGeneric && address >> kWindowShift == kSharedWindow);
  if (is_shared) {
    uint32_t offset;
    Cta* target = w.shared_target(in, lane, at.space, address, &offset);
    if (target == nullptr) return;
    if (!target->shared.in_bounds(offset, at.type.bytes) || offset % at.type.bytes != 0) {
      w.finding(in, lane, offset % at.type.bytes ? "shared-misaligned" : "shared-out-of-bounds",
                "atomic on shared memory at " + std::to_string(offset));
      return;
    }
    if (target->shared.pending(offset, at.type.bytes)) {
      w.finding(in, lane, "pending-write", "atomic on shared memory that an asynchronous copy is still writing");
    }
    std::memcpy(&old, target->shared.bytes() + offset, at.type.bytes);
    for (uint32_t i = 0; i < at.type.bytes; ++i)
      undefined |= !(target->shared.state(offset + i) & SharedMemory::kWritten);
    uint64_t next = result(at, old, b, c);
    std::memcpy(target->shared.bytes() + offset, &next, at.type.bytes);
    if (at.op == Operation::kExchange) target->shared.mark(offset, at.type.bytes, SharedMemory::kWritten, 0);
  } else {
    if (!w.read(in, lane, at.space, address, at.type.bytes, &old, &undefined)) return;
    uint64_t next = result(at, old, b, c);
    bool bad = (poison >> lane & 1) || (undefined && at.op != Operation::kExchange);
    if (at.op != Operation::kCompare || old == b) w.write(in, lane, at.space, address, at.type.bytes, &next, bad);
  }
  ++w.cluster().progress;
  if (!at.returns) return;
  Operand const& to = part(0);
  w.set(to, lane, old);
  if ((undefined || poison >> lane & 1) && to.poison != 0) w.poison_masks[to.poison] |= 1u << lane;
}

Step run_atomic(Warp& w, Instruction const& in) {
  Atomic const& at = in.decoded<Atomic>();
  w.require_defined(in, in.operands[at.returns ? 1 : 0].elements[0], "an address");
  std::lock_guard<std::mutex> lock(w.grid().global_lock());
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    for (int e = 0; e < at.elements; ++e) one(w, in, at, __builtin_ctz(rest), e);
  }
  if (at.returns) w.polling = true;
  return Step::kNext;
}

}  // namespace

uint64_t atomic_result(AtomicOperation op, Type type, uint64_t old, uint64_t b, uint64_t c) {
  int unused = 64 - 8 * type.bytes;
  bool is_signed = type.letter == 's';
  auto less = [&](uint64_t x, uint64_t y) {
    return is_signed ? static_cast<int64_t>(x << unused) < static_cast<int64_t>(y << unused) : x < y;
  };
  switch (op) {
    case Operation::kAdd:
      return type.letter == 'u' || is_signed || type.letter == 'b' ? old + b : add_float(old, b, type);
    case Operation::kMin:
      return less(b, old) ? b : old;
    case Operation::kMax:
      return less(old, b) ? b : old;
    case Operation::kAnd:
      return old & b;
    case Operation::kOr:
      return old | b;
    case Operation::kXor:
      return old ^ b;
    case Operation::kExchange:
      return b;
    case Operation::kCompare:
      return old == b ? c : old;
    case Operation::kIncrement:
      return old >= b ? 0 : old + 1;
    case Operation::kDecrement:
      return old == 0 || old > b ? b : old - 1;
    case Operation::kNone:
      break;
  }
  return old;
}

AtomicOperation take_atomic_operation(Decoder& d) {
  int const op = d.take_one_of({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  return op < 0 ? Operation::kNone : static_cast<Operation>(op);
}

bool exists(AtomicOperation op, Type type) {
  bool const is_float = type.letter == 'f' || type.letter == 'h' || type.letter == 'y';
  return op != Operation::kNone && type.bytes <= 8 && (!is_float || op == Operation::kAdd);
}

Handler decode_atom(Decoder& d) {
  auto at = std::make_shared<Atomic>();
  at->returns = d.statement().opcode == "atom";
  if (d.has("async")) return at->returns ? d.fail("atom.async") : decode_red_async(d);
  take_ordering(d);
  take_cache_modifiers(d);
  at->space = take_space(d);
  at->op = take_atomic_operation(d);
  if (at->op == Operation::kNone) return d.fail("no operation");
  int vector = d.take_one_of({"v2", "v4", "v8"});
  at->elements = vector < 0 ? 1 : 2 << vector;
  d.take("noftz");
  d.take("noftz");
  if (!d.take_type(&at->type) || at->type.bytes > 8) return d.fail("no type of up to 64 bits");
  if (!exists(at->op, at->type)) return d.fail("this operation on floats");
  int operands = (at->returns ? 1 : 0) + (at->op == Operation::kCompare ? 3 : 2);
  if (!d.operands(operands, operands + 1)) return nullptr;
  d.instruction().data = at;
  d.instruction().category = Class::kAtomic;
  return run_atomic;
}

}  // namespace ptxsim
