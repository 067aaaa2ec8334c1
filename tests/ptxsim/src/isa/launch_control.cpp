// clusterlaunchcontrol: a running cluster takes the work of one that has not started. The 16 bytes of the answer,
// which are opaque to programs: three 32-bit coordinates of the taken cluster's first CTA, then 1 for success.
#include "machine.h"

namespace ptxsim {
namespace {

Step run_try_cancel(Warp& w, Instruction const& in) {
  Cluster& cluster = w.cluster();
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint32_t offset, barrier;
    Cta* own = w.shared_target(in, lane, Space::kShared, w.address(in.operands[0], lane), &offset);
    Cta* own_barrier = w.shared_target(in, lane, Space::kShared, w.address(in.operands[1], lane), &barrier);
    if (own == nullptr || own_barrier == nullptr) continue;
    if (offset % 16 != 0) w.finding(in, lane, "shared-misaligned", "the answer of try_cancel needs 16-byte alignment");
    if (w.cancel_failed) {
      w.finding(in, lane, "cancel-after-failure", "clusterlaunchcontrol.try_cancel after its failure was observed");
    }
    Stamp stamp = w.stamp(Agent::kTensorCopy, lane);
    uint32_t answer[4] = {0, 0, 0, 0};
    Dim3 first;
    if (w.grid().take_cluster(&first)) {
      answer[0] = first.x, answer[1] = first.y, answer[2] = first.z, answer[3] = 1;
    }
    Site where = site(w, in, lane);
    for (Cta& cta : cluster.ctas) {
      if (!in.variant && &cta != own) continue;
      if (!cta.shared.async_write_begin(w, in, lane, offset, 16, stamp)) continue;
      Cta* to = &cta;
      uint64_t low, high;
      std::memcpy(&low, answer, 8);
      std::memcpy(&high, answer + 2, 8);
      cluster.defer(0, [=] {
        std::memcpy(to->shared.bytes() + offset, &low, 8);
        std::memcpy(to->shared.bytes() + offset + 8, &high, 8);
        to->shared.async_write_end(offset, 16, stamp);
        mbarrier_complete_tx(where, *to, barrier, stamp, 16);
      });
    }
  }
  return Step::kNext;
}

Step run_is_canceled(Warp& w, Instruction const& in) {
  w.require_defined(in, in.operands[1], "the answer of try_cancel");
  uint32_t mask = 0;
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint64_t both[2];
    w.value128(in.operands[1], lane, both);
    bool is = (both[1] >> 32) == 1;
    mask |= static_cast<uint32_t>(is) << lane;
    if (!is) w.cancel_failed = true;
  }
  w.set_predicate(in.operands[0], mask);
  return Step::kNext;
}

// in.variant: 3: all coordinates into a vector; else the one.
Step run_first_cta(Warp& w, Instruction const& in) {
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint64_t both[2];
    w.value128(in.operands[1], lane, both);
    uint32_t const at[3] = {static_cast<uint32_t>(both[0]), static_cast<uint32_t>(both[0] >> 32),
                            static_cast<uint32_t>(both[1])};
    if ((both[1] >> 32) != 1) {
      w.finding(in, lane, "cancel-not-successful", "get_first_ctaid of a try_cancel that did not succeed");
    }
    if (in.variant < 3) {
      w.set(in.operands[0], lane, at[in.variant]);
      continue;
    }
    auto const& parts = in.operands[0].elements;
    for (size_t i = 0; i < parts.size() && i < 3; ++i) w.set(parts[i], lane, at[i]);
    if (parts.size() > 3 && parts[3].poison != 0) w.poison_masks[parts[3].poison] |= 1u << lane;
  }
  return Step::kNext;
}

}  // namespace

Handler decode_launch_control(Decoder& d) {
  d.instruction().category = Class::kOther;
  if (d.take("try_cancel")) {
    if (!d.take("async")) return d.fail("not .async");
    d.take_one_of({"shared::cta"});
    d.take("mbarrier::complete_tx::bytes");
    d.instruction().variant = d.take("multicast::cluster::all");
    Type type;
    return d.take_type(&type) && d.operands(2, 2) ? run_try_cancel : d.fail("this form");
  }
  if (!d.take("query_cancel")) return d.fail("this form");
  Type type;
  if (d.take("is_canceled")) {
    d.take("pred");
    return d.take_type(&type) && d.operands(2, 2) ? run_is_canceled : d.fail("this form");
  }
  int part = d.take_one_of({"get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z", "get_first_ctaid"});
  if (part < 0) return d.fail("this form");
  d.take("v4");
  d.take("b32");
  d.instruction().variant = static_cast<uint32_t>(part);
  return d.take("b128") && d.operands(2, 2) ? run_first_cta : d.fail("this form");
}

}  // namespace ptxsim
