// gemm_w4a16_* on sm90a: the kernels of kernels/w4a16/mma_sync.cuh, whose tactics come first (rule.h), and those of
// w4a16_wgmma_policy.h.
#ifndef FP4AOT_IMAGES_SM90A_W4A16_POLICY_H_
#define FP4AOT_IMAGES_SM90A_W4A16_POLICY_H_

#include "images/sm90a/w4a16_wgmma.h"
#include "kernels/w4a16/rule.h"

namespace fp4aot::sm90a {

template <Format kFormat>
struct W4a16Policy {
  using Params = fp4aot_gemm_w4a16_params;
  static constexpr int kMultiprocessors = 132;  // of an H200
  // Two CTAs a multiprocessor: of this kernel, or of the next one in a chain.
  static constexpr W4a16Device device(int sms) { return {sms, 228 * 1024, 110 * 1024}; }

  static constexpr int kOthers = kW4a16WgmmaTactics;
  static char const* other_name(int tactic) { return kW4a16WgmmaNames[tactic]; }
  static bool other_valid(Params const& p, int tactic) { return w4a16_wgmma_valid(p, tactic); }
  static int64_t other_cost(Params const& p, int tactic, int sms) { return w4a16_wgmma_cost(p, kFormat, tactic, sms); }
  static fp4aot_status other_launch(Params const& p, int tactic, int sms, Message* message) {
    return W4a16Wgmma<kFormat>::launch(p, tactic, sms, message);
  }
  static size_t other_workspace(Params const& p, int tactic, int sms) {
    return W4a16Wgmma<kFormat>::workspace_size(p, tactic, sms);
  }
  static void other_preload(int device) { W4a16Wgmma<kFormat>::preload(device); }
};

}  // namespace fp4aot::sm90a

#endif
