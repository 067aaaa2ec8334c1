#include "images/sm120a/w4a16_tiles_unit.cuh"

namespace fp4aot::sm120a {

template struct W4a16TilesUnit<Format::kMxfp4, false>;

}  // namespace fp4aot::sm120a
