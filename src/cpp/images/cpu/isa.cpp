#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "images/cpu/kernel_table.h"

namespace fp4aot::cpu {
namespace {

KernelTable const& choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool const avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  bool const avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  char const* asked = std::getenv("FP4AOT_CPU_ISA");
  if (asked != nullptr && *asked == '\0') asked = nullptr;
  auto const is_asked = [asked](KernelTable const& table) { return asked && std::strcmp(asked, table.name) == 0; };
  KernelTable const& best = avx512 ? kKernelsAvx512 : avx2 ? kKernelsAvx2 : kKernelsPortable;
  if (is_asked(kKernelsPortable)) return kKernelsPortable;
  if (avx2 && is_asked(kKernelsAvx2)) return kKernelsAvx2;
  if (asked != nullptr && !is_asked(best)) {
    std::fprintf(stderr,
                 "fp4aot: FP4AOT_CPU_ISA='%s' is not portable, avx2 or avx512, or this CPU lacks it; using %s.\n",
                 asked, best.name);
  }
  return best;
#else
  return kKernelsPortable;
#endif
}

// Two threads may both choose, and choose the same. A lock would be held across a fork.
std::atomic<KernelTable const*> chosen{nullptr};

}  // namespace

KernelTable const& kernels() {
  KernelTable const* table = chosen.load(std::memory_order_acquire);
  if (table == nullptr) {
    table = &choose();
    chosen.store(table, std::memory_order_release);
  }
  return *table;
}

}  // namespace fp4aot::cpu
