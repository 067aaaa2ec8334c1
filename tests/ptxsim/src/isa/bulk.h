// Bulk copies without a tensor map, and the groups by which a thread waits for stores of the asynchronous proxy.
#ifndef PTXSIM_ISA_BULK_H_
#define PTXSIM_ISA_BULK_H_

#include "isa.h"

namespace ptxsim {

Handler decode_bulk(Decoder& d);  // the opcode "cp" with .bulk and without .tensor

}  // namespace ptxsim

#endif
