// Branches, ends of threads, and what steers the launch: setmaxnreg, griddepcontrol, nanosleep.
#include "engine/runner.h"
#include "machine.h"

namespace ptxsim {
namespace {

Step run_branch(Warp& w, Instruction const& in) {
  uint32_t target = static_cast<uint32_t>(in.aux);
  Group& g = w.group();
  if (w.active() == g.mask) {
    g.pc = target;
    return Step::kPlaced;
  }
  g.mask &= ~w.active();
  ++g.pc;
  Group taken;
  taken.pc = target;
  taken.mask = w.active();
  w.groups.push_back(taken);
  return Step::kPlaced;
}

Step run_indexed_branch(Warp& w, Instruction const& in) {
  auto const& targets = in.decoded<std::vector<uint32_t>>();
  w.require_defined(in, in.operands[0], "a branch's index");
  uint32_t left = w.active();
  Group& g = w.group();
  uint32_t others = g.mask & ~left;
  uint32_t next = g.pc + 1;
  std::vector<Group> made;
  while (left != 0) {
    uint64_t index = w.value(in.operands[0], __builtin_ctz(left));
    uint32_t same = 0;
    for (uint32_t rest = left; rest != 0; rest &= rest - 1) {
      int lane = __builtin_ctz(rest);
      if (w.value(in.operands[0], lane) == index) same |= 1u << lane;
    }
    left &= ~same;
    if (index >= targets.size()) {
      w.finding(in, __builtin_ctz(same), "branch-index",
                "index " + std::to_string(index) + " of " + std::to_string(targets.size()) + " targets");
      index = 0;
    }
    Group to;
    to.pc = targets[index];
    to.mask = same;
    made.push_back(to);
  }
  if (others != 0) {
    Group rest;
    rest.pc = next;
    rest.mask = others;
    made.push_back(rest);
  }
  w.groups[w.current] = made[0];
  w.groups.insert(w.groups.end(), made.begin() + 1, made.end());
  return Step::kPlaced;
}

Step run_exit(Warp& w, Instruction const&) {
  WarpRunner::exit_lanes(w);
  ++w.cluster().progress;
  return Step::kPlaced;
}

Step run_trap(Warp& w, Instruction const& in) {
  w.finding(in, w.leader(), "trap", "the kernel executed trap");
  w.grid().state().aborted = true;
  return Step::kNext;
}

Step run_nothing(Warp&, Instruction const&) { return Step::kNext; }

Step run_sleep(Warp& w, Instruction const&) {
  w.polling = true;
  return Step::kNext;
}

Step run_registers(Warp& w, Instruction const& in) {
  if (in.aux < 24 || in.aux > 256 || in.aux % 8 != 0) {
    w.finding(in, w.leader(), "setmaxnreg",
              "a register count of " + std::to_string(in.aux) + " is not a multiple of 8 from 24 to 256");
  }
  return Step::kNext;
}

Step run_launch_dependents(Warp& w, Instruction const&) {
  if (!w.cta().triggered) ++w.cluster().progress;
  w.cta().triggered = true;
  return Step::kNext;
}

Step run_grid_wait(Warp& w, Instruction const&) {
  Grid::State& grid = w.grid().state();
  if (grid.config.programmatic && grid.predecessor != nullptr && !grid.predecessor->complete) return Step::kWait;
  w.waited |= w.active();
  grid.any_wait = true;
  w.cluster().tally.add(Wait::kGrid);
  return Step::kNext;
}

}  // namespace

Handler decode_bra(Decoder& d) {
  d.take("uni");
  if (!d.operands(1, 1) || d.operand(0).kind != Operand::Kind::kLabel) return d.fail("no label");
  d.instruction().aux = d.operand(0).label;
  d.instruction().category = Class::kControl;
  return run_branch;
}

Handler decode_brx(Decoder& d) {
  if (!d.take("idx")) return d.fail("not .idx");
  d.take("uni");
  if (!d.operands(2, 2)) return nullptr;
  auto const& lists = d.kernel().function->branch_targets;
  auto found = lists.find(d.operand(1).text);
  if (found == lists.end()) return d.fail("no such list of targets");
  auto targets = std::make_shared<std::vector<uint32_t>>();
  for (Node const& node : d.kernel().function->body[static_cast<size_t>(found->second)].operands) {
    if (node.kind == Node::Kind::kLabel) targets->push_back(static_cast<uint32_t>(node.index));
  }
  d.instruction().data = targets;
  d.instruction().category = Class::kControl;
  return run_indexed_branch;
}

Handler decode_exit(Decoder& d) {
  d.take("uni");
  d.instruction().category = Class::kControl;
  return d.operands(0, 0) ? run_exit : nullptr;
}

Handler decode_trap(Decoder& d) {
  d.instruction().category = Class::kControl;
  return run_trap;
}

// Lists of branch targets stand among the statements; nothing runs into them.
Handler decode_nothing(Decoder& d) {
  while (!d.take_first().empty()) {
  }
  return run_nothing;
}

Handler decode_nanosleep(Decoder& d) {
  Type type;
  if (!d.take_type(&type)) return d.fail("no type");
  d.instruction().category = Class::kOther;
  return run_sleep;
}

Handler decode_setmaxnreg(Decoder& d) {
  if (d.take_one_of({"inc", "dec"}) < 0) return d.fail("neither .inc nor .dec");
  Type type;
  if (!d.take("sync") || !d.take("aligned") || !d.take_type(&type)) return d.fail("not .sync.aligned.u32");
  int64_t count;
  if (!d.operands(1, 1) || !d.immediate(0, &count)) return d.fail("no count");
  d.instruction().aux = count;
  d.instruction().aligned = true;
  d.instruction().category = Class::kOther;
  return run_registers;
}

Handler decode_griddepcontrol(Decoder& d) {
  d.instruction().category = Class::kControl;
  if (d.take("launch_dependents")) return run_launch_dependents;
  if (!d.take("wait")) return d.fail("neither .wait nor .launch_dependents");
  d.kernel().uses_grid_wait = true;
  return run_grid_wait;
}

}  // namespace ptxsim
