// Registers, clocks and findings of a warp.
#include <cstring>

#include "engine/grid.h"
#include "machine.h"

namespace ptxsim {

Cluster& Warp::cluster() { return cta_->cluster(); }
Grid& Warp::grid() { return cta_->cluster().grid(); }

uint64_t Warp::value(Operand const& op, int lane) const {
  uint8_t const* base = (op.kind == Operand::Kind::kConstant ? constants_ : registers.data()) + op.slot;
  switch (op.kind == Operand::Kind::kPredicate ? 0 : op.width) {
    case 0:
      return op.kind == Operand::Kind::kPredicate ? predicate(op) >> lane & 1 : 0;
    case 2: {
      uint16_t v;
      std::memcpy(&v, base + lane * 2, 2);
      return v;
    }
    case 4: {
      uint32_t v;
      std::memcpy(&v, base + lane * 4, 4);
      return v;
    }
    default: {
      uint64_t v;
      std::memcpy(&v, base + lane * op.width, 8);
      return v;
    }
  }
}

void Warp::value128(Operand const& op, int lane, uint64_t out[2]) const {
  out[1] = 0;
  if (op.width == 16) {
    std::memcpy(out, registers.data() + op.slot + lane * 16, 16);
  } else {
    out[0] = value(op, lane);
  }
}

float Warp::value_float(Operand const& op, int lane) const {
  uint32_t bits = static_cast<uint32_t>(value(op, lane));
  float v;
  std::memcpy(&v, &bits, 4);
  return v;
}

int64_t Warp::value_signed(Operand const& op, int lane) const {
  uint64_t v = value(op, lane);
  switch (op.width) {
    case 2:
      return static_cast<int16_t>(v);
    case 4:
      return static_cast<int32_t>(v);
    default:
      return static_cast<int64_t>(v);
  }
}

void Warp::set(Operand const& op, int lane, uint64_t value) {
  if (op.kind == Operand::Kind::kSink) return;
  poison_masks[op.poison] &= ~(1u << lane);
  uint8_t* base = registers.data() + op.slot;
  if (op.kind == Operand::Kind::kPredicate) {
    uint32_t mask;
    std::memcpy(&mask, base, 4);
    mask = (mask & ~(1u << lane)) | static_cast<uint32_t>(value & 1) << lane;
    std::memcpy(base, &mask, 4);
    return;
  }
  if (op.width == 16) {
    uint64_t both[2] = {value, 0};
    std::memcpy(base + lane * 16, both, 16);
  } else {
    std::memcpy(base + lane * op.width, &value, op.width);
  }
}

void Warp::set128(Operand const& op, int lane, uint64_t const value[2]) {
  if (op.kind == Operand::Kind::kSink) return;
  poison_masks[op.poison] &= ~(1u << lane);
  std::memcpy(registers.data() + op.slot + lane * op.width, value, op.width);
}

void Warp::set_float(Operand const& op, int lane, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  set(op, lane, bits);
}

uint32_t Warp::predicate(Operand const& op) const {
  uint32_t mask = 0;
  if (op.kind == Operand::Kind::kConstant) {
    mask = op.offset != 0 ? kAllLanes : 0;
  } else if (op.kind == Operand::Kind::kPredicate) {
    std::memcpy(&mask, registers.data() + op.slot, 4);
  }
  return op.negated ? ~mask : mask;
}

void Warp::set_predicate(Operand const& op, uint32_t lanes) {
  if (op.kind != Operand::Kind::kPredicate) return;
  uint32_t mask;
  std::memcpy(&mask, registers.data() + op.slot, 4);
  mask = (mask & ~active_) | (lanes & active_);
  std::memcpy(registers.data() + op.slot, &mask, 4);
  poison_masks[op.poison] &= ~active_;
}

uint32_t Warp::poison(Operand const& op) const {
  switch (op.kind) {
    case Operand::Kind::kRegister:
    case Operand::Kind::kPredicate:
      return poison_masks[op.poison];
    case Operand::Kind::kVector:
    case Operand::Kind::kAddress:
    case Operand::Kind::kPair: {
      uint32_t mask = 0;
      for (Operand const& element : op.elements) mask |= poison(element);
      return mask;
    }
    default:
      return 0;
  }
}

void Warp::set_poison(Operand const& op, uint32_t lanes) {
  if (op.kind == Operand::Kind::kVector || op.kind == Operand::Kind::kPair) {
    for (Operand const& element : op.elements) set_poison(element, lanes);
  } else if (op.poison != 0) {
    poison_masks[op.poison] = (poison_masks[op.poison] & ~active_) | (lanes & active_);
  }
}

uint64_t Warp::uniform(Instruction const& in, Operand const& op) {
  uint64_t first = value(op, leader());
  for (uint32_t rest = active_ & (active_ - 1); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    if (value(op, lane) != first) {
      finding(in, lane, "not-uniform", "an operand must be the same in all lanes: " + std::string(op.text));
      break;
    }
  }
  return first;
}

bool Warp::require_defined(Instruction const& in, Operand const& op, char const* what) {
  uint32_t bad = poison(op) & active_;
  if (bad == 0) return true;
  finding(in, __builtin_ctz(bad), "uninitialised",
          std::string("a value that depends on memory or registers never written is used as ") + what);
  return false;
}

uint64_t Warp::address(Operand const& op, int lane) const {
  return value(op.elements[0], lane) + static_cast<uint64_t>(op.offset);
}

Stamp Warp::stamp(Agent agent, int lane) {
  Stamp s;
  clock.advance(cta_->party(Agent::kWarp, number_));
  s.clock = clock;
  s.party = static_cast<uint32_t>(cta_->party(agent, number_));
  s.issuer = static_cast<uint32_t>(cta_->party(Agent::kWarp, number_));
  if (agent != Agent::kWarp) {
    // The agent's own count lives in the CTA, so that two operations never have the same place.
    s.clock.set(s.party, ++cta_->agent_time[static_cast<int>(agent)]);
  }
  s.time = s.clock[s.party];
  s.waited = (waited >> lane & 1) != 0;
  return s;
}

Clock const& Warp::release() {
  clock.advance(cta_->party(Agent::kWarp, number_));
  return clock;
}

void Warp::fence_proxy_async() {
  for (int lane = 0; lane < kWarpSize; ++lane) fence_epoch[lane] += active_ >> lane & 1;
}

bool Warp::converged(uint32_t mask) {
  if ((mask & alive_ & ~group().mask) == 0) return true;
  group().converging = true;
  return false;
}

Site site(Warp& w, Instruction const& in, int lane) {
  Site s;
  s.kernel = w.grid().kernel_name();
  s.cta = w.cta().index();
  s.warp = w.number();
  s.lane = lane;
  s.statement = in.statement;
  return s;
}

void Warp::finding(Instruction const& in, int lane, std::string check, std::string message) {
  grid().finding(site(*this, in, lane), std::move(check), std::move(message));
}

size_t Cta::party(Agent agent, int warp) const {
  size_t warps_each = (threads_ + kWarpSize - 1) / kWarpSize;
  size_t base = rank_ * (warps_each + 2);
  return base +
         (agent == Agent::kWarp ? static_cast<size_t>(warp) : warps_each + (agent == Agent::kTensorCopy ? 0 : 1));
}

}  // namespace ptxsim
