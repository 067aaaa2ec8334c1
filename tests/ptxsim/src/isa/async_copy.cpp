// cp.async: copies of 4 to 16 bytes by a thread that it waits for by groups. The bytes land when it waits (as late as
// the program allows), so that using them without waiting shows.
#include <deque>

#include "isa/bulk.h"
#include "isa/memory_modifiers.h"
#include "isa/tensor.h"
#include "machine.h"

namespace ptxsim {
namespace {

struct Copy {
  uint32_t offset = 0, bytes = 0;
  uint8_t data[16] = {};
  bool undefined = false;
};
struct LaneCopies {
  std::vector<Copy> current;
  std::deque<std::vector<Copy>> groups;
};
struct Copies {
  LaneCopies lanes[kWarpSize];
};

Copies& copies(Warp& w) {
  if (w.async_copies == nullptr) w.async_copies = std::make_shared<Copies>();
  return *static_cast<Copies*>(w.async_copies.get());
}

struct Form {
  uint32_t bytes = 0;
  int source_bytes = -1;  // operand
  bool no_increment = false;
  Space space = Space::kShared;
};

void land(Warp& w, Instruction const& in, int lane, std::vector<Copy>& group) {
  SharedMemory& shared = w.cta().shared;
  for (Copy const& c : group) {
    shared.mark(c.offset, c.bytes, 0, SharedMemory::kPending);
    shared.generic_write(w, in, lane, c.offset, c.bytes, c.undefined);
    std::memcpy(shared.bytes() + c.offset, c.data, c.bytes);
  }
  group.clear();
}

Step run_copy(Warp& w, Instruction const& in) {
  Form const& form = in.decoded<Form>();
  w.require_defined(in, in.operands[0].elements[0], "an address");
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    Copy c;
    c.bytes = form.bytes;
    Cta* target = w.shared_target(in, lane, Space::kShared, w.address(in.operands[0], lane), &c.offset);
    if (target == nullptr) continue;
    if (!target->shared.in_bounds(c.offset, c.bytes) || c.offset % c.bytes != 0) {
      w.finding(in, lane, c.offset % c.bytes ? "shared-misaligned" : "shared-out-of-bounds",
                "cp.async of " + std::to_string(c.bytes) + " bytes to shared memory at " + std::to_string(c.offset));
      continue;
    }
    uint32_t from = form.bytes;
    if (form.source_bytes >= 0) {
      Operand const& op = in.operands[form.source_bytes];
      // A predicate says to read nothing.
      from = op.kind == Operand::Kind::kPredicate ? (w.predicate(op) >> lane & 1 ? 0 : form.bytes)
                                                  : static_cast<uint32_t>(w.value(op, lane));
      if (w.poison(op) >> lane & 1) w.require_defined(in, op, "the size of a copy");
    }
    if (from > form.bytes) {
      w.finding(in, lane, "copy-size",
                "a source of " + std::to_string(from) + " bytes for a copy of " + std::to_string(form.bytes));
      from = form.bytes;
    }
    uint64_t address = w.address(in.operands[1], lane);
    if (from != 0) {
      w.require_defined(in, in.operands[1].elements[0], "an address");
      if (address % form.bytes != 0) {
        w.finding(in, lane, "global-misaligned",
                  "the source of cp.async must be aligned to " + std::to_string(form.bytes));
      }
      w.read(in, lane, form.space, address, from, c.data, &c.undefined, 1);
    }
    if (target->shared.pending(c.offset, c.bytes)) {
      w.finding(in, lane, "pending-write", "cp.async to shared memory that another copy is still writing");
    }
    target->shared.mark(c.offset, c.bytes, SharedMemory::kPending, 0);
    w.cluster().tally.add(Traffic::kAsyncCopy, from);
    copies(w).lanes[lane].current.push_back(c);
  }
  ++w.cluster().progress;
  return Step::kNext;
}

Step run_commit(Warp& w, Instruction const&) {
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    LaneCopies& mine = copies(w).lanes[__builtin_ctz(rest)];
    mine.groups.push_back(std::move(mine.current));
    mine.current.clear();
  }
  return Step::kNext;
}

