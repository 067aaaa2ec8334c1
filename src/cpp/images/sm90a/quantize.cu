// The quantise family of Hopper, which has conversion instructions for e4m3 but none for e2m1.
#include "images/sm90a/quantize_policy.h"
#include "kernels/quantize/slots.cuh"
