// gemm_w4a16_* on the kernel of kernels/w4a16/mma_sync_tile.cuh, in units of their own (w4a16_tiles_*.cu): what the ops'
// slots call.
#ifndef FP4AOT_IMAGES_SM120A_W4A16_TILES_H_
#define FP4AOT_IMAGES_SM120A_W4A16_TILES_H_

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "images/image.h"
#include "kernels/w4a16/mma_sync_tile_rule.h"

namespace fp4aot::sm120a {

// Of activations in bf16 (kBf16) or fp16. tactic: of mma_sync_tile_rule.h, a valid one.
template <Format kFormat, bool kBf16>
struct W4a16TilesUnit {
  static fp4aot_status launch(fp4aot_gemm_w4a16_params const& p, int tactic, int sms, Message* message);
  static void preload(int device);
};
extern template struct W4a16TilesUnit<Format::kNvfp4, true>;
extern template struct W4a16TilesUnit<Format::kNvfp4, false>;
extern template struct W4a16TilesUnit<Format::kMxfp4, true>;
extern template struct W4a16TilesUnit<Format::kMxfp4, false>;

}  // namespace fp4aot::sm120a

#endif
