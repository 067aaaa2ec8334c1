// Shadow state of one mbarrier object (the 8 bytes in shared memory hold nothing of use to a program).
#ifndef PTXSIM_SYNC_MBARRIER_H_
#define PTXSIM_SYNC_MBARRIER_H_

#include <cstdint>

#include "sync/clock.h"

namespace ptxsim {

struct Mbarrier {
  bool live = false;
  uint64_t phase = 0;                             // completed phases: absolute, so that a lapped waiter shows
  int64_t expected = 0;                           // arrivals a phase
  int64_t pending = 0;                            // arrivals still missing
  int64_t transactions = 0;                       // bytes still missing; may be negative for a while
  Clock knowledge;                                // of those that arrived in completed phases
  Clock gathering;                                // of those that arrived in the current one
  bool waited = false, gathering_waited = false;  // one of them is ordered after griddepcontrol.wait
  uint32_t init_party = 0, init_time = 0;         // who initialised it, and when on its clock
};

}  // namespace ptxsim

#endif
