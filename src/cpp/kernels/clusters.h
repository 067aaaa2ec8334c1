// How many clusters a GPU runs at once, for host and device.
#ifndef FP4AOT_KERNELS_CLUSTERS_H_
#define FP4AOT_KERNELS_CLUSTERS_H_

#include <algorithm>
#include <cstdint>

namespace fp4aot {

// Clusters of 2^ctas_log2 CTAs that run at once with `resident` CTAs a multiprocessor. Larger ones lie within a GPC, so
// that some multiprocessors are left over: on an H200 30 clusters of 4 run at once, not 33.
constexpr int64_t clusters_at_once(int ctas_log2, int resident, int sms) {
  int64_t const ctas = int64_t{resident} * sms;
  return std::max<int64_t>((ctas_log2 > 1 ? ctas * 15 / 16 : ctas) >> ctas_log2, 1);
}

}  // namespace fp4aot

#endif
