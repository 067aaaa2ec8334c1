// gemm_w4a16_* on the kernel of tcgen05.cuh, in units of their own (tcgen05_unit.cuh): what the ops' slots call.
#ifndef FP4AOT_KERNELS_W4A16_TCGEN05_SLOT_H_
#define FP4AOT_KERNELS_W4A16_TCGEN05_SLOT_H_

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "images/image.h"
#include "kernels/w4a16/rule.h"
#include "kernels/w4a16/tcgen05_rule.h"

namespace fp4aot {

// Products whose operands are bf16 (kBf16) or fp16. tactic: of tcgen05_rule.h, a valid one.
template <Format kFormat, bool kBf16>
struct W4a16Tcgen05Unit {
  static fp4aot_status launch(fp4aot_gemm_w4a16_params const& p, int tactic, int sms, Message* message);
  static size_t workspace_size(fp4aot_gemm_w4a16_params const& p);
  static void preload(int device);
};
extern template struct W4a16Tcgen05Unit<Format::kNvfp4, true>;
extern template struct W4a16Tcgen05Unit<Format::kNvfp4, false>;
extern template struct W4a16Tcgen05Unit<Format::kMxfp4, true>;

// Policy of W4a16GemmSlot (slot.cuh) for an image that has both kernels. kMultiprocessorsValue: of the chip, if the runtime
// does not say.
template <Format kFormat, int kMultiprocessorsValue>
struct W4a16WithTcgen05 {
  using Params = fp4aot_gemm_w4a16_params;
  static constexpr int kMultiprocessors = kMultiprocessorsValue;
  // Two CTAs of the mma.sync kernel a multiprocessor.
  static constexpr W4a16Device device(int sms) { return {sms, kMultiprocessorShared, 110 * 1024}; }

  static constexpr int kOthers = kTcgen05TacticCount;
  static char const* other_name(int tactic) { return kTcgen05Tactics[tactic].name; }
  static bool other_valid(Params const& p, int tactic) { return tcgen05_valid(p, tactic); }
  static int64_t other_cost(Params const& p, int tactic, int sms) { return tcgen05_cost(p, kFormat, tactic, sms); }
  static fp4aot_status other_launch(Params const& p, int tactic, int sms, Message* message) {
    return with_unit(p.a_dtype, [&](auto unit) { return unit.launch(p, tactic, sms, message); });
  }
  static size_t other_workspace(Params const& p, int, int) {
    return with_unit(p.a_dtype, [&](auto unit) { return unit.workspace_size(p); });
  }
  static void other_preload(int device) {
    W4a16Tcgen05Unit<kFormat, true>::preload(device);
    if constexpr (kFormat == Format::kNvfp4) W4a16Tcgen05Unit<kFormat, false>::preload(device);
  }

 private:
  // f(unit) for the type of activations. Those of MXFP4 are always bf16 in the end.
  template <class F>
  static auto with_unit(int32_t a_dtype, F f) {
    if constexpr (kFormat == Format::kNvfp4) {
      if (a_dtype == FP4AOT_FP16) return f(W4a16Tcgen05Unit<kFormat, false>{});
    }
    return f(W4a16Tcgen05Unit<kFormat, true>{});
  }
};

}  // namespace fp4aot

#endif
