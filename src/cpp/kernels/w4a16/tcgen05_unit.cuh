// The functions of tcgen05_slot.h.
#ifndef FP4AOT_KERNELS_W4A16_TCGEN05_UNIT_CUH_
#define FP4AOT_KERNELS_W4A16_TCGEN05_UNIT_CUH_

#include "kernels/w4a16/tcgen05_launch.cuh"
#include "kernels/w4a16/tcgen05_slot.h"

namespace fp4aot {

// Calls f with the configuration of a tile, for fp32 results or others.
template <Format kFormat, bool kBf16, class F>
auto with_tcgen05(int tile, bool fp32, F f) {
  static_assert(kTcgen05TileCount == 3);
  switch (tile) {
    case 0:
      return fp32 ? f(W4a16Tcgen05Config<kFormat, kBf16, kTcgen05Tiles[0].tokens, true>{})
                  : f(W4a16Tcgen05Config<kFormat, kBf16, kTcgen05Tiles[0].tokens, false>{});
    case 1:
      return fp32 ? f(W4a16Tcgen05Config<kFormat, kBf16, kTcgen05Tiles[1].tokens, true>{})
                  : f(W4a16Tcgen05Config<kFormat, kBf16, kTcgen05Tiles[1].tokens, false>{});
    default:
      return f(W4a16Tcgen05Config<kFormat, kBf16, kTcgen05Tiles[2].tokens, false>{});
  }
}

template <Format kFormat, bool kBf16>
fp4aot_status W4a16Tcgen05Unit<kFormat, kBf16>::launch(fp4aot_gemm_w4a16_params const& p, int tactic, int sms,
                                                       Message* message) {
  constexpr char const* kName = kFormat == Format::kNvfp4 ? "gemm_w4a16_nvfp4" : "gemm_w4a16_mxfp4";
  return with_tcgen05<kFormat, kBf16>(kTcgen05Tactics[tactic].tile, p.d_dtype == FP4AOT_FP32, [&](auto config) {
    return run_tcgen05<decltype(config)>(p, kName, kTcgen05Tactics[tactic], sms, message);
  });
}

template <Format kFormat, bool kBf16>
size_t W4a16Tcgen05Unit<kFormat, kBf16>::workspace_size(fp4aot_gemm_w4a16_params const& p) {
  return tcgen05_split(p, kFormat) ? static_cast<size_t>(tcgen05_split_rows(p).bytes()) : 0;
}

template <Format kFormat, bool kBf16>
void W4a16Tcgen05Unit<kFormat, kBf16>::preload(int device) {
  for (int tile = 0; tile < kTcgen05TileCount; ++tile) {
    for (bool const fp32 : {false, true}) {
      (void)with_tcgen05<kFormat, kBf16>(tile, fp32,
                                         [&](auto config) { return prepare_tcgen05<decltype(config)>(device); });
    }
  }
  if constexpr (kFormat == Format::kMxfp4)
    preload_kernel(reinterpret_cast<void const*>(split_activations_kernel<kFormat>));
  (void)tensor_map_encode();
}

}  // namespace fp4aot

#endif
