#include "images/sm90a/w4a16_few.h"

#include "kernels/w4a16/wgmma_few_launch.cuh"

namespace fp4aot::sm90a {

template <Format kFormat, bool kBf16, class F>
auto with_w4a16_few_tile(int tile, F f) {
  static_assert(kW4a16FewTileCount == 6);
  switch (tile) {
    case 0:
      return f(W4a16FewConfig<kFormat, kBf16, 0>{});
    case 1:
      return f(W4a16FewConfig<kFormat, kBf16, 1>{});
    case 2:
      return f(W4a16FewConfig<kFormat, kBf16, 2>{});
    case 3:
      return f(W4a16FewConfig<kFormat, kBf16, 3>{});
    case 4:
      return f(W4a16FewConfig<kFormat, kBf16, 4>{});
    default:
      return f(W4a16FewConfig<kFormat, kBf16, 5>{});
  }
}

// MXFP4 with fp16 activations has no valid tactic.
template <Format kFormat, class F>
auto with_w4a16_few(int32_t a_dtype, int tile, F f) {
  if constexpr (kFormat == Format::kNvfp4) {
    if (a_dtype == FP4AOT_FP16) return with_w4a16_few_tile<kFormat, false>(tile, f);
  }
  return with_w4a16_few_tile<kFormat, true>(tile, f);
}

template <Format kFormat>
fp4aot_status W4a16Few<kFormat>::launch(fp4aot_gemm_w4a16_params const& p, int tactic, int sms, Message* message) {
  constexpr char const* kName = kFormat == Format::kNvfp4 ? "gemm_w4a16_nvfp4" : "gemm_w4a16_mxfp4";
  int64_t const clusters = w4a16_few_plan(p, kFormat, tactic, sms).clusters;
  return with_w4a16_few<kFormat>(p.a_dtype, tactic / kW4a16FewClusterSizes, [&](auto config) {
    return run_w4a16_few<decltype(config)>(p, kName, tactic % kW4a16FewClusterSizes, clusters, w4a16_device(sms),
                                           message);
  });
}

template <Format kFormat>
void W4a16Few<kFormat>::preload(int device) {
  for (int tile = 0; tile < kW4a16FewTileCount; ++tile) {
    for (int32_t const a_dtype : {FP4AOT_BF16, FP4AOT_FP16}) {
      (void)with_w4a16_few<kFormat>(
          a_dtype, tile, [&](auto config) { return prepare_w4a16_few<decltype(config)>(device, w4a16_device(1)); });
    }
  }
  (void)tensor_map_encode();
}

template struct W4a16Few<Format::kNvfp4>;
template struct W4a16Few<Format::kMxfp4>;

}  // namespace fp4aot::sm90a
