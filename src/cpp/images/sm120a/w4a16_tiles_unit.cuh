// The functions of w4a16_tiles.h.
#ifndef FP4AOT_IMAGES_SM120A_W4A16_TILES_UNIT_CUH_
#define FP4AOT_IMAGES_SM120A_W4A16_TILES_UNIT_CUH_

#include "images/sm120a/w4a16_tiles.h"
#include "kernels/w4a16/mma_sync_tile_launch.cuh"

namespace fp4aot::sm120a {

// Calls f with the configuration of a tile, for fp32 results or others.
template <Format kFormat, bool kBf16, class F>
auto with_w4a16_tile(int shape, bool fp32, F f) {
  constexpr bool kBlocks = kFormat == Format::kMxfp4 && !kBf16;
  static_assert(kW4a16TileShapeCount == 3);
  constexpr W4a16TileShape kLarge = kW4a16TileShapes[0], kMiddle = kW4a16TileShapes[1], kSmall = kW4a16TileShapes[2];
  switch (shape) {
    case 0:
      return f(W4a16TileConfig<kFormat, kBf16, kLarge.row_tiles, kLarge.tokens, false>{});
    case 1:
      if (fp32 && !kBlocks) return f(W4a16TileConfig<kFormat, kBf16, kMiddle.row_tiles, kMiddle.tokens, !kBlocks>{});
      return f(W4a16TileConfig<kFormat, kBf16, kMiddle.row_tiles, kMiddle.tokens, false>{});
    default:
      if (fp32 && !kBlocks) return f(W4a16TileConfig<kFormat, kBf16, kSmall.row_tiles, kSmall.tokens, !kBlocks>{});
      return f(W4a16TileConfig<kFormat, kBf16, kSmall.row_tiles, kSmall.tokens, false>{});
  }
}

template <Format kFormat, bool kBf16>
fp4aot_status W4a16TilesUnit<kFormat, kBf16>::launch(fp4aot_gemm_w4a16_params const& p, int tactic, int sms,
                                                     Message* message) {
  constexpr char const* kName = kFormat == Format::kNvfp4 ? "gemm_w4a16_nvfp4" : "gemm_w4a16_mxfp4";
  W4a16TileTactic const& chosen = kW4a16TileTactics[tactic];
  return with_w4a16_tile<kFormat, kBf16>(chosen.shape, p.d_dtype == FP4AOT_FP32, [&](auto config) {
    return run_w4a16_tile<decltype(config)>(p, kName, chosen, sms, message);
  });
}

template <Format kFormat, bool kBf16>
void W4a16TilesUnit<kFormat, kBf16>::preload(int device) {
  for (int shape = 0; shape < kW4a16TileShapeCount; ++shape) {
    for (bool const fp32 : {false, true}) {
      (void)with_w4a16_tile<kFormat, kBf16>(shape, fp32,
                                            [&](auto config) { return prepare_w4a16_tile<decltype(config)>(device); });
    }
  }
  (void)tensor_map_encode();
}

}  // namespace fp4aot::sm120a

#endif
