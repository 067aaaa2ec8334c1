// A machine of sm_90a CTAs and clusters on one CPU thread, to run the GEMM kernels' own sources without a GPU.
//
// Every CUDA thread is a fiber. The scheduler runs fibers in a random order, each until it has to wait; bulk copies
// land between, in a random order. So a run checks indexing, layouts and the protocol of the barriers: a wrong result,
// a deadlock, a barrier with too many arrivals or bytes, and an access by shared address or by a copy outside of the
// shared memory or the operands end the program.
//
// Not modelled: the memory ordering of the hardware (fibers see all earlier writes; fences and volatile mean nothing),
// timing, programmatic dependent launch, registers and their limits, bank conflicts. The matrix products are computed
// in fp32 in order of k; tensor cores add in another order and truncate.
#ifndef FP4AOT_TESTS_EMULATION_MACHINE_H_
#define FP4AOT_TESTS_EMULATION_MACHINE_H_

#include <setjmp.h>
#include <ucontext.h>
#include <vector_types.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace machine {

// Ends the program: fibers cannot be unwound.
[[noreturn]] inline void fail(char const* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);
  std::_Exit(1);
}

inline std::minstd_rand generator;
inline uint32_t random_below(uint32_t bound) { return static_cast<uint32_t>(generator() / 8 % bound); }

// The fault that this run shall have. The prepared kernels ask for each planted one by name.
inline std::string planted_fault;
inline bool planted(char const* name) { return planted_fault == name; }
constexpr char const* kLateThread = "a late thread";  // not a fault: a thread of each cluster that seldom runs

// Barriers and threads --------------------------------------------------------------------------------------------

struct Barrier {
  int arrived = 0;
  long generation = 0;
};

struct Mbarrier {
  bool initialised = false;
  int expected = 0, pending = 0;  // arrivals
  long bytes = 0;                 // of copies still to land
  long phase = 0;

  void complete_if_done() {
    // Bytes may land before the arrival that expects them, if another CTA started the copy.
    if (pending < 0 || (pending == 0 && bytes < 0))
      fail("mbarrier underflow: %d arrivals, %ld bytes pending", pending, bytes);
    if (pending == 0 && bytes == 0) {
      ++phase;
      pending = expected;
    }
  }
};

// A product of a warpgroup that was issued and not yet waited for: operand A of all threads, as it was then.
struct WarpgroupProduct {
  uint32_t a[128][4];
  int issued = 0, retired = 0;  // threads
};

struct Warpgroup {
  Barrier barrier;
  std::deque<WarpgroupProduct> products;
  long first = 0;  // number of products.front(), counted from the start of the kernel
};

struct Warp {
  Barrier barrier;
  uint32_t a[32][4], b[32][2];  // operands of the product at work
};

struct Cluster;

struct Cta {
  Cluster* cluster;
  uint32_t rank;  // in the cluster
  uint3 index;
  int running = 0;  // threads
  std::vector<uint8_t> shared;
  std::map<uint32_t, Mbarrier> mbarriers;  // by offset
  std::vector<Warpgroup> warpgroups;
  std::vector<Warp> warps;
  Barrier all, named[16];
};

struct Cluster {
  std::vector<std::unique_ptr<Cta>> ctas;
  Barrier barrier;
  int threads = 0;
};

// A copy that a thread waits for itself. The bytes are taken when it starts and written when it is waited for: the
// destination holds junk between, so that both an early reader and a late one of the old bytes see it.
struct ThreadCopy {
  uint32_t destination;
  int bytes;
  uint8_t data[16];
};

struct Fiber {
  Cta* cta;
  uint3 thread;
  std::function<void()> const* kernel;
  std::unique_ptr<char[]> stack;
  ucontext_t start;
  jmp_buf context;
  bool started = false, done = false;
  long const* waits_for = nullptr;  // ready once this is no longer `waits_while`
  long waits_while = 0;
  std::vector<ThreadCopy> open_copies;
  std::deque<std::vector<ThreadCopy>> copy_groups;
  long products = 0;                                // issued, counted from the start of the kernel
  std::deque<std::function<void()>> open_products;  // this thread's part of them
  std::deque<std::deque<std::function<void()>>> product_groups;
  std::deque<std::function<void()>> open_stores;  // bulk copies from shared memory

  bool ready() const { return waits_for == nullptr || *waits_for != waits_while; }
};

inline Fiber* current;
inline jmp_buf scheduler;
inline dim3 block_dim, grid_dim;

// _setjmp, as swapcontext makes a system call each time.
inline void wait_while(long const& counter, long value) {
  while (counter == value) {
    current->waits_for = &counter;
    current->waits_while = value;
    if (_setjmp(current->context) == 0) _longjmp(scheduler, 1);
  }
  current->waits_for = nullptr;
}

inline void synchronise(Barrier& barrier, int threads) {
  long const generation = barrier.generation;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.generation;
  } else {
    wait_while(barrier.generation, generation);
  }
}

inline Warp& current_warp() { return current->cta->warps[current->thread.x / 32]; }
inline Warpgroup& current_warpgroup() { return current->cta->warpgroups.at(current->thread.x / 128); }

// Memory ----------------------------------------------------------------------------------------------------------

// A shared address is rank << 24 | kSharedBase + offset: an offset that is not one, such as 0, is found out.
constexpr uint32_t kSharedBase = 0x400;

inline Cta& cta_of(uint32_t address) {
  Cta& cta = *current->cta->cluster->ctas.at(address >> 24);
  if (cta.running == 0) fail("access to the shared memory of a CTA that has ended");
  return cta;
}

