#include "kernels/w4a16/tcgen05_unit.cuh"

template struct fp4aot::W4a16Tcgen05Unit<fp4aot::Format::kNvfp4, false>;
