// ld, ldu, st, prefetch and cache hints.
#include <algorithm>

#include "isa/atomic.h"
#include "isa/memory_modifiers.h"
#include "machine.h"

namespace ptxsim {

// Modifiers that say how a value travels through caches change nothing here.
void take_cache_modifiers(Decoder& d) {
  static constexpr std::string_view kHints[] = {"L1::evict_normal",
                                                "L1::evict_unchanged",
                                                "L1::evict_first",
                                                "L1::evict_last",
                                                "L1::no_allocate",
                                                "L2::evict_normal",
                                                "L2::evict_first",
                                                "L2::evict_last",
                                                "L2::cache_hint",
                                                "L2::64B",
                                                "L2::128B",
                                                "L2::256B",
                                                "ca",
                                                "cg",
                                                "cs",
                                                "lu",
                                                "cv",
                                                "wb",
                                                "wt",
                                                "nc",
                                                "unified"};
  for (std::string_view hint : kHints) d.take(hint);
}

Ordering take_ordering(Decoder& d) {
  int order = d.take_one_of({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"});
  if (order == 2) d.take("mmio");
  d.take_one_of({"cta", "cluster", "gpu", "sys"});
  return order <= 0 ? Ordering::kWeak : static_cast<Ordering>(order);
}

Space take_space(Decoder& d) {
  switch (d.take_one_of({"global", "const", "local", "param", "param::entry", "param::func", "shared", "shared::cta",
                         "shared::cluster"})) {
    case 0:
      return Space::kGlobal;
    case 1:
      return Space::kConst;
    case 2:
      return Space::kLocal;
    case 3:
    case 4:
    case 5:
      return Space::kParam;
    case 6:
    case 7:
      return Space::kShared;
    case 8:
      return Space::kSharedCluster;
    default:
      return Space::kGeneric;
  }
}

Class memory_class(Space space) {
  switch (space) {
    case Space::kGlobal:
    case Space::kGeneric:
      return Class::kGlobalMemory;
    case Space::kShared:
    case Space::kSharedCluster:
      return Class::kSharedMemory;
    default:
      return Class::kOtherMemory;
  }
}

namespace {

struct Access {
  Space space = Space::kGeneric;
  Type type;
  uint32_t elements = 1;
};

uint64_t extended(uint64_t raw, Type type) {
  if (type.letter != 's') return raw;
  int unused = 64 - 8 * type.bytes;
  return static_cast<uint64_t>(static_cast<int64_t>(raw << unused) >> unused);
}

void put(Warp& w, Operand const& to, int lane, uint8_t const* from, Type type) {
  if (type.bytes == 16) {
    uint64_t both[2];
    std::memcpy(both, from, 16);
    w.set128(to, lane, both);
    return;
  }
  uint64_t raw = 0;
  std::memcpy(&raw, from, type.bytes);
  w.set(to, lane, extended(raw, type));
}

Step run_load(Warp& w, Instruction const& in) {
  Access const& access = in.decoded<Access>();
  Operand const& to = in.operands[0];
  Operand const& from = in.operands[1];
  w.require_defined(in, from.elements[0], "an address");
  uint32_t bytes = access.type.bytes * access.elements;
  uint32_t active = w.active();
  for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint64_t address = w.address(from, lane);
    alignas(16) uint8_t buffer[32];
    bool undefined;
    w.read(in, lane, access.space, address, bytes, buffer, &undefined);
    if (access.elements == 1) {
      put(w, to, lane, buffer, access.type);
      if (undefined && to.poison != 0) w.poison_masks[to.poison] |= 1u << lane;
      continue;
    }
    for (uint32_t e = 0; e < access.elements; ++e) {
      Operand const& part = to.elements[e];
      if (part.kind == Operand::Kind::kSink) continue;
      put(w, part, lane, buffer + e * access.type.bytes, access.type);
      if (!undefined) continue;
      // Which of the elements it is.
      uint8_t again[16];
      bool this_one;
      w.read(in, lane, access.space, address + e * access.type.bytes, access.type.bytes, again, &this_one);
      if (this_one && part.poison != 0) w.poison_masks[part.poison] |= 1u << lane;
    }
  }
  if (in.variant) w.polling = true;
  return Step::kNext;
}

Step run_store(Warp& w, Instruction const& in) {
  Access const& access = in.decoded<Access>();
  Operand const& to = in.operands[0];
  Operand const& from = in.operands[1];
  w.require_defined(in, to.elements[0], "an address");
  uint32_t bytes = access.type.bytes * access.elements;
  uint32_t poison = w.poison(from);
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint64_t address = w.address(to, lane);
    alignas(16) uint8_t buffer[32];
    for (uint32_t e = 0; e < access.elements; ++e) {
      Operand const& part = access.elements == 1 ? from : from.elements[e];
      if (access.type.bytes == 16) {
        uint64_t both[2];
        w.value128(part, lane, both);
        std::memcpy(buffer, both, 16);
      } else {
        uint64_t v = w.value(part, lane);
        std::memcpy(buffer + e * access.type.bytes, &v, access.type.bytes);
      }
    }
    if (!(poison >> lane & 1) || access.elements == 1) {
      w.write(in, lane, access.space, address, bytes, buffer, poison >> lane & 1);
      continue;
    }
    for (uint32_t e = 0; e < access.elements; ++e) {
      w.write(in, lane, access.space, address + e * access.type.bytes, access.type.bytes,
              buffer + e * access.type.bytes, w.poison(from.elements[e]) >> lane & 1);
    }
  }
  return Step::kNext;
}

Step run_nothing(Warp&, Instruction const&) { return Step::kNext; }

bool take_access(Decoder& d, Access* access) {
  access->space = take_space(d);
  int vector = d.take_one_of({"v2", "v4", "v8"});
  access->elements = vector < 0 ? 1u : 2u << vector;
  // Halves as plain bits: ld has no .f16, but .b16.
  return d.take_type(&access->type) && access->type.bytes * access->elements <= 32;
}

bool vector_matches(Operand const& op, uint32_t elements) {
  if (elements == 1) return op.kind != Operand::Kind::kVector;
  return op.kind == Operand::Kind::kVector && op.elements.size() == elements;
}

}  // namespace

Handler decode_ld(Decoder& d) {
  Access access;
  Ordering order = take_ordering(d);
  take_cache_modifiers(d);
  if (!take_access(d, &access)) return d.fail("no type");
  if (!d.operands(2, 3)) return nullptr;
  if (d.operand(1).kind != Operand::Kind::kAddress) return d.fail("no address");
  // {r}: a vector of one.
  if (!vector_matches(d.operand(0), access.elements)) return d.fail("the vector does not fit");
  d.instruction().data = std::make_shared<Access>(access);
  d.instruction().category = memory_class(access.space);
  d.instruction().variant = order == Ordering::kVolatile || order == Ordering::kRelaxed || order == Ordering::kAcquire;
  return run_load;
}

Handler decode_st(Decoder& d) {
  Access access;
  if (d.has("async")) return decode_st_async(d);
  take_ordering(d);
  take_cache_modifiers(d);
  if (!take_access(d, &access)) return d.fail("no type");
  if (!d.operands(2, 3)) return nullptr;
  if (d.operand(0).kind != Operand::Kind::kAddress) return d.fail("no address");
  if (!vector_matches(d.operand(1), access.elements)) return d.fail("the vector does not fit");
  d.constant_width(1, access.type.bytes < 2 ? 2 : access.type.bytes);
  d.instruction().data = std::make_shared<Access>(access);
  d.instruction().category = memory_class(access.space);
  return run_store;
}

Handler decode_prefetch(Decoder& d) {
  d.take_one_of({"global", "local", "const", "param"});
  d.take("tensormap");
  d.take_one_of({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
  d.instruction().category = Class::kOther;
  return d.operands(1, 1) ? run_nothing : nullptr;
}

namespace {

Step run_policy(Warp& w, Instruction const& in) {
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) w.set(in.operands[0], __builtin_ctz(rest), 0);
  return Step::kNext;
}

}  // namespace

// Its result means something only to cache hints.
Handler decode_createpolicy(Decoder& d) {
  while (!d.take_first().empty()) {
  }
  d.instruction().pure = true;
  return run_policy;
}

Handler decode_discard(Decoder& d) {
  d.take("global");
  if (!d.take("L2")) return d.fail("no level");
  return run_nothing;
}

}  // namespace ptxsim
