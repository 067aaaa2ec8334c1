// The slots gemm_nvfp4 and gemm_mxfp4 of an image on CUTLASS's kernels.
#ifndef FP4AOT_KERNELS_GEMM_CUTLASS_SLOT_CUH_
#define FP4AOT_KERNELS_GEMM_CUTLASS_SLOT_CUH_

#include <memory>
#include <utility>

#include "device/multiprocessors.h"
#include "kernels/gemm/cutlass_rule.h"
#include "kernels/gemm/cutlass_table.h"
#include "kernels/gemm/launch_blocks.h"
#include "kernels/gemm/reduce_slices.cuh"

namespace fp4aot {

template <class Policy, Format kFormat>
struct CutlassGemmSlot {
  using Rule = CutlassRule<Policy, kFormat>;
  struct Kernels {
    CutlassGemmKernel const* of_tile[Policy::kTileCount];
  };
  template <int... kIndex>
  static constexpr Kernels kernels(std::integer_sequence<int, kIndex...>) {
    return {{&GemmKernelOf<kFormat, kIndex>::kKernel...}};
  }
  static constexpr Kernels kKernels = kernels(std::make_integer_sequence<int, Policy::kTileCount>{});
  static constexpr char const* kName = kFormat == Format::kNvfp4 ? "gemm_nvfp4" : "gemm_mxfp4";

  static fp4aot_gemm_params const& cast(void const* params) { return *static_cast<fp4aot_gemm_params const*>(params); }

  // Remembers a thread's latest answers: a call asks twice, and weighing all kernels takes longer than other checks.
  static int32_t default_tactic(void const* params) {
    fp4aot_gemm_params const& p = cast(params);
    struct Answer {
      int64_t m, n, k, d_stride;
      int32_t d_dtype, d_place, device, tactic;
    };
    constexpr int kAnswers = 64;
    static thread_local Answer answers[kAnswers];  // m = 0: none
    auto const mixed =
        static_cast<uint64_t>(p.m) * 31 + static_cast<uint64_t>(p.n) * 7 + static_cast<uint64_t>(p.k / 32);
    Answer& answer = answers[(mixed + static_cast<uint64_t>(p.d_dtype)) % kAnswers];
    auto const place = static_cast<int32_t>(reinterpret_cast<uintptr_t>(p.d) % store_alignment(Store::kWide));
    if (answer.m != p.m || answer.n != p.n || answer.k != p.k || answer.d_stride != p.d_stride ||
        answer.d_dtype != p.d_dtype || answer.d_place != place || answer.device != p.device.index) {
      int32_t const number = Rule::default_number(p, multiprocessors_of(p.device.index, Policy::kSms));
      answer = {p.m, p.n, p.k, p.d_stride, p.d_dtype, place, p.device.index, number + 1};
    }
    return answer.tactic;
  }

  static CutlassTactic chosen(fp4aot_gemm_params const& p) {
    return Rule::tactic((p.tactic == FP4AOT_TACTIC_DEFAULT ? default_tactic(&p) : p.tactic) - 1);
  }

  static size_t workspace_size(void const* params) {
    fp4aot_gemm_params const& p = cast(params);
    if (p.m == 0 || p.n == 0) return 0;
    // A tactic that is not valid is refused later, with a sentence.
    if (p.tactic != FP4AOT_TACTIC_DEFAULT && !Rule::valid(p, p.tactic - 1)) return 0;
    int const slices = chosen(p).slices;
    return slices > 1 ? static_cast<size_t>(p.m * p.n) * sizeof(float) * slices : 0;
  }

  static fp4aot_status check(void const* params, Message* message) {
    CutlassExcess const excess = cutlass_excess(cast(params));
    if (excess.name == nullptr) return FP4AOT_OK;
    std::snprintf(message->text, sizeof message->text, "%s = %lld, but its kernels take at most %lld", excess.name,
                  static_cast<long long>(excess.value), static_cast<long long>(excess.most));
    return FP4AOT_INVALID_ARGUMENT;
  }

  static fp4aot_status launch(void const* params, Message* message) {
    fp4aot_gemm_params const& p = cast(params);
    if (p.m == 0 || p.n == 0) return FP4AOT_OK;
    CutlassTactic const t = chosen(p);
    CutlassTile const& tile = Policy::kTiles[t.kernel];
    CutlassGemmKernel const& kernel = *kKernels.of_tile[t.kernel];
    if (t.slices > 1) {
      CutlassGemmCall const call = {p, t.slices, t.cluster_m, t.cluster_n, t.along_n};
      fp4aot_status const status = kernel.run[FP4AOT_FP32 - FP4AOT_BF16](call, kName, message);
      return status == FP4AOT_OK ? reduce_slices(p, t.slices, kName, message) : status;
    }
    int64_t const max_m = cutlass_max_rows(tile, p.k, false), max_n = cutlass_max_rows(tile, p.k, true);
    return for_each_launch<kFormat>(
        p, max_m,
        [&](fp4aot_gemm_params const& part) {
          return kernel.run[p.d_dtype - FP4AOT_BF16]({part, 1, t.cluster_m, t.cluster_n, t.along_n}, kName, message);
        },
        max_n);
  }

  // Built at the first question.
  static char const* tactic_name(int32_t tactic) {
    if (tactic < 1 || tactic > Rule::kTacticCount) return nullptr;
    struct Names {
      char text[Rule::kTacticCount][80];
    };
    static std::unique_ptr<Names> const names = [] {
      auto all = std::make_unique<Names>();
      for (int i = 0; i < Rule::kTacticCount; ++i) {
        CutlassTactic const t = Rule::tactic(i);
        int at = std::snprintf(all->text[i], sizeof all->text[i], "%s", Policy::kTiles[t.kernel].name);
        auto const append = [&](char const* format, int a, int b) {
          at += std::snprintf(all->text[i] + at, sizeof all->text[i] - at, format, a, b);
        };
        if (t.cluster_m * t.cluster_n > 1) append("_cluster%dx%d", t.cluster_m, t.cluster_n);
        if (t.along_n) append("_along_n", 0, 0);
        if (t.slices > 1) append("_splitk%d", t.slices, 0);
      }
      return all;
    }();
    return names->text[tactic - 1];
  }

  static bool tactic_valid(void const* params, int32_t tactic) { return Rule::valid(cast(params), tactic - 1); }

  static void preload() {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return;
    for (CutlassGemmKernel const* kernel : kKernels.of_tile) {
      for (auto const prepare : kernel->prepare) (void)prepare(device);
    }
    preload_kernel(reinterpret_cast<void const*>(&reduce_slices_kernel));
  }

  static constexpr Slot kSlot = {launch,  workspace_size, Rule::kTacticCount, tactic_name, tactic_valid, default_tactic,
                                 preload, check};
};

}  // namespace fp4aot

#endif
