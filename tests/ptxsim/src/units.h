// Umbrella of the functional units (units/*.h): pure functions for number formats, matrix products, tensor maps and
// descriptors. They know nothing of warps, memory checks or time; the machine calls them with the operands it has read.
#ifndef PTXSIM_UNITS_H_
#define PTXSIM_UNITS_H_

#include "units/convert.h"
#include "units/mma.h"
#include "units/tcgen05.h"
#include "units/tensor_map.h"
#include "units/wgmma.h"

#endif
