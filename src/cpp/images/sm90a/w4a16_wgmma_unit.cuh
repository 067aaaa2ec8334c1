// The functions of w4a16_wgmma.h.
#ifndef FP4AOT_IMAGES_SM90A_W4A16_WGMMA_UNIT_CUH_
#define FP4AOT_IMAGES_SM90A_W4A16_WGMMA_UNIT_CUH_

#include "images/sm90a/w4a16_wgmma.h"
#include "kernels/w4a16/wgmma_launch.cuh"

namespace fp4aot::sm90a {

// Calls f with the configuration of a tile, for fp32 results or others.
template <Format kFormat, bool kBf16, class F>
auto with_w4a16_wgmma(int tile, bool fp32, F f) {
  static_assert(kW4a16WgmmaTileCount == 4);
  switch (tile) {
    case 0:
      return fp32 ? f(W4a16WgmmaConfig<kFormat, kBf16, kW4a16WgmmaTiles[0].tokens, true>{})
                  : f(W4a16WgmmaConfig<kFormat, kBf16, kW4a16WgmmaTiles[0].tokens>{});
    case 1:
      return fp32 ? f(W4a16WgmmaConfig<kFormat, kBf16, kW4a16WgmmaTiles[1].tokens, true>{})
                  : f(W4a16WgmmaConfig<kFormat, kBf16, kW4a16WgmmaTiles[1].tokens>{});
    case 2:
      return f(W4a16WgmmaConfig<kFormat, kBf16, kW4a16WgmmaTiles[2].tokens>{});
    default:
      return f(W4a16WgmmaConfig<kFormat, kBf16, kW4a16WgmmaTiles[3].tokens>{});
  }
}

template <Format kFormat, bool kBf16>
fp4aot_status W4a16WgmmaUnit<kFormat, kBf16>::launch(fp4aot_gemm_w4a16_params const& p, int tactic, int sms,
                                                     Message* message) {
  constexpr char const* kName = kFormat == Format::kNvfp4 ? "gemm_w4a16_nvfp4" : "gemm_w4a16_mxfp4";
  auto const [tile, plan] = w4a16_wgmma_tactic(tactic);
  return with_w4a16_wgmma<kFormat, kBf16>(tile, p.d_dtype == FP4AOT_FP32, [&, plan = plan](auto config) {
    return run_w4a16_wgmma<decltype(config)>(p, kName, plan, sms, message);
  });
}

template <Format kFormat, bool kBf16>
size_t W4a16WgmmaUnit<kFormat, kBf16>::workspace_size(fp4aot_gemm_w4a16_params const& p, int tactic, int sms) {
  auto const [tile, plan] = w4a16_wgmma_tactic(tactic);
  return with_w4a16_wgmma<kFormat, kBf16>(tile, p.d_dtype == FP4AOT_FP32, [&, plan = plan](auto config) {
    return static_cast<size_t>(w4a16_wgmma_workspace<decltype(config)>(p, plan, sms).bytes());
  });
}

template <Format kFormat, bool kBf16>
void W4a16WgmmaUnit<kFormat, kBf16>::preload(int device) {
  for (int tile = 0; tile < kW4a16WgmmaTileCount; ++tile) {
    for (bool const fp32 : {false, true}) {
      (void)with_w4a16_wgmma<kFormat, kBf16>(tile, fp32,
                                             [&](auto config) { return prepare_wgmma_gemm<decltype(config)>(device); });
    }
  }
  preload_kernel(reinterpret_cast<void const*>(clear_counters_kernel<kFormat, kBf16>));
  if constexpr (kFormat == Format::kMxfp4)
    preload_kernel(reinterpret_cast<void const*>(split_activations_kernel<kFormat>));
  (void)tensor_map_encode();
}

}  // namespace fp4aot::sm90a

#endif
