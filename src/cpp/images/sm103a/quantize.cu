#include "images/sm103a/quantize_policy.h"
#include "kernels/quantize/slots.cuh"
