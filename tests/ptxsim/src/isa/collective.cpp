// Instructions across the lanes of a warp: vote, match, shfl, redux, elect, activemask, bar.warp.sync.
#include <algorithm>
#include <cmath>

#include "engine/grid.h"
#include "isa/elementwise.h"

namespace ptxsim {
namespace {

// The membermask operand: the same in all lanes, and naming them. False: wait for the lanes that it names.
bool gather(Warp& w, Instruction const& in, Operand const& op, uint32_t* mask) {
  w.require_defined(in, op, "a mask of lanes");
  *mask = static_cast<uint32_t>(w.uniform(in, op));
  uint32_t strangers = w.active() & ~*mask;
  if (strangers != 0) {
    w.finding(in, __builtin_ctz(strangers), "not-in-mask",
              "a lane that the mask of \"" + opcode_text(*in.statement) + "\" does not name executes it");
    *mask |= w.active();
  }
  if (!w.converged(*mask)) return false;
  uint32_t missing = *mask & w.alive() & ~w.active();
  if (missing != 0) {
    w.finding(in, __builtin_ctz(missing), "divergent-aligned",
              "a lane that the mask of \"" + opcode_text(*in.statement) + "\" names does not execute it (predicate)");
  }
  return true;
}

Step run_vote(Warp& w, Instruction const& in) {
  uint32_t mask;
  if (!gather(w, in, in.operands[2], &mask)) return Step::kWait;
  uint32_t votes = w.predicate(in.operands[1]) & w.active();
  uint32_t bad = w.poison(in.operands[1]) & w.active();
  bool all = votes == w.active();
  uint32_t yes = 0;
  switch (in.variant) {
    case 0:
      yes = all ? kAllLanes : 0;
      break;
    case 1:
      yes = votes != 0 ? kAllLanes : 0;
      break;
    case 2:
      yes = all || votes == 0 ? kAllLanes : 0;
      break;
    default:
      for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) w.set(in.operands[0], __builtin_ctz(rest), votes);
  }
  if (in.variant < 3) w.set_predicate(in.operands[0], yes);
  if (bad != 0) w.set_poison(in.operands[0], kAllLanes);
  return Step::kNext;
}

Step run_active_mask(Warp& w, Instruction const& in) {
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) w.set(in.operands[0], __builtin_ctz(rest), w.active());
  return Step::kNext;
}

Step run_match(Warp& w, Instruction const& in) {
  uint32_t mask;
  if (!gather(w, in, in.operands[2], &mask)) return Step::kWait;
  Operand const& to = in.operands[0].kind == Operand::Kind::kPair ? in.operands[0].elements[0] : in.operands[0];
  uint32_t all_equal = 0;
  uint64_t bits = in.aux == 4 ? 0xFFFFFFFFu : ~uint64_t{0};
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint32_t same = 0;
    for (uint32_t others = w.active(); others != 0; others &= others - 1) {
      int other = __builtin_ctz(others);
      if (((w.value(in.operands[1], lane) ^ w.value(in.operands[1], other)) & bits) == 0) same |= 1u << other;
    }
    bool all = same == w.active();
    all_equal |= static_cast<uint32_t>(all) << lane;
    w.set(to, lane, in.variant ? (all ? mask : 0) : same);
  }
  if (in.operands[0].kind == Operand::Kind::kPair) w.set_predicate(in.operands[0].elements[1], all_equal);
  return Step::kNext;
}

// in.variant: 0 up, 1 down, 2 bfly, 3 idx.
Step run_shuffle(Warp& w, Instruction const& in) {
  uint32_t mask;
  if (!gather(w, in, in.operands[4], &mask)) return Step::kWait;
  bool pair = in.operands[0].kind == Operand::Kind::kPair;
  Operand const& to = pair ? in.operands[0].elements[0] : in.operands[0];
  w.require_defined(in, in.operands[2], "a shuffle's lane");
  uint32_t values[kWarpSize], poison = w.poison(in.operands[1]), bad = 0, in_range = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) values[lane] = static_cast<uint32_t>(w.value(in.operands[1], lane));
  uint32_t result[kWarpSize];
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    int b = static_cast<int>(w.value(in.operands[2], lane) & 31);
    uint32_t c = static_cast<uint32_t>(w.value(in.operands[3], lane));
    int clamp = static_cast<int>(c & 31), segment = static_cast<int>(c >> 8 & 31);
    int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    int from = in.variant == 0   ? lane - b
               : in.variant == 1 ? lane + b
               : in.variant == 2 ? lane ^ b
                                 : least | (b & ~segment);
    bool valid = in.variant == 0 ? from >= most : from <= most;
    if (!valid) from = lane;
    in_range |= static_cast<uint32_t>(valid) << lane;
    bool present = w.active() >> from & 1;
    if (!present || (poison >> from & 1)) bad |= 1u << lane;
    result[lane] = values[from & 31];
  }
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1)
    w.set(to, __builtin_ctz(rest), result[__builtin_ctz(rest)]);
  if (bad != 0 && to.poison != 0) w.poison_masks[to.poison] |= bad;
  if (pair) w.set_predicate(in.operands[0].elements[1], in_range);
  return Step::kNext;
}

