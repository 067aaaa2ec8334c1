// Threads of the cpu image: the executor of the program that loaded us, if it gave one, else our own. Not OpenMP, so that
// nothing clashes with another copy of its runtime.
//
// Safe to call from several threads at once, and after a fork: the child drops the parent's pool, whose threads it does
// not have, and builds its own at the next call that wants threads.
#ifndef FP4AOT_IMAGES_CPU_THREAD_POOL_H_
#define FP4AOT_IMAGES_CPU_THREAD_POOL_H_

#include <cstdint>

#include "fp4aot/fp4aot.h"

namespace fp4aot::cpu {

// Threads that parallel_for may use, the caller included: FP4AOT_NUM_THREADS if it is a number from 1 to 1024, else what
// the executor says, else the CPUs of this process's affinity mask.
int thread_count();

void set_executor(fp4aot_executor const* executor);  // null: none

void run_items(int64_t items, void (*call)(void const* body, int64_t item), void const* body);

// Calls body(item) for each item in [0, items), in any order, on the caller and on idle pool threads; returns when all
// are done. If a body threw, the rest may be left out and std::bad_alloc is thrown here: bodies throw nothing else.
template <class Body>
void parallel_for(int64_t items, Body const& body) {
  if (items == 1) return body(int64_t{0});
  run_items(items, [](void const* b, int64_t item) { (*static_cast<Body const*>(b))(item); }, &body);
}

}  // namespace fp4aot::cpu

#endif
