// Modifiers that all instructions on memory share.
#ifndef PTXSIM_ISA_MEMORY_MODIFIERS_H_
#define PTXSIM_ISA_MEMORY_MODIFIERS_H_

#include "isa.h"

namespace ptxsim {

enum class Ordering : uint8_t { kWeak, kVolatile, kRelaxed, kAcquire, kRelease, kAcquireRelease, kMmio };

void take_cache_modifiers(Decoder& d);
Ordering take_ordering(Decoder& d);  // with its scope
Space take_space(Decoder& d);        // kGeneric if none is named
Class memory_class(Space space);

}  // namespace ptxsim

#endif
