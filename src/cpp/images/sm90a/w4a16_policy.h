// gemm_w4a16_* on sm90a: the kernels of kernels/w4a16/mma_sync.cuh, whose tactics come first (rule.h), those of
// w4a16_wgmma_policy.h and those of w4a16_few.h.
#ifndef FP4AOT_IMAGES_SM90A_W4A16_POLICY_H_
#define FP4AOT_IMAGES_SM90A_W4A16_POLICY_H_

#include "device/multiprocessors.h"
#include "images/sm90a/w4a16_few.h"
#include "images/sm90a/w4a16_wgmma.h"
#include "kernels/w4a16/rule.h"

namespace fp4aot::sm90a {

template <Format kFormat>
struct W4a16Policy {
  using Params = fp4aot_gemm_w4a16_params;
  static constexpr int kMultiprocessors = 132;  // of an H200
  static constexpr W4a16Device device(int sms) { return w4a16_device(sms); }

  // Those of w4a16_wgmma_policy.h that came first, those of w4a16_few.h, the others of w4a16_wgmma_policy.h.
  static constexpr int kOthers = kW4a16WgmmaTactics + kW4a16FewTactics;
  static constexpr int few(int tactic) {  // negative: none
    return tactic < kW4a16WgmmaFirstSplit + kW4a16FewTactics ? tactic - kW4a16WgmmaFirstSplit : -1;
  }
  static constexpr int wgmma(int tactic) { return tactic < kW4a16WgmmaFirstSplit ? tactic : tactic - kW4a16FewTactics; }

  static char const* other_name(int tactic) {
    return few(tactic) >= 0 ? kW4a16FewNames[few(tactic)] : kW4a16WgmmaNames[wgmma(tactic)];
  }
  static bool other_valid(Params const& p, int tactic) {
    if (few(tactic) < 0) return w4a16_wgmma_valid(p, wgmma(tactic));
    return w4a16_few_valid(p, kFormat, few(tactic), multiprocessors_of(p.device.index, kMultiprocessors));
  }
  static int64_t other_cost(Params const& p, int tactic, int sms) {
    return few(tactic) >= 0 ? w4a16_few_cost(p, kFormat, few(tactic), sms)
                            : w4a16_wgmma_cost(p, kFormat, wgmma(tactic), sms);
  }
  static fp4aot_status other_launch(Params const& p, int tactic, int sms, Message* message) {
    return few(tactic) >= 0 ? W4a16Few<kFormat>::launch(p, few(tactic), sms, message)
                            : W4a16Wgmma<kFormat>::launch(p, wgmma(tactic), sms, message);
  }
  static size_t other_workspace(Params const& p, int tactic, int sms) {
    return few(tactic) >= 0 ? 0 : W4a16Wgmma<kFormat>::workspace_size(p, wgmma(tactic), sms);
  }
  static void other_preload(int device) {
    W4a16Wgmma<kFormat>::preload(device);
    W4a16Few<kFormat>::preload(device);
  }
};

}  // namespace fp4aot::sm90a

#endif
