// Asynchronous copies of a thread from global to shared memory, sm_80 and later.
#ifndef FP4AOT_DEVICE_CP_ASYNC_CUH_
#define FP4AOT_DEVICE_CP_ASYNC_CUH_

#include <cstdint>

namespace fp4aot {

// 16 bytes past the L1 cache, or zeros if !valid; then the source is not read.
__device__ __forceinline__ void cp_async16(uint32_t destination, void const* source, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(destination), "l"(source),
               "r"(valid ? 16 : 0)
               : "memory");
}

// 4 bytes, likewise.
__device__ __forceinline__ void cp_async4(uint32_t destination, void const* source, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(destination), "l"(source), "r"(valid ? 4 : 0)
               : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most kPending of this thread's latest groups are unfinished.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Until none of this thread's copies is unfinished, in groups or not.
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace fp4aot

#endif
