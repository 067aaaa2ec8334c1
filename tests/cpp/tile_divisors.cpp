// kernels/gemm/tile_schedule.h's divisions for test_tile_divisors.py.
#include "kernels/gemm/tile_schedule.h"

extern "C" int32_t quotient(int32_t x, int32_t divisor) { return fp4aot::Divisor(divisor)(x); }
