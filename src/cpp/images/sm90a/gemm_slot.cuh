// The slots gemm_nvfp4 and gemm_mxfp4: tactics of policy.h on the kernels of wgmma_launch.cuh.
#ifndef FP4AOT_IMAGES_SM90A_GEMM_SLOT_CUH_
#define FP4AOT_IMAGES_SM90A_GEMM_SLOT_CUH_

#include <atomic>

#include "images/sm90a/policy.h"
#include "kernels/gemm/wgmma_launch.cuh"

namespace fp4aot::sm90a {

inline int multiprocessors(int device) {
  static std::atomic<int> known[64];
  if (device < 64) {
    int const count = known[device].load(std::memory_order_relaxed);
    if (count > 0) return count;
  }
  int count = 0;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess || count <= 0) {
    (void)cudaGetLastError();
    return 132;
  }
  if (device < 64) known[device].store(count, std::memory_order_relaxed);
  return count;
}

#define FP4AOT_SPLITS(tile)                                                                                             \
  tile, tile "_splitk2", tile "_splitk3", tile "_splitk4", tile "_splitk5", tile "_splitk6", tile "_splitk7", tile "_splitk8"
constexpr char const* kGemmTacticNames[] = {FP4AOT_SPLITS("wgmma_256x8"), FP4AOT_SPLITS("wgmma_256x16"),
                                            FP4AOT_SPLITS("wgmma_256x32"), FP4AOT_SPLITS("wgmma_256x64"),
                                            FP4AOT_SPLITS("wgmma_256x128")};
#undef FP4AOT_SPLITS
static_assert(sizeof kGemmTacticNames / sizeof kGemmTacticNames[0] == kGemmTacticCount);

template <Format kFormat>
struct GemmSlot {
  static constexpr char const* kName = kFormat == Format::kNvfp4 ? "gemm_nvfp4" : "gemm_mxfp4";

  // Calls f(WgmmaConfig) for the tile with this many tokens.
  template <class F>
  static auto with_config(int tokens, F f) {
    switch (tokens) {
      case 8: return f(WgmmaConfig<kFormat, 8>{});
      case 16: return f(WgmmaConfig<kFormat, 16>{});
      case 32: return f(WgmmaConfig<kFormat, 32>{});
      case 64: return f(WgmmaConfig<kFormat, 64>{});
      default: return f(WgmmaConfig<kFormat, 128>{});
    }
  }

  static fp4aot_gemm_params const& cast(void const* params) { return *static_cast<fp4aot_gemm_params const*>(params); }

  static int32_t default_tactic(void const* params) {
    return gemm_default_tactic(cast(params), multiprocessors(cast(params).device.index));
  }

  static fp4aot_status launch(void const* params, Message* message) {
    fp4aot_gemm_params const& p = cast(params);
    if (p.m == 0 || p.n == 0) return FP4AOT_OK;
    int const sms = multiprocessors(p.device.index);
    int32_t const tactic = p.tactic == FP4AOT_TACTIC_DEFAULT ? gemm_default_tactic(p, sms) : p.tactic;
    return with_config(gemm_tile(tactic).tokens, [&](auto config) {
      return run_wgmma_gemm<decltype(config)>(p, kName, gemm_splits(tactic), sms, message);
    });
  }

  static char const* tactic_name(int32_t tactic) {
    return tactic >= 0 && tactic < kGemmTacticCount ? kGemmTacticNames[tactic] : nullptr;
  }

  static bool tactic_valid(void const* params, int32_t tactic) { return gemm_tactic_valid(cast(params), tactic); }

  static void preload() {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return;
    for (GemmTile const& tile : kGemmTiles) {
      (void)with_config(tile.tokens, [&](auto config) { return prepare_wgmma_gemm<decltype(config)>(device); });
    }
    (void)tensor_map_encode();
  }

  static constexpr Slot kSlot = {launch, nullptr, kGemmTacticCount, tactic_name, tactic_valid, default_tactic, preload};
};

}  // namespace fp4aot::sm90a

#endif