Step run_wait(Warp& w, Instruction const& in) {
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    LaneCopies& mine = copies(w).lanes[lane];
    while (mine.groups.size() > static_cast<size_t>(in.aux)) {
      land(w, in, lane, mine.groups.front());
      mine.groups.pop_front();
    }
    if (in.variant) land(w, in, lane, mine.current);  // wait_all
  }
  ++w.cluster().progress;
  return Step::kNext;
}

// cp.async.mbarrier.arrive: an arrival once the thread's copies have landed.
Step run_arrive(Warp& w, Instruction const& in) {
  Form const& form = in.decoded<Form>();
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint32_t offset;
    Cta* cta = w.shared_target(in, lane, form.space, w.address(in.operands[0], lane), &offset);
    if (cta == nullptr) continue;
    Mbarrier* m = mbarrier_find(w, in, lane, *cta, offset);
    if (m == nullptr) continue;
    if (!form.no_increment) ++m->pending;
    Warp* warp = &w;
    Instruction const* instruction = &in;
    // What is committed later must not land with this arrival.
    auto groups = std::make_shared<std::vector<std::vector<Copy>>>();
    LaneCopies& mine = copies(w).lanes[lane];
    for (auto& group : mine.groups) groups->push_back(std::move(group));
    for (auto& group : mine.groups) group.clear();
    groups->push_back(std::move(mine.current));
    mine.current.clear();
    w.cluster().defer(0, [=] {
      for (auto& group : *groups) land(*warp, *instruction, lane, group);
      mbarrier_arrive(*warp, *instruction, lane, *cta, offset, 1);
    });
  }
  return Step::kNext;
}

Handler decode_async(Decoder& d) {
  auto form = std::make_shared<Form>();
  d.instruction().category = Class::kAsyncCopy;
  if (d.take("commit_group")) return d.operands(0, 0) ? run_commit : nullptr;
  if (d.take("wait_all")) {
    d.instruction().variant = 1;
    return d.operands(0, 0) ? run_wait : nullptr;
  }
  if (d.take("wait_group")) {
    int64_t n;
    if (!d.operands(1, 1) || !d.immediate(0, &n)) return d.fail("no number of groups");
    d.instruction().aux = n;
    return run_wait;
  }
  if (d.take("mbarrier")) {
    if (!d.take("arrive")) return d.fail("this form");
    form->no_increment = d.take("noinc");
    form->space = take_space(d);
    Type type;
    if (!d.take_type(&type) || !d.operands(1, 1)) return d.fail("this form");
    d.instruction().data = form;
    return run_arrive;
  }
  bool global_level = d.take("cg");
  if (!global_level && !d.take("ca")) return d.fail("neither .ca nor .cg");
  if (!d.take("shared") && !d.take("shared::cta")) return d.fail("no destination");
  if (!d.take("global")) return d.fail("no source");
  bool hint = d.has("L2::cache_hint");
  take_cache_modifiers(d);
  bool ignore = d.take("ignore-src");
  (void)ignore;
  int64_t bytes;
  if (!d.operands(3, 5) || !d.immediate(2, &bytes)) return d.fail("no size");
  if (bytes != 16 && (global_level || (bytes != 4 && bytes != 8))) return d.fail("this size");
  form->bytes = static_cast<uint32_t>(bytes);
  form->space = Space::kGlobal;
  if (d.operand_count() - (hint ? 1 : 0) == 4) form->source_bytes = 3;
  d.instruction().data = form;
  return run_copy;
}

}  // namespace

Handler decode_cp(Decoder& d) {
  if (is_tensor_copy(d)) return decode_tensor_copy(d);
  if (d.has("bulk")) return decode_bulk(d);
  return d.take("async") ? decode_async(d) : d.fail("this form");
}

}  // namespace ptxsim
