// What a GPU's multiprocessors hold at once, for host and device.
#ifndef FP4AOT_KERNELS_RESIDENCY_H_
#define FP4AOT_KERNELS_RESIDENCY_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/fp4aot.h"

namespace fp4aot {

// Bytes of shared memory of a multiprocessor of sm_90, sm_100 and sm_103, of which every CTA takes 1 KB besides its own.
constexpr uint32_t kMultiprocessorShared = 228 * 1024;

// Clusters of 2^ctas_log2 CTAs that run at once with `resident` CTAs a multiprocessor. Larger ones lie within a GPC, so
// that some multiprocessors are left over: on an H200 30 clusters of 4 run at once, not 33.
constexpr int64_t clusters_at_once(int ctas_log2, int resident, int sms) {
  int64_t const ctas = int64_t{resident} * sms;
  return std::max<int64_t>((ctas_log2 > 1 ? ctas * 15 / 16 : ctas) >> ctas_log2, 1);
}

// Dynamic shared memory that no two CTAs of a multiprocessor can have.
constexpr uint32_t shared_alone(uint32_t multiprocessor_shared) { return multiprocessor_shared / 2; }

// Dynamic shared memory of a launch of clusters of 2^ctas_log2 that needs `bytes`; at most that or shared_alone. In a
// chain of launches that start early (PDL), no two CTAs of a kernel may be on one multiprocessor if with one on each all
// run at once: those that wait go where the kernel before has left most room, two to one and none to another. An H200
// then took up to 1.6 times as long as without.
constexpr uint32_t launch_shared(uint32_t flags, int64_t ctas, int ctas_log2, int sms, uint32_t multiprocessor_shared,
                                 uint32_t bytes) {
  bool const fits = ctas <= clusters_at_once(ctas_log2, 1, sms) << ctas_log2;
  return (flags & FP4AOT_FLAG_PDL) != 0 && fits ? std::max(bytes, shared_alone(multiprocessor_shared)) : bytes;
}

}  // namespace fp4aot

#endif
