#include "isa/register_watch.h"

#include <algorithm>

namespace ptxsim {

int written_operands(Instruction const& in) {
  if (in.propagate) return in.destinations;
  if (in.operand_count == 0) return 0;
  for (std::string_view reader : {"bar", "barrier", "nanosleep", "brx", "cp", "prefetch"})
    if (in.statement->opcode == reader) return 0;
  Operand::Kind const first = in.operand(0).kind;
  return first == Operand::Kind::kRegister || first == Operand::Kind::kPredicate || first == Operand::Kind::kVector ||
         first == Operand::Kind::kPair;
}

uint8_t& watched(Warp& w, uint32_t number) {
  if (number >= w.watched.size()) w.watched.resize(number + 1, 0);
  return w.watched[number];
}

void unwatch(Warp& w, uint8_t bits) {
  for (uint8_t& mine : w.watched) mine &= static_cast<uint8_t>(~bits);
}

void watch_registers(Warp& w, Instruction const& in) {
  auto const report = [&](char const* done) {
    w.finding(in, w.leader(), "wgmma-register-in-flight",
              std::string("a register of a wgmma.mma_async that no wgmma.wait_group has waited for is ") + done);
  };
  for (uint32_t const* p = in.source_poisons; p != in.destination_poisons; ++p)
    if (*p < w.watched.size() && (w.watched[*p] & kInFlight) != 0) report("read");
  for (uint32_t const* p = in.destination_poisons; p != in.poisons_end; ++p) {
    uint8_t& mine = watched(w, *p);
    if ((mine & kInFlight) != 0) report("written");
    mine |= kWrittenSinceFence;
  }
}

}  // namespace ptxsim
