#include "images/sm100a/quantize_policy.h"
#include "kernels/quantize/slots.cuh"