inline uint8_t* shared_bytes(uint32_t address, uint32_t bytes, uint32_t alignment) {
  Cta& cta = cta_of(address);
  uint32_t const offset = (address & 0xFFFFFF) - kSharedBase;
  if (offset > cta.shared.size() || bytes > cta.shared.size() - offset) fail("outside of shared memory: %x", address);
  if (address % alignment != 0) fail("misaligned shared address %x", address);
  return cta.shared.data() + offset;
}

inline uint32_t own_address(uint32_t offset) { return current->cta->rank << 24 | (offset + kSharedBase); }

inline Mbarrier& mbarrier_at(uint32_t address) {
  shared_bytes(address, 8, 8);
  return cta_of(address).mbarriers[address & 0xFFFFFF];
}

inline Mbarrier& initialised_mbarrier(uint32_t address) {
  Mbarrier& barrier = mbarrier_at(address);
  if (!barrier.initialised) fail("mbarrier %x is used before it is initialised", address);
  return barrier;
}

// What copies may read: [first, second).
inline std::vector<std::pair<uint8_t const*, uint8_t const*>> operands;

inline void check_operand(uint8_t const* source, size_t bytes) {
  for (auto const& [begin, end] : operands)
    if (source >= begin && source + bytes <= end) return;
  fail("read outside of the operands");
}

// Bulk copies that have been started.
inline std::vector<std::function<void()>> flying;

inline void land_some() {
  for (size_t i = 0; i < flying.size();) {
    if (random_below(4) != 0) {
      ++i;
      continue;
    }
    auto const land = std::move(flying[i]);
    flying.erase(flying.begin() + static_cast<long>(i));
    land();
  }
}

// Execution -------------------------------------------------------------------------------------------------------

inline void run_fiber() {
  (*current->kernel)();
  if (!current->copy_groups.empty() || !current->open_copies.empty()) fail("a thread ends with copies in flight");
  if (!current->product_groups.empty() || !current->open_products.empty())
    fail("a thread ends with products in flight");
  if (!current->open_stores.empty()) fail("a thread ends with stores in flight");
  --current->cta->running;
  current->done = true;
  _longjmp(scheduler, 1);
}

// Returns when the fiber waits or has ended. Not inlined: locals of a function that calls setjmp are not safe.
__attribute__((noinline)) inline void resume(Fiber* fiber) {
  current = fiber;
  if (_setjmp(scheduler) != 0) return;
  if (fiber->started) _longjmp(fiber->context, 1);
  fiber->started = true;
  setcontext(&fiber->start);
}

inline std::unique_ptr<Fiber> make_fiber(Cta* cta, unsigned thread, std::function<void()> const* kernel) {
  constexpr size_t kStackBytes = 128 << 10;
  auto fiber = std::make_unique<Fiber>();
  fiber->cta = cta;
  fiber->thread = {thread, 0, 0};
  fiber->kernel = kernel;
  fiber->stack.reset(new char[kStackBytes]);
  getcontext(&fiber->start);
  fiber->start.uc_stack.ss_sp = fiber->stack.get();
  fiber->start.uc_stack.ss_size = kStackBytes;
  fiber->start.uc_link = nullptr;
  makecontext(&fiber->start, run_fiber, 0);
  return fiber;
}

// Runs the CTAs [first_block, first_block + ctas) of the grid as one cluster.
inline void run_cluster(int ctas, int first_block, size_t shared_size, std::function<void()> const& kernel) {
  Cluster cluster;
  cluster.threads = ctas * static_cast<int>(block_dim.x);
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (int i = 0; i < ctas; ++i) {
    auto cta = std::make_unique<Cta>();
    unsigned const block = static_cast<unsigned>(first_block + i);
    cta->cluster = &cluster;
    cta->rank = static_cast<uint32_t>(i);
    cta->index = {block % grid_dim.x, block / grid_dim.x % grid_dim.y, block / grid_dim.x / grid_dim.y};
    cta->running = static_cast<int>(block_dim.x);
    cta->shared.resize(shared_size);
    for (uint8_t& byte : cta->shared) byte = static_cast<uint8_t>(random_below(256));
    cta->warps.resize(block_dim.x / 32);
    cta->warpgroups.resize(block_dim.x / 128);
    for (unsigned t = 0; t < block_dim.x; ++t) {
      fibers.push_back(make_fiber(cta.get(), t, &kernel));
    }
    cluster.ctas.push_back(std::move(cta));
  }
  // The first thread of a warp, which often acts for others: later than any order of the others explains.
  Fiber const* const latest =
      planted(kLateThread) ? fibers[random_below(static_cast<uint32_t>(fibers.size()) / 32) * 32].get() : nullptr;
  std::vector<Fiber*> live, next;
  for (auto const& fiber : fibers) live.push_back(fiber.get());
  while (!live.empty()) {
    next.clear();
    size_t ready = 0;
    size_t const shift = random_below(static_cast<uint32_t>(live.size()));
    for (size_t i = 0; i < live.size(); ++i) {
      Fiber* const fiber = live[(i + shift) % live.size()];
      if (fiber->ready()) {
        ++ready;
        bool const late = fiber == latest ? random_below(256) != 0 : random_below(8) == 0;  // now and then any is
        if (!late) resume(fiber);
      }
      if (!fiber->done) next.push_back(fiber);
    }
    std::swap(live, next);
    if (ready == 0 && flying.empty() && !live.empty()) fail("deadlock: %zu threads wait", live.size());
    land_some();
  }
  if (!flying.empty()) fail("the kernel ends with %zu copies in flight", flying.size());
}

}  // namespace machine

#endif
