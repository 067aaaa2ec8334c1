// The environment variables that are on or off.
#ifndef FP4AOT_CORE_SWITCHES_H_
#define FP4AOT_CORE_SWITCHES_H_

#include <string>

#include "core/error.h"

namespace fp4aot::core {

// Read when the library is loaded: a switch read at its first use would have a guard, which a fork could catch locked.
struct Switches {
  bool check_pointers;    // FP4AOT_CHECK_POINTERS=1: ask the driver where each pointer of a CUDA call points
  bool check_scales;      // FP4AOT_CHECK_SCALES=1: look for scale padding that is not zero
  std::string complaint;  // about values that are neither 1 nor 0; empty if there are none
};
extern Switches const switches;

// Fails where a switch has a value that means nothing: a check that was asked for must not be left out silently.
inline fp4aot_status check_switches() {
  if (switches.complaint.empty()) return FP4AOT_OK;
  return fail(FP4AOT_INVALID_ARGUMENT, "%s", switches.complaint.c_str());
}

}  // namespace fp4aot::core

#endif
