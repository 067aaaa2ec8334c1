// What sm90a's rule says about gemm_w4a16_*, for test_w4a16_choice.py: as W4a16GemmSlot::choose weighs tactics.
#include "images/sm90a/w4a16_few.h"
#include "images/sm90a/w4a16_wgmma_policy.h"
#include "kernels/w4a16/rule.h"

namespace {

using namespace fp4aot;
using namespace fp4aot::sm90a;

constexpr int kMultiprocessors = 132;  // of an H200
constexpr W4a16Device kDevice = w4a16_device(kMultiprocessors);

fp4aot_gemm_w4a16_params problem(int64_t m, int64_t n, int64_t k, int a_dtype, int d_dtype) {
  fp4aot_gemm_w4a16_params p = {};
  p.m = m;
  p.n = n;
  p.k = k;
  p.a_stride = k;
  p.a_dtype = a_dtype;
  p.d_dtype = d_dtype;
  return p;
}

Format format_of(int mxfp4) { return mxfp4 ? Format::kMxfp4 : Format::kNvfp4; }

}  // namespace

extern "C" {

int tactics() { return kW4a16MmaSyncTactics + kW4a16WgmmaTactics + kW4a16FewTactics; }

char const* name(int tactic) {
  if (tactic < kW4a16MmaSyncTactics) return kW4a16MmaSyncNames[tactic];
  tactic -= kW4a16MmaSyncTactics;  // the wgmma tactics, then the few-row ones, in whatever order the image has them
  return tactic < kW4a16WgmmaTactics ? kW4a16WgmmaNames[tactic] : kW4a16FewNames[tactic - kW4a16WgmmaTactics];
}

uint32_t shared_of_launch(uint32_t flags, int64_t ctas, int ctas_log2, uint32_t bytes) {
  return launch_shared(flags, ctas, ctas_log2, kMultiprocessors, kDevice.shared, bytes);
}

// Nanoseconds; -1 for a tactic that is not valid.
int64_t cost(int mxfp4, int64_t m, int64_t n, int64_t k, int a_dtype, int d_dtype, int tactic) {
  Format const format = format_of(mxfp4);
  fp4aot_gemm_w4a16_params const p = problem(m, n, k, a_dtype, d_dtype);
  if (tactic < kW4a16MmaSyncTactics) {
    if (!w4a16_mma_sync_valid(format, p, tactic, kDevice)) return -1;
    return w4a16_plan(format, p, tactic, kDevice).cost / 1000;
  }
  tactic -= kW4a16MmaSyncTactics;
  if (tactic < kW4a16WgmmaTactics) {
    return w4a16_wgmma_valid(p, tactic) ? w4a16_wgmma_cost(p, format, tactic, kMultiprocessors) : -1;
  }
  tactic -= kW4a16WgmmaTactics;
  if (!w4a16_few_valid(p, format, tactic, kMultiprocessors)) return -1;
  return w4a16_few_cost(p, format, tactic, kMultiprocessors);
}
}
