// gemm_w4a16_* on sm120a: the kernels of kernels/w4a16/mma_sync.cuh, whose tactics come first (rule.h), and for many rows
// those of mma_sync_tile_rule.h.
#ifndef FP4AOT_IMAGES_SM120A_W4A16_POLICY_H_
#define FP4AOT_IMAGES_SM120A_W4A16_POLICY_H_

#include "images/sm120a/w4a16_tiles.h"
#include "kernels/w4a16/slot.cuh"

namespace fp4aot::sm120a {

// Estimates that nothing has measured, for NVFP4; rule.h has a percentage for MXFP4. A tile's 576 bytes take 60 ns of a
// multiprocessor's share of 1.79 TB/s, which NVIDIA publishes for an RTX PRO 6000, longer than its products take; chains
// are an H200's, by clock.
constexpr W4a16TileCost kW4a16TileCosts[] = {{kW4a16Tiles[0].tile, 64000, 122000, 2900000, 640000},
                                             {kW4a16Tiles[1].tile, 65000, 125000, 2900000, 640000},
                                             {kW4a16Tiles[2].tile, 67000, 340000, 2900000, 640000}};
static_assert(sizeof kW4a16TileCosts == sizeof kW4a16Tiles);

template <Format kFormat>
struct W4a16Policy {
  using Params = fp4aot_gemm_w4a16_params;
  static constexpr int kMultiprocessors = 188;  // of an RTX PRO 6000
  // A multiprocessor has 100 KB, a CTA at most 99 of them.
  static constexpr W4a16Device device(int sms) { return {sms, 100 * 1024, 99 * 1024, kW4a16TileCosts}; }

  static constexpr int kOthers = kW4a16TileTacticCount;
  static char const* other_name(int tactic) { return kW4a16TileTactics[tactic].name; }
  static bool other_valid(Params const& p, int tactic) { return w4a16_tile_valid(p, kFormat, tactic); }
  static int64_t other_cost(Params const& p, int tactic, int sms) { return w4a16_tile_cost(p, kFormat, tactic, sms); }
  static fp4aot_status other_launch(Params const& p, int tactic, int sms, Message* message) {
    return p.a_dtype == FP4AOT_BF16 ? W4a16TilesUnit<kFormat, true>::launch(p, tactic, sms, message)
                                    : W4a16TilesUnit<kFormat, false>::launch(p, tactic, sms, message);
  }
  static size_t other_workspace(Params const&, int, int) { return 0; }
  static void other_preload(int device) {
    W4a16TilesUnit<kFormat, true>::preload(device);
    W4a16TilesUnit<kFormat, false>::preload(device);
  }
};

}  // namespace fp4aot::sm120a

#endif
