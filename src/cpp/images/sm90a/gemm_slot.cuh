// The slots gemm_nvfp4 and gemm_mxfp4: tactics of policy.h on the kernels of kernels/gemm.
#ifndef FP4AOT_IMAGES_SM90A_GEMM_SLOT_CUH_
#define FP4AOT_IMAGES_SM90A_GEMM_SLOT_CUH_

#include <type_traits>

#include "device/multiprocessors.h"
#include "images/sm90a/policy.h"
#include "kernels/gemm/mma_sync_launch.cuh"
#include "kernels/gemm/wgmma_launch.cuh"
#include "kernels/gemm/wgmma_stream_launch.cuh"

namespace fp4aot::sm90a {

inline int multiprocessors(int device) {
  constexpr int kOfAnH200 = 132;
  return multiprocessors_of(device, kOfAnH200);
}

#define FP4AOT_CUT(tile) tile, tile "_cut"
#define FP4AOT_WARPS(tile) tile "_warps8", tile "_warps16"
constexpr char const* kGemmTacticNames[] = {
    FP4AOT_CUT("wgmma_128x64"),     FP4AOT_CUT("wgmma_128x128"),   FP4AOT_CUT("wgmma_128x192"),
    FP4AOT_CUT("wgmma_128x256"),    FP4AOT_WARPS("mma_sync_32x8"), FP4AOT_WARPS("mma_sync_32x16"),
    FP4AOT_WARPS("mma_sync_32x32"), FP4AOT_WARPS("mma_sync_56x8"), FP4AOT_WARPS("mma_sync_56x16"),
    FP4AOT_WARPS("mma_sync_56x32"), "wgmma_stream_64x16",          "wgmma_stream_128x16",
    "wgmma_stream_128x32",          "wgmma_stream_256x32",         "wgmma_stream_128x64",
    "wgmma_stream_256x64",          "wgmma_stream_128x16_cut",     "wgmma_stream_128x32_cut"};
#undef FP4AOT_CUT
#undef FP4AOT_WARPS
static_assert(sizeof kGemmTacticNames / sizeof kGemmTacticNames[0] == kGemmTacticCount);

template <Format kFormat>
struct GemmSlot {
  static constexpr char const* kName = kFormat == Format::kNvfp4 ? "gemm_nvfp4" : "gemm_mxfp4";

  // Call f with the configuration of a tile of policy.h, for fp32 results or others.
  template <class F>
  static auto with_wgmma(int tile, bool fp32, F f) {
    switch (tile) {
      case 0:
        return fp32 ? f(WgmmaConfig<kFormat, kWgmmaTiles[0].tokens, true>{})
                    : f(WgmmaConfig<kFormat, kWgmmaTiles[0].tokens>{});
      case 1:
        return fp32 ? f(WgmmaConfig<kFormat, kWgmmaTiles[1].tokens, true>{})
                    : f(WgmmaConfig<kFormat, kWgmmaTiles[1].tokens>{});
      case 2:
        return f(WgmmaConfig<kFormat, kWgmmaTiles[2].tokens>{});
      default:
        return f(WgmmaConfig<kFormat, kWgmmaTiles[3].tokens>{});
    }
  }
  template <int kTile>
  using MmaSync = MmaSyncConfig<kFormat, kMmaSyncTiles[kTile].rows / 8, kMmaSyncTiles[kTile].tokens / 8>;
  template <class F>
  static auto with_mma_sync(int tile, F f) {
    switch (tile) {
      case 0:
        return f(MmaSync<0>{});
      case 1:
        return f(MmaSync<1>{});
      case 2:
        return f(MmaSync<2>{});
      case 3:
        return f(MmaSync<3>{});
      case 4:
        return f(MmaSync<4>{});
      default:
        return f(MmaSync<5>{});
    }
  }
  template <int kTile>
  using Stream =
      WgmmaStreamConfig<kFormat, kStreamTiles[kTile].rows, kStreamTiles[kTile].tokens, kStreamTiles[kTile].slots>;
  template <class F>
  static auto with_stream(int tile, F f) {
    switch (tile) {
      case 0:
        return f(Stream<0>{});
      case 1:
        return f(Stream<1>{});
      case 2:
        return f(Stream<2>{});
      case 3:
        return f(Stream<3>{});
      case 4:
        return f(Stream<4>{});
      default:
        return f(Stream<5>{});
    }
  }
  // f takes a configuration, and std::true_type for the kernel that cuts tiles.
  template <class F>
  static auto with_any_stream(GemmTactic tactic, F f) {
    if (tactic.kernel == GemmKernel::kStream)
      return with_stream(tactic.tile, [&](auto config) { return f(config, std::false_type{}); });
    return tactic.tile == 0 ? f(Stream<kStreamCuts[0].tile>{}, std::true_type{})
                            : f(Stream<kStreamCuts[1].tile>{}, std::true_type{});
  }
  static_assert(kStreamCutCount == 2);
  static_assert(kWgmmaTileCount == 4 && kMmaSyncTileCount == 6 && kStreamTileCount == 6);

  static fp4aot_gemm_params const& cast(void const* params) { return *static_cast<fp4aot_gemm_params const*>(params); }

  static int32_t default_tactic(void const* params) {
    return gemm_default_tactic(cast(params), multiprocessors(cast(params).device.index)) + 1;
  }

