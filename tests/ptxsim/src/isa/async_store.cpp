// st.async and red.async: stores and reductions in shared memory of the cluster that an mbarrier learns of.
//
// What a reduction changes is not pending for others meanwhile: several may change a word at once.
#include <array>
#include <utility>
#include <vector>

#include "isa/atomic.h"
#include "isa/memory_modifiers.h"
#include "machine.h"

namespace ptxsim {
namespace {

struct AsyncStore {
  AtomicOperation op = AtomicOperation::kNone;  // kNone: a store
  Type type;
  int elements = 1;
};

// A lane's store, once it is known to be right.
struct Pending {
  Cta* target;
  uint32_t offset, barrier, bytes;
  std::array<uint64_t, 4> values;
  Stamp stamp;
  Site site;
};

void one(Warp& w, Instruction const& in, AsyncStore const& what, int lane, std::vector<Pending>* pending) {
  uint32_t offset, barrier;
  uint32_t const bytes = static_cast<uint32_t>(what.type.bytes * what.elements);
  Cta* const target = w.shared_target(in, lane, Space::kSharedCluster, w.address(in.operand(0), lane), &offset);
  Cta* const signalled = w.shared_target(in, lane, Space::kSharedCluster, w.address(in.operand(2), lane), &barrier);
  if (target == nullptr || signalled == nullptr) return;
  if (target != signalled) {
    w.finding(in, lane, "async-store-barrier", "the mbarrier lies in another CTA's shared memory than the destination");
    return;
  }
  if (!target->shared.in_bounds(offset, bytes) || offset % bytes != 0) {
    w.finding(in, lane, offset % bytes != 0 ? "shared-misaligned" : "shared-out-of-bounds",
              "asynchronous store of " + std::to_string(bytes) + " bytes at " + std::to_string(offset));
    return;
  }
  std::array<uint64_t, 4> values{};
  for (int e = 0; e < what.elements; ++e) {
    Operand const& from = what.elements > 1 ? in.operand(1).elements[static_cast<size_t>(e)] : in.operand(1);
    values[static_cast<size_t>(e)] = w.value(from, lane);
    if ((w.poison(from) >> lane & 1) != 0)
      w.finding(in, lane, "uninitialised", "an asynchronous store of a value that was never written");
  }
  Stamp const stamp = w.stamp(Agent::kTensorCopy, lane);
  bool const stores = what.op == AtomicOperation::kNone;
  if (stores && !target->shared.async_write_begin(w, in, lane, offset, bytes, stamp)) return;
  for (uint32_t i = 0; !stores && i < bytes; ++i)
    if ((target->shared.state(offset + i) & SharedMemory::kWritten) == 0) {
      w.finding(in, lane, "uninitialised", "an asynchronous reduction of a word that was never written");
      break;
    }
  pending->push_back({target, offset, barrier, bytes, values, stamp, site(w, in, lane)});
}

void complete(AsyncStore const& what, Pending const& p) {
  for (int e = 0; e < what.elements; ++e) {
    uint8_t* const at = p.target->shared.bytes() + p.offset + e * what.type.bytes;
    uint64_t value = 0;
    std::memcpy(&value, at, what.type.bytes);
    value = what.op == AtomicOperation::kNone
                ? p.values[static_cast<size_t>(e)]
                : atomic_result(what.op, what.type, value, p.values[static_cast<size_t>(e)]);
    std::memcpy(at, &value, what.type.bytes);
  }
  p.target->shared.async_write_end(p.offset, p.bytes, p.stamp);
  mbarrier_complete_tx(p.site, *p.target, p.barrier, p.stamp, p.bytes);
}

Step run_async_store(Warp& w, Instruction const& in) {
  w.require_defined(in, in.operand(0), "an address");
  w.require_defined(in, in.operand(2), "an mbarrier's address");
  // The lanes' stores complete together: one operation, so that many of them cost little.
  if (!w.grid().config().clustered) {
    w.finding(in, w.leader(), "async-store-without-cluster",
              "an asynchronous store to the cluster's shared memory in a launch without clusters: illegal on an H200; "
              "launch with a cluster dimension, if only of one CTA");
  }
  std::vector<Pending> pending;
  AsyncStore const& what = in.decoded<AsyncStore>();
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) one(w, in, what, __builtin_ctz(rest), &pending);
  if (pending.empty()) return Step::kNext;
  w.cluster().defer(0, [&what, pending = std::move(pending)] {
    for (Pending const& p : pending) complete(what, p);
  });
  return Step::kNext;
}

Handler decode(Decoder& d, bool reduces) {
  auto what = std::make_shared<AsyncStore>();
  d.take("async");
  take_ordering(d);
  if (take_space(d) != Space::kSharedCluster || !d.take("mbarrier::complete_tx::bytes"))
    return d.fail("not .shared::cluster.mbarrier::complete_tx::bytes");
  if (reduces) what->op = take_atomic_operation(d);
  if (!reduces) what->elements = d.take("v2") ? 2 : d.take("v4") ? 4 : 1;
  if (!d.take_type(&what->type) || what->type.bytes < 4) return d.fail("no type of 32 or 64 bits");
  if (reduces && (what->type.letter == 'f' || !exists(what->op, what->type) || what->op == AtomicOperation::kExchange ||
                  what->op == AtomicOperation::kCompare))
    return d.fail("this reduction");
  if (!d.operands(3, 3)) return nullptr;
  if (what->elements > 1 && d.operand(1).elements.size() != static_cast<size_t>(what->elements))
    return d.fail("the vector does not fit");
  d.instruction().data = what;
  d.instruction().category = Class::kAsyncCopy;
  return run_async_store;
}

}  // namespace

Handler decode_st_async(Decoder& d) { return decode(d, false); }
Handler decode_red_async(Decoder& d) { return decode(d, true); }

}  // namespace ptxsim
