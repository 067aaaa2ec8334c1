// The slots of the W4A16 kernel of mma_sync.cuh, for any image. Policy says what the image has:
//   kMultiprocessors, device(sms)      of the chip, if the runtime does not say; W4a16Device
//   kOthers                            tactics of other kernels, that follow those of rule.h: 0 for none
//   other_name, other_valid, other_cost (nanoseconds), other_launch, other_workspace, other_preload
#ifndef FP4AOT_KERNELS_W4A16_SLOT_CUH_
#define FP4AOT_KERNELS_W4A16_SLOT_CUH_

#include "device/multiprocessors.h"
#include "kernels/w4a16/mma_sync_launch.cuh"
#include "kernels/w4a16/rule.h"

namespace fp4aot {

template <Format kFormat, class Policy>
struct W4a16GemmSlot {
  using Params = fp4aot_gemm_w4a16_params;
  static constexpr char const* kName = kFormat == Format::kNvfp4 ? "gemm_w4a16_nvfp4" : "gemm_w4a16_mxfp4";
  static constexpr int kTactics = kW4a16MmaSyncTactics + Policy::kOthers;

  template <bool kBf16, int kTile>
  using Config = W4a16Config<kFormat, kBf16, kW4a16Tiles[kTile].tile.token_tiles, kW4a16Tiles[kTile].tile.row_tiles>;

  // f(config) of a tactic's tile.
  template <bool kBf16, class F>
  static auto with_tile(int tile, F f) {
    switch (tile) {
      case 0:
        return f(Config<kBf16, 0>{});
      case 1:
        return f(Config<kBf16, 1>{});
      default:
        return f(Config<kBf16, 2>{});
    }
  }
  static_assert(kW4a16TileCount == 3);
  template <class F>
  static auto with_config(int32_t a_dtype, int tile, F f) {
    return a_dtype == FP4AOT_BF16 ? with_tile<true>(tile, f) : with_tile<false>(tile, f);
  }

  static Params const& cast(void const* params) { return *static_cast<Params const*>(params); }
  static int sms_of(Params const& p) { return multiprocessors_of(p.device.index, Policy::kMultiprocessors); }

  static bool valid(Params const& p, int tactic) {
    if (tactic >= kW4a16MmaSyncTactics) return Policy::other_valid(p, tactic - kW4a16MmaSyncTactics);
    return w4a16_mma_sync_valid(kFormat, p, tactic, Policy::device(sms_of(p)));
  }

  // The cheapest valid tactic; the first of equals.
  static int32_t choose(Params const& p) {
    int const sms = sms_of(p);
    int32_t best = 0;
    int64_t best_cost = INT64_MAX;
    for (int32_t tactic = 0; tactic < kTactics; ++tactic) {
      if (!valid(p, tactic)) continue;
      int64_t const cost = tactic < kW4a16MmaSyncTactics
                               ? w4a16_plan(kFormat, p, tactic, Policy::device(sms)).cost / 1000
                               : Policy::other_cost(p, tactic - kW4a16MmaSyncTactics, sms);
      if (cost < best_cost) best = tactic, best_cost = cost;
    }
    return best;
  }

  // choose, remembering a thread's latest answers: weighing all tactics takes longer than a launch's other checks.
  static int32_t chosen(Params const& p) {
    struct Answer {
      int64_t m, n, k, a_stride;
      int32_t a_dtype, d_dtype, device, tactic;
    };
    constexpr int kAnswers = 64;
    static thread_local Answer answers[kAnswers];  // m = 0: none
    Answer& answer = answers[static_cast<uint64_t>(p.m * 31 + p.n * 7 + p.k / 16 + p.a_dtype + p.d_dtype) % kAnswers];
    if (answer.m != p.m || answer.n != p.n || answer.k != p.k || answer.a_stride != p.a_stride ||
        answer.a_dtype != p.a_dtype || answer.d_dtype != p.d_dtype || answer.device != p.device.index) {
      answer = {p.m, p.n, p.k, p.a_stride, p.a_dtype, p.d_dtype, p.device.index, choose(p)};
    }
    return answer.tactic;
  }
  static int32_t number_of(Params const& p) { return p.tactic == FP4AOT_TACTIC_DEFAULT ? chosen(p) : p.tactic - 1; }

  static fp4aot_status check(void const* params, Message* message) {
    Params const& p = cast(params);
    if (p.k <= kW4a16MaxK) return FP4AOT_OK;
    std::snprintf(message->text, sizeof message->text, "k = %lld, but its kernels take at most %lld",
                  static_cast<long long>(p.k), static_cast<long long>(kW4a16MaxK));
    return FP4AOT_INVALID_ARGUMENT;
  }

  static size_t workspace_size(void const* params) {
    Params const& p = cast(params);
    int const tactic = number_of(p);
    if (tactic < kW4a16MmaSyncTactics || !valid(p, tactic)) return 0;
    return Policy::other_workspace(p, tactic - kW4a16MmaSyncTactics, sms_of(p));
  }

  static fp4aot_status launch(void const* params, Message* message) {
    Params const& p = cast(params);
    if (p.m == 0 || p.n == 0) return FP4AOT_OK;
    int const sms = sms_of(p), tactic = number_of(p);
    if (tactic >= kW4a16MmaSyncTactics) {
      return Policy::other_launch(p, tactic - kW4a16MmaSyncTactics, sms, message);
    }
    W4a16Device const device = Policy::device(sms);
    return with_config(p.a_dtype, tactic / kW4a16ClusterSizes, [&](auto config) {
      return run_w4a16_mma_sync<decltype(config)>(p, kName, tactic, device, message);
    });
  }

  static char const* tactic_name(int32_t tactic) {
    if (tactic < 1 || tactic > kTactics) return nullptr;
    int const number = tactic - 1;
    return number < kW4a16MmaSyncTactics ? kW4a16MmaSyncNames[number]
                                         : Policy::other_name(number - kW4a16MmaSyncTactics);
  }

  static bool tactic_valid(void const* params, int32_t tactic) { return valid(cast(params), tactic - 1); }

  static int32_t default_tactic(void const* params) { return choose(cast(params)) + 1; }

  static void preload() {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return;
    for (int tile = 0; tile < kW4a16TileCount; ++tile) {
      for (int32_t const a_dtype : {FP4AOT_BF16, FP4AOT_FP16}) {
        (void)with_config(a_dtype, tile, [&](auto config) {
          return prepare_w4a16_mma_sync<decltype(config)>(device, Policy::device(1));
        });
      }
    }
    Policy::other_preload(device);
  }

  static constexpr Slot kSlot = {launch,       workspace_size, kTactics, tactic_name,
                                 tactic_valid, default_tactic, preload,  check};
};

}  // namespace fp4aot

// The slot gemm_w4a16_<format>; Policy: a template over the format.
#define FP4AOT_DEFINE_W4A16_GEMM(format, Format_, Policy)                          \
  namespace fp4aot::ops {                                                          \
  extern Slot const gemm_w4a16_##format;                                           \
  Slot const gemm_w4a16_##format = W4a16GemmSlot<Format_, Policy<Format_>>::kSlot; \
  }

#endif
