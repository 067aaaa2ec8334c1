// What atomic operations compute, for all instructions that have them.
#ifndef PTXSIM_ISA_ATOMIC_H_
#define PTXSIM_ISA_ATOMIC_H_

#include "isa.h"

namespace ptxsim {

enum class AtomicOperation : uint8_t {
  kAdd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kExchange,
  kCompare,
  kIncrement,
  kDecrement,
  kNone
};

// Takes the operation's name from the statement's modifiers; kNone if there is none.
AtomicOperation take_atomic_operation(Decoder& d);
bool exists(AtomicOperation op, Type type);

// The new value of `old`, in the low bytes of the type; c: of compare-and-swap, what replaces b.
uint64_t atomic_result(AtomicOperation op, Type type, uint64_t old, uint64_t b, uint64_t c = 0);

Handler decode_red_async(Decoder& d);
Handler decode_st_async(Decoder& d);

}  // namespace ptxsim

#endif
