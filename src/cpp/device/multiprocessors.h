// How many multiprocessors a device has, asked once.
#ifndef FP4AOT_DEVICE_MULTIPROCESSORS_H_
#define FP4AOT_DEVICE_MULTIPROCESSORS_H_

#include <cuda_runtime.h>

#include <atomic>

namespace fp4aot {

// `fallback` if the runtime does not say.
inline int multiprocessors_of(int device, int fallback) {
  static std::atomic<int> known[64];
  bool const remembered = device >= 0 && device < 64;
  if (remembered) {
    int const count = known[device].load(std::memory_order_relaxed);
    if (count > 0) return count;
  }
  int count = 0;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess || count <= 0) {
    (void)cudaGetLastError();
    return fallback;
  }
  if (remembered) known[device].store(count, std::memory_order_relaxed);
  return count;
}

}  // namespace fp4aot

#endif
