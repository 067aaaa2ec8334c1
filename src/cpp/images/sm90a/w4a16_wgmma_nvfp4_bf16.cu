#include "images/sm90a/w4a16_wgmma_unit.cuh"

namespace fp4aot::sm90a {

template struct W4a16WgmmaUnit<Format::kNvfp4, true>;

}  // namespace fp4aot::sm90a
