// mbarrier.*: the instructions; what they do to the objects is in sync/mbarrier.cpp.
#include "isa/memory_modifiers.h"
#include "machine.h"

namespace ptxsim {
namespace {

struct Form {
  Space space = Space::kGeneric;
  bool has_state = false;  // operand 0 receives the state
  bool expect = false;     // .expect_tx
  bool drop = false;
  bool parity = false;
  bool may_wait = false;  // try_wait
  bool relaxed = false;
  int64_t count = 1;
  int count_operand = -1, bytes_operand = -1;
};

// Calls f(lane, cta, offset) for each lane's mbarrier.
template <class F>
void each(Warp& w, Instruction const& in, Form const& form, Operand const& where, F f) {
  w.require_defined(in, where, "an mbarrier's address");
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint32_t offset;
    Cta* cta = w.shared_target(in, lane, form.space, w.address(where, lane), &offset);
    if (cta != nullptr) f(lane, *cta, offset);
  }
}

Step run_init(Warp& w, Instruction const& in) {
  Form const& form = in.decoded<Form>();
  each(w, in, form, in.operands[0], [&](int lane, Cta& cta, uint32_t offset) {
    mbarrier_init(w, in, lane, cta, offset, static_cast<uint32_t>(w.value(in.operands[1], lane)));
  });
  return Step::kNext;
}

Step run_invalidate(Warp& w, Instruction const& in) {
  each(w, in, in.decoded<Form>(), in.operands[0],
       [&](int lane, Cta& cta, uint32_t offset) { mbarrier_invalidate(w, in, lane, cta, offset); });
  return Step::kNext;
}

Step run_arrive(Warp& w, Instruction const& in) {
  Form const& form = in.decoded<Form>();
  Operand const& where = in.operands[form.has_state ? 1 : 0];
  each(w, in, form, where, [&](int lane, Cta& cta, uint32_t offset) {
    if (form.expect) {
      mbarrier_expect_tx(w, in, lane, cta, offset,
                         static_cast<uint32_t>(w.value(in.operands[form.bytes_operand], lane)));
    }
    int64_t count = form.count_operand >= 0
                        ? static_cast<int64_t>(static_cast<uint32_t>(w.value(in.operands[form.count_operand], lane)))
                        : 1;
    auto found = cta.mbarriers.find(offset);
    uint64_t phase = found == cta.mbarriers.end() ? 0 : found->second.phase;
    if (form.drop && found != cta.mbarriers.end()) found->second.expected -= count;
    mbarrier_arrive(w, in, lane, cta, offset, count);
    if (form.has_state) w.set(in.operands[0], lane, phase);
  });
  return Step::kNext;
}

Step run_expect(Warp& w, Instruction const& in) {
  each(w, in, in.decoded<Form>(), in.operands[0], [&](int lane, Cta& cta, uint32_t offset) {
    mbarrier_expect_tx(w, in, lane, cta, offset, static_cast<uint32_t>(w.value(in.operands[1], lane)));
  });
  return Step::kNext;
}

Step run_complete(Warp& w, Instruction const& in) {
  each(w, in, in.decoded<Form>(), in.operands[0], [&](int lane, Cta& cta, uint32_t offset) {
    mbarrier_complete_tx(site(w, in, lane), cta, offset, w.stamp(Agent::kWarp, lane),
                         static_cast<uint32_t>(w.value(in.operands[1], lane)));
  });
  return Step::kNext;
}

// try_wait suspends a thread for a time of the system's choice: here until the phase ends, unless other lanes go on.
Step run_wait(Warp& w, Instruction const& in) {
  Form const& form = in.decoded<Form>();
  uint32_t done = 0;
  w.require_defined(in, in.operands[2], "a phase");
  // The lanes of a warp commonly ask the same: they get the first one's answer.
  uint64_t first_address = 0, first_which = 0;
  bool first = true, first_is = false, alike = true;
  Mbarrier const* hung = nullptr;
  w.require_defined(in, in.operands[1], "an mbarrier's address");
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint64_t address = w.address(in.operands[1], lane), which = w.value(in.operands[2], lane);
    if (!first && address == first_address && which == first_which) {
      if (first_is && hung != nullptr && hung->waited) w.waited |= 1u << lane;
      done |= static_cast<uint32_t>(first_is) << lane;
      continue;
    }
    alike = first;
    uint32_t offset;
    Cta* cta = w.shared_target(in, lane, form.space, address, &offset);
    bool is = false;
    if (cta != nullptr) {
      auto found = cta->mbarriers.find(offset);
      Mbarrier const* m = found == cta->mbarriers.end() ? nullptr : &found->second;
      if (form.parity) {
        is = mbarrier_test_parity(w, in, lane, *cta, offset, static_cast<uint32_t>(which & 1));
      } else {
        uint64_t phase = m == nullptr ? 0 : m->phase;
        is = phase > which && mbarrier_test_parity(w, in, lane, *cta, offset, static_cast<uint32_t>(phase - 1) & 1);
      }
      if (first) hung = m;
    }
    if (first) first_address = address, first_which = which, first_is = is;
    first = false;
    done |= static_cast<uint32_t>(is) << lane;
  }
  if (done == 0 && form.may_wait) {
    each(w, in, form, in.operands[1], [&](int lane, Cta& cta, uint32_t offset) {
      uint64_t phase = cta.mbarriers[offset].phase;
      auto [since, is_new] = w.waits_since.try_emplace(offset, phase);
      if (!is_new && phase >= since->second + 2) {
        w.finding(in, lane, "mbarrier-lapped",
                  "the phase that this thread waits for has ended, and so has the next one: it "
                  "cannot tell, and waits for a later phase");
        since->second = phase;
      }
    });
    if (alike && hung != nullptr && w.groups.size() == 1) w.hangs_at = hung, w.hangs_in_phase = hung->phase;
    return Step::kWait;
  }
  w.waits_since.clear();
  if (done != 0) w.cluster().tally.add(Wait::kMbarrier);
  if (done != w.active()) w.polling = true;
  w.set_predicate(in.operands[0], done);
  return Step::kNext;
}

}  // namespace