uint32_t reduced(Warp& w, Instruction const& in) {
  Operand const& from = in.operands[1];
  int64_t signed_result = 0;
  uint32_t result = 0;
  bool first = true, nan = false;
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    uint32_t v = static_cast<uint32_t>(w.value(from, __builtin_ctz(rest)));
    int64_t s = in.aux == 's' ? static_cast<int32_t>(v) : static_cast<int64_t>(v);
    if (in.aux == 'f' || in.aux == 'a') {
      if (in.aux == 'a') v &= 0x7FFFFFFF;
      if ((v & 0x7FFFFFFF) > 0x7F800000) {
        nan = true;
        continue;
      }
      s = static_cast<int32_t>(v) < 0 ? static_cast<int32_t>(v ^ 0x7FFFFFFF) : static_cast<int32_t>(v);
    }
    switch (in.variant & 7) {
      case 0:
        result += v;
        break;
      case 1:
        if (first || s < signed_result) result = v, signed_result = s;
        break;
      case 2:
        if (first || s > signed_result) result = v, signed_result = s;
        break;
      case 3:
        result = first ? v : result & v;
        break;
      case 4:
        result |= v;
        break;
      default:
        result ^= v;
    }
    first = false;
  }
  if (nan && (first || (in.variant & 8))) return 0x7FFFFFFF;
  return result;
}

Step run_reduce(Warp& w, Instruction const& in) {
  uint32_t mask;
  if (!gather(w, in, in.operands[2], &mask)) return Step::kWait;
  uint32_t bad = w.poison(in.operands[1]) & w.active();
  uint32_t value = reduced(w, in);
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) w.set(in.operands[0], __builtin_ctz(rest), value);
  if (bad != 0) w.set_poison(in.operands[0], kAllLanes);
  return Step::kNext;
}

// The leader is the lowest lane, always.
Step run_elect(Warp& w, Instruction const& in) {
  uint32_t mask;
  if (!gather(w, in, in.operands[1], &mask)) return Step::kWait;
  bool pair = in.operands[0].kind == Operand::Kind::kPair;
  uint32_t leader = static_cast<uint32_t>(w.leader());
  if (pair) {
    for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
      w.set(in.operands[0].elements[0], __builtin_ctz(rest), leader);
    }
  }
  w.set_predicate(pair ? in.operands[0].elements[1] : in.operands[0], 1u << leader);
  return Step::kNext;
}

// The lanes may come to different bar.warp.sync with the same mask: the last one to come lets all go.
Step run_warp_sync(Warp& w, Instruction const& in) {
  uint32_t mask = static_cast<uint32_t>(w.uniform(in, in.operands[0])) & w.alive();
  uint32_t me = w.active();
  if ((w.released & me) != me) {
    uint32_t here = 0;
    for (Group const& g : w.groups) {
      Instruction const& at = w.grid().state().kernel->code[g.pc];
      if (at.handler == in.handler) here |= g.mask;
    }
    if ((mask & ~here) != 0) {
      w.group().converging = true;
      return Step::kWait;
    }
    w.released |= mask;
    if (w.waited & mask) w.waited |= mask;
  }
  w.released &= ~me;
  return Step::kNext;
}

}  // namespace

Handler decode_bar_warp(Decoder& d) {
  if (!d.take("warp") || !d.take("sync") || !d.operands(1, 1)) return d.fail("this form");
  d.instruction().category = Class::kBarrier;
  d.constant_width(0, 4);
  return run_warp_sync;
}

Handler decode_vote(Decoder& d) {
  if (!d.take("sync")) return d.fail("not .sync");
  int mode = d.take_one_of({"all", "any", "uni", "ballot"});
  Type type;
  if (mode < 0 || !d.take_type(&type) || !d.operands(3, 3)) return d.fail("this form");
  d.instruction().variant = static_cast<uint32_t>(mode);
  d.instruction().category = Class::kVote;
  d.instruction().pure = true;
  d.constant_width(2, 4);
  return run_vote;
}

Handler decode_activemask(Decoder& d) {
  Type type;
  if (!d.take_type(&type) || !d.operands(1, 1)) return d.fail("this form");
  d.instruction().category = Class::kVote;
  return run_active_mask;
}

Handler decode_match(Decoder& d) {
  int mode = d.take_one_of({"any", "all"});
  Type type;
  if (mode < 0 || !d.take("sync") || !d.take_type(&type) || !d.operands(3, 3)) return d.fail("this form");
  d.instruction().variant = static_cast<uint32_t>(mode);
  d.instruction().aux = type.bytes;
  d.instruction().category = Class::kVote;
  return run_match;
}

Handler decode_shfl(Decoder& d) {
  if (!d.take("sync")) return d.fail("not .sync");
  int mode = d.take_one_of({"up", "down", "bfly", "idx"});
  Type type;
  if (mode < 0 || !d.take_type(&type) || type.bytes != 4 || !d.operands(5, 5)) return d.fail("this form");
  d.instruction().variant = static_cast<uint32_t>(mode);
  d.instruction().category = Class::kVote;
  for (int i = 1; i < 5; ++i) d.constant_width(i, 4);
  return run_shuffle;
}

Handler decode_redux(Decoder& d) {
  if (!d.take("sync")) return d.fail("not .sync");
  int op = d.take_one_of({"add", "min", "max", "and", "or", "xor"});
  bool magnitude = d.take("abs");
  bool nan = d.take("NaN");
  Type type;
  if (op < 0 || !d.take_type(&type) || type.bytes != 4 || !d.operands(3, 3)) return d.fail("this form");
  if (type.letter == 'f' && op != 1 && op != 2) return d.fail("this operation on floats");
  d.instruction().variant = static_cast<uint32_t>(op) | (nan ? 8u : 0u);
  d.instruction().aux = type.letter == 'f' && magnitude ? 'a' : type.letter;
  d.instruction().category = Class::kVote;
  d.constant_width(2, 4);
  return run_reduce;
}

Handler decode_elect(Decoder& d) {
  if (!d.take("sync") || !d.operands(2, 2)) return d.fail("this form");
  d.instruction().category = Class::kVote;
  d.constant_width(1, 4);
  return run_elect;
}

}  // namespace ptxsim
