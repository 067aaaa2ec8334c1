#include "engine/runner.h"
#include "isa/register_watch.h"

namespace ptxsim {

bool WarpRunner::choose(Warp& w) {
  size_t best = w.groups.size();
  for (size_t i = 0; i < w.groups.size(); ++i) {
    if (!w.groups[i].waiting && (best == w.groups.size() || w.groups[i].pc < w.groups[best].pc)) best = i;
  }
  if (best == w.groups.size()) return false;
  w.current = best;
  return true;
}

// Joins every group with those at the same place.
void WarpRunner::merge(Warp& w) {
  for (size_t i = 0; i < w.groups.size(); ++i) {
    for (size_t j = i + 1; j < w.groups.size();) {
      if (w.groups[i].pc == w.groups[j].pc) {
        w.groups[i].mask |= w.groups[j].mask;
        w.groups[i].waiting = w.groups[i].converging = false;
        w.groups.erase(w.groups.begin() + static_cast<long>(j));
      } else {
        ++j;
      }
    }
  }
}

bool WarpRunner::cannot_converge(Warp const& w) {
  for (Group const& g : w.groups) {
    if (!g.converging) return false;
  }
  return !w.groups.empty();
}

void WarpRunner::exit_lanes(Warp& w) {
  w.alive_ &= ~w.active_;
  Group& g = w.group();
  g.mask &= ~w.active_;
  ++g.pc;
  if (g.mask == 0) {
    w.groups.erase(w.groups.begin() + static_cast<long>(w.current));
    w.current = 0;
  }
  // Those that waited for the lanes to come need not any more.
  for (Group& other : w.groups) other.waiting = other.converging = false;
}

WarpRunner::Turn WarpRunner::run(Warp& w, Kernel const& kernel, int quantum) {
  Instruction const* code = kernel.code.data();
  Tally& tally = w.cluster().tally;
  for (Group& g : w.groups) g.waiting = g.converging = false;
  merge(w);
  if (!choose(w)) return Turn::kExited;
  bool ran = false, polled = false;
  while (quantum-- > 0) {
    Group* g = &w.groups[w.current];
    Instruction const& in = code[g->pc];
    uint32_t mask = g->mask;
    uint32_t unknown_guard = 0;
    Step step = Step::kNext;
    if (in.guard != 0) {
      uint32_t value;
      std::memcpy(&value, w.registers.data() + in.guard, 4);
      unknown_guard = w.poison_masks[in.guard_poison] & mask;
      mask &= in.guard_negated ? ~value : value;
      if (unknown_guard != 0 && in.side_effect) {
        w.active_ = g->mask;
        w.finding(in, __builtin_ctz(unknown_guard), "uninitialised",
                  "a value that depends on memory or registers never written is used as the predicate of \"" +
                      opcode_text(*in.statement) + "\"");
        w.poison_masks[in.guard_poison] &= ~g->mask;
        unknown_guard = 0;
      }
    }
    if (mask != 0 || unknown_guard != 0) {
      if (in.aligned && g->mask != w.alive_) {
        g->waiting = g->converging = true;
        step = Step::kWait;
      } else {
        if (in.aligned && mask != g->mask) {
          w.active_ = mask;
          w.finding(in, __builtin_ctz(g->mask & ~mask), "divergent-aligned",
                    "\"" + opcode_text(*in.statement) + "\" is executed by some lanes of the warp only (predicate)");
        }
        uint32_t bad = 0;
        if (in.propagate) {
          bad = unknown_guard;
          for (uint32_t const* p = in.source_poisons; p != in.destination_poisons; ++p)
            bad |= w.poison_masks[*p] & mask;
        }
        w.active_ = mask;
        if (mask != 0) step = in.handler(w, in);
        if (step != Step::kWait) {
          if (kernel.uses_wgmma && mask != 0) watch_registers(w, in);
          tally.thread_instructions[static_cast<int>(in.category)] += static_cast<uint64_t>(__builtin_popcount(mask));
          ++tally.warp_instructions;
        }
        if (bad != 0) {
          for (uint32_t const* p = in.destination_poisons; p != in.poisons_end; ++p) w.poison_masks[*p] |= bad;
        }
      }
    }
    if (step == Step::kNext) {
      ++w.group().pc;
      ran = true;
      if (w.polling) {
        w.polling = false;
        polled = true;
        w.group().waiting = true;
      }
    } else if (step == Step::kPlaced) {
      ran = true;
      if (w.groups.empty()) return Turn::kExited;
    } else {
      w.group().waiting = true;
    }
    if (w.groups.size() > 1) {
      merge(w);
      if (!choose(w)) break;
    } else if (w.groups[0].waiting) {
      break;
    } else {
      w.current = 0;
    }
    if (w.grid().state().aborted.load(std::memory_order_relaxed)) break;
  }
  return polled ? Turn::kPolled : ran ? Turn::kProgress : Turn::kBlocked;
}

}  // namespace ptxsim
