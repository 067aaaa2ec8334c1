// Host side of every W4A4 kernel: its arguments, and problems too large for one launch.
#ifndef FP4AOT_KERNELS_GEMM_LAUNCH_BLOCKS_H_
#define FP4AOT_KERNELS_GEMM_LAUNCH_BLOCKS_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "device/memory.cuh"
#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "images/image.h"
#include "kernels/gemm/args.h"

namespace fp4aot {

// Rows of A and of B in one launch: multiples of every tile and of a scale atom, and few enough to count tiles in int32.
constexpr int64_t kMaxLaunchM = int64_t{1} << 23, kMaxLaunchN = int64_t{1} << 18;

inline GemmArgs gemm_args(fp4aot_gemm_params const& p) {
  GemmArgs args = {};
  args.a_codes = p.a_codes;
  args.b_codes = p.b_codes;
  args.a_stride = p.a_stride;
  args.b_stride = p.b_stride;
  args.a_scales = p.a_scales;
  args.b_scales = p.b_scales;
  args.alpha = p.alpha;
  args.bias = p.bias;
  args.d = p.d;
  args.d_stride = p.d_stride;
  args.m = static_cast<int32_t>(p.m);
  args.n = static_cast<int32_t>(p.n);
  args.k = static_cast<int32_t>(p.k);
  args.d_dtype = p.d_dtype;
  args.bias_dtype = p.bias_dtype;
  args.aligned_stores = rows_aligned(p.d, p.d_stride * element_bytes(p.d_dtype), 4 * element_bytes(p.d_dtype));
  return args;
}

inline fp4aot_status gemm_failed(Message* message, char const* op, char const* what, int error, char const* name) {
  (void)cudaGetLastError();  // leave no error behind for the caller's next CUDA call
  std::snprintf(message->text, sizeof message->text, "%s: %s failed with error %d (%s)", op, what, error, name);
  return FP4AOT_LAUNCH_FAILED;
}

// Runs a kernel's set-up once a device. It may run twice if two threads race, so it must be harmless to repeat.
class PreparedDevices {
 public:
  template <class SetUp>
  cudaError_t once(int device, SetUp set_up) {
    uint64_t const bit = device < 64 ? uint64_t{1} << device : 0;
    if ((devices_.load(std::memory_order_acquire) & bit) != 0) return cudaSuccess;
    cudaError_t const error = set_up();
    if (error == cudaSuccess) devices_.fetch_or(bit, std::memory_order_release);
    return error;
  }

 private:
  std::atomic<uint64_t> devices_{0};
};

// Rows [m0, m0 + count) of A and D, as far as there are; m0: a multiple of 128.
template <Format kFormat>
fp4aot_gemm_params rows_of(fp4aot_gemm_params const& p, int64_t m0, int64_t count) {
  fp4aot_gemm_params part = p;
  part.m = std::min(p.m - m0, count);
  part.a_codes += m0 * p.a_stride;
  part.a_scales += m0 * round_up(p.k / kVector<kFormat>, kScaleAtomColumns);
  part.d = static_cast<uint8_t*>(p.d) + m0 * p.d_stride * element_bytes(p.d_dtype);
  return part;
}

// Columns [n0, n0 + count) of D, and rows of B; n0: a multiple of 128.
template <Format kFormat>
fp4aot_gemm_params columns_of(fp4aot_gemm_params const& p, int64_t n0, int64_t count) {
  fp4aot_gemm_params part = p;
  part.n = std::min(p.n - n0, count);
  part.b_codes += n0 * p.b_stride;
  part.b_scales += n0 * round_up(p.k / kVector<kFormat>, kScaleAtomColumns);
  if (p.bias != nullptr) part.bias = static_cast<uint8_t const*>(p.bias) + n0 * element_bytes(p.bias_dtype);
  part.d = static_cast<uint8_t*>(p.d) + n0 * element_bytes(p.d_dtype);
  return part;
}

// Calls launch(part) for blocks of at most max_m x max_n results until one fails. Both are multiples of 128.
template <Format kFormat, class Launch>
fp4aot_status for_each_launch(fp4aot_gemm_params const& p, int64_t max_m, Launch launch, int64_t max_n = kMaxLaunchN) {
  for (int64_t n0 = 0; n0 < p.n; n0 += max_n) {
    fp4aot_gemm_params const columns = columns_of<kFormat>(p, n0, max_n);
    for (int64_t m0 = 0; m0 < p.m; m0 += max_m) {
      fp4aot_status const status = launch(rows_of<kFormat>(columns, m0, max_m));
      if (status != FP4AOT_OK) return status;
    }
  }
  return FP4AOT_OK;
}

}  // namespace fp4aot

#endif