  // default_tactic, remembering a thread's latest answers: weighing all tactics takes longer than a launch's other checks.
  static int32_t chosen_tactic(fp4aot_gemm_params const& p) {
    struct Answer {
      int64_t m, n, k, a_stride, b_stride;
      int32_t d_dtype, device, tactic;
    };
    constexpr int kAnswers = 64;
    static thread_local Answer answers[kAnswers];  // m = 0: none
    Answer& answer = answers[static_cast<uint64_t>(p.m * 31 + p.n * 7 + p.k / 32 + p.d_dtype) % kAnswers];
    if (answer.m != p.m || answer.n != p.n || answer.k != p.k || answer.a_stride != p.a_stride ||
        answer.b_stride != p.b_stride || answer.d_dtype != p.d_dtype || answer.device != p.device.index) {
      answer = {p.m, p.n, p.k, p.a_stride, p.b_stride, p.d_dtype, p.device.index, default_tactic(&p)};
    }
    return answer.tactic;
  }

  static int32_t number_of(fp4aot_gemm_params const& p) {
    return p.tactic == FP4AOT_TACTIC_DEFAULT ? chosen_tactic(p) : p.tactic;
  }

  static fp4aot_status check(void const* params, Message* message) {
    fp4aot_gemm_params const& p = cast(params);
    bool const k = p.k > kGemmMaxK;
    if (!k && p.b_stride <= kGemmMaxBStride) return FP4AOT_OK;
    std::snprintf(message->text, sizeof message->text, "%s = %lld, but its kernels take at most %lld",
                  k ? "k" : "b_stride", static_cast<long long>(k ? p.k : p.b_stride),
                  static_cast<long long>(k ? kGemmMaxK : kGemmMaxBStride));
    return FP4AOT_INVALID_ARGUMENT;
  }

  static size_t workspace_size(void const* params) {
    fp4aot_gemm_params const& p = cast(params);
    if (!tactic_valid(params, number_of(p))) return 0;        // the launch will be refused
    GemmTactic const tactic = gemm_tactic(number_of(p) - 1);  // policy.h counts from 0
    int const sms = multiprocessors(p.device.index);
    if (tactic.kernel == GemmKernel::kMmaSync) return 0;
    if (tactic.kernel != GemmKernel::kWgmma) {
      return with_any_stream(tactic, [&](auto config, auto cut) {
        return static_cast<size_t>(stream_workspace<decltype(config), decltype(cut)::value>(p, sms).bytes());
      });
    }
    return with_wgmma(tactic.tile, p.d_dtype == FP4AOT_FP32, [&](auto config) {
      return static_cast<size_t>(wgmma_workspace<decltype(config)>(p.m, p.k, tactic.cut, sms).bytes());
    });
  }

  static fp4aot_status launch(void const* params, Message* message) {
    fp4aot_gemm_params const& p = cast(params);
    if (p.m == 0 || p.n == 0) return FP4AOT_OK;
    int const sms = multiprocessors(p.device.index);
    GemmTactic const tactic = gemm_tactic(number_of(p) - 1);
    if (tactic.kernel == GemmKernel::kStream || tactic.kernel == GemmKernel::kStreamCut) {
      return with_any_stream(tactic, [&](auto config, auto cut) {
        int const slices = cut ? 0 : stream_slices(p, kStreamTiles[tactic.tile], sms);
        return run_wgmma_stream_gemm<decltype(config), decltype(cut)::value>(p, kName, slices, sms, message);
      });
    }
    if (tactic.kernel == GemmKernel::kMmaSync) {
      return with_mma_sync(tactic.tile, [&](auto config) {
        return run_mma_sync_gemm<decltype(config)>(p, kName, tactic.warps, sms, message);
      });
    }
    return with_wgmma(tactic.tile, p.d_dtype == FP4AOT_FP32, [&](auto config) {
      return run_wgmma_gemm<decltype(config)>(p, kName, tactic.cut, sms, message);
    });
  }

  static char const* tactic_name(int32_t tactic) {
    return tactic >= 1 && tactic <= kGemmTacticCount ? kGemmTacticNames[tactic - 1] : nullptr;
  }

  static bool tactic_valid(void const* params, int32_t tactic) { return gemm_tactic_valid(cast(params), tactic - 1); }

  static void preload() {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return;
    for (int tile = 0; tile < kWgmmaTileCount; ++tile) {
      for (bool const fp32 : {false, true}) {
        (void)with_wgmma(tile, fp32, [&](auto config) { return prepare_wgmma_gemm<decltype(config)>(device); });
      }
    }
    preload_kernel(reinterpret_cast<void const*>(expand_activations_kernel<kFormat>));
    for (int tile = 0; tile < kMmaSyncTileCount; ++tile) {
      (void)with_mma_sync(tile, [&](auto config) { return prepare_mma_sync_gemm<decltype(config)>(device); });
    }
    preload_kernel(reinterpret_cast<void const*>(expand_stream_operands_kernel<kFormat>));
    for (int number = kStreamFirst; number < kGemmTacticCount; ++number) {
      (void)with_any_stream(gemm_tactic(number), [&](auto config, auto cut) {
        return prepare_wgmma_stream_gemm<decltype(config), decltype(cut)::value>(device);
      });
    }
    (void)tensor_map_encode();
  }

  static constexpr Slot kSlot = {launch,       workspace_size, kGemmTacticCount, tactic_name,
                                 tactic_valid, default_tactic, preload,          check};
};

}  // namespace fp4aot::sm90a

#endif
