// Which registers wgmma may not use, or ordinary instructions may not touch, in kernels with wgmma.
//
// A register that an ordinary instruction writes may be used by wgmma (as A's fragment or as accumulator) only after a
// wgmma.fence, and between wgmma.mma_async and the wgmma.wait_group that gives its registers back no ordinary
// instruction may read or write them.
#ifndef PTXSIM_ISA_REGISTER_WATCH_H_
#define PTXSIM_ISA_REGISTER_WATCH_H_

#include "machine.h"

namespace ptxsim {

// Of a register, in Warp::watched: bits.
constexpr uint8_t kWrittenSinceFence = 1, kFragmentInFlight = 2, kAccumulatorInFlight = 4;
constexpr uint8_t kInFlight = kFragmentInFlight | kAccumulatorInFlight;

// Which of an instruction's operands it reads and writes, for Instruction::source_poisons and destination_poisons: as
// the machine's own propagation of poison needs them, or else by the form of the first operand.
int written_operands(Instruction const& in);

// Of a register by its number (Operand::poison).
uint8_t& watched(Warp& w, uint32_t number);
void unwatch(Warp& w, uint8_t bits);  // of all registers

// After an instruction other than wgmma ran.
void watch_registers(Warp& w, Instruction const& in);

}  // namespace ptxsim

#endif