Handler decode_mbarrier(Decoder& d) {
  auto form = std::make_shared<Form>();
  int what = d.take_one_of(
      {"init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "pending_count"});
  if (what < 0) return d.fail("this form");
  Ordering order = take_ordering(d);
  form->relaxed = order == Ordering::kRelaxed;
  form->space = take_space(d);
  form->drop = what == 3;
  form->expect = (what == 2 || what == 3) && d.take("expect_tx");
  form->parity = d.take("parity");
  form->may_wait = what == 7;
  if (d.take("noComplete")) return d.fail(".noComplete");
  Type type;
  if (!d.take_type(&type) || type.bytes != 8) return d.fail("not .b64");
  d.instruction().category = Class::kMbarrier;
  auto accept = [&](Handler handler, int least, int most) -> Handler {
    if (!d.operands(least, most)) return nullptr;
    d.instruction().data = form;
    return handler;
  };
  switch (what) {
    case 0:
      return accept(run_init, 2, 2);
    case 1:
      return accept(run_invalidate, 1, 1);
    case 2:
    case 3: {
      form->has_state = d.operand(0).kind != Operand::Kind::kAddress;
      int next = form->has_state ? 2 : 1;
      if (form->expect) {
        form->bytes_operand = next;
        return accept(run_arrive, next + 1, next + 1);
      }
      if (d.operand_count() > next) form->count_operand = next;
      return accept(run_arrive, next, next + 1);
    }
    case 4:
      return accept(run_expect, 2, 2);
    case 5:
      return accept(run_complete, 2, 2);
    case 6:
      return accept(run_wait, 3, 3);
    case 7:
      return accept(run_wait, 3, 4);
    default:
      return d.fail("pending_count");
  }
}

}  // namespace ptxsim
