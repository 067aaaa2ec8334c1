// gemm_w4a16_* on the wgmma kernel, in units of their own (w4a16_wgmma_*.cu): what the ops' slots call.
#ifndef FP4AOT_IMAGES_SM90A_W4A16_WGMMA_H_
#define FP4AOT_IMAGES_SM90A_W4A16_WGMMA_H_

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "images/image.h"
#include "images/sm90a/w4a16_wgmma_policy.h"

namespace fp4aot::sm90a {

// Products whose operands are bf16 (kBf16) or fp16. tactic: of w4a16_wgmma_policy.h, a valid one.
template <Format kFormat, bool kBf16>
struct W4a16WgmmaUnit {
  static fp4aot_status launch(fp4aot_gemm_w4a16_params const& p, int tactic, int sms, Message* message);
  static size_t workspace_size(fp4aot_gemm_w4a16_params const& p, int tactic, int sms);
  static void preload(int device);
};
extern template struct W4a16WgmmaUnit<Format::kNvfp4, true>;
extern template struct W4a16WgmmaUnit<Format::kNvfp4, false>;
extern template struct W4a16WgmmaUnit<Format::kMxfp4, true>;

// The unit for a format and the type of its activations.
template <Format kFormat>
struct W4a16Wgmma {
  // f(unit)
  template <class F>
  static auto with_unit(int32_t a_dtype, F f) {
    if constexpr (kFormat == Format::kNvfp4) {
      if (a_dtype == FP4AOT_FP16) return f(W4a16WgmmaUnit<kFormat, false>{});
    }
    return f(W4a16WgmmaUnit<kFormat, true>{});
  }

  static fp4aot_status launch(fp4aot_gemm_w4a16_params const& p, int tactic, int sms, Message* message) {
    return with_unit(p.a_dtype, [&](auto unit) { return unit.launch(p, tactic, sms, message); });
  }
  static size_t workspace_size(fp4aot_gemm_w4a16_params const& p, int tactic, int sms) {
    return with_unit(p.a_dtype, [&](auto unit) { return unit.workspace_size(p, tactic, sms); });
  }
  static void preload(int device) {
    for (int32_t const a_dtype : {FP4AOT_BF16, FP4AOT_FP16}) {
      with_unit(a_dtype, [&](auto unit) { unit.preload(device); });
    }
  }
};

}  // namespace fp4aot::sm90a

#endif
