#include "images/sm120a/quantize_policy.h"
#include "kernels/quantize/slots.cuh"
