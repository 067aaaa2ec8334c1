// The virtual GPUs: one for each image, named like it.
#ifndef PTXSIM_RUNTIME_CHIPS_H_
#define PTXSIM_RUNTIME_CHIPS_H_

#include <string>
#include <vector>

#include "src/device.h"

namespace ptxsim {

struct Chip {
  char const* image;  // "sm103a": what FP4AOT_SIM names
  Properties properties;
};

std::vector<Chip> const& chips();

// The chip that FP4AOT_SIM names, with PTXSIM_MULTIPROCESSORS in place of its own count if that is set. Ends the process
// with a sentence if the variable is missing or names none: there is no device that could be meant.
Properties chosen_chip();

}  // namespace ptxsim

#endif
