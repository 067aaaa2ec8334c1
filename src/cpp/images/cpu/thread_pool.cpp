#include "images/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "images/cpu/float_environment.h"

namespace fp4aot::cpu {
namespace {

constexpr int kMaxThreads = 1024;

struct Job {
  void (*call)(void const*, int64_t);
  void const* body;
  int64_t items;
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  int64_t seats = 0;  // pool threads that may still join; guarded by the pool's mutex, as is the next
  int running = 0;    // pool threads inside

  void work() noexcept {
    try {
      for (;;) {
        int64_t const item = next.fetch_add(1, std::memory_order_relaxed);
        if (item >= items) return;
        call(body, item);
      }
    } catch (...) {
      failed.store(true, std::memory_order_relaxed);
      next.store(items, std::memory_order_relaxed);
    }
  }
};

// FP4AOT_NUM_THREADS, or 0.
int asked_threads() {
  char const* const text = std::getenv("FP4AOT_NUM_THREADS");
  if (text != nullptr && *text != '\0') {
    char* end;
    long const asked = std::strtol(text, &end, 10);
    if (end != text && *end == '\0' && asked >= 1 && asked <= kMaxThreads) return static_cast<int>(asked);
    std::fprintf(stderr,
                 "fp4aot: FP4AOT_NUM_THREADS='%s' is not a number from 1 to %d; using all CPUs of this process.\n",
                 text, kMaxThreads);
  }
  return 0;
}

int count_threads(int asked) {
  if (asked > 0) return asked;
  cpu_set_t set;
  int const allowed = sched_getaffinity(0, sizeof set, &set) == 0
                          ? CPU_COUNT(&set)  // fails when the kernel has more CPUs than cpu_set_t
                          : static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(allowed, 1, kMaxThreads);
}

class Pool {
 public:
  int const asked = asked_threads();
  int const threads = count_threads(asked);

  void run(Job& job) {
    {
      std::lock_guard lock(mutex_);
      if (!started_) start();
      job.seats = std::min<int64_t>(workers_, job.items - 1);
      jobs_.push_back(&job);
    }
    for (int64_t seat = std::min<int64_t>(threads, job.items); seat > 1; --seat) work_.notify_one();
    job.work();
    std::unique_lock lock(mutex_);
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));  // nobody joins any more
    done_.wait(lock, [&] { return job.running == 0; });
  }

 private:
  void start() {
    started_ = true;
    sigset_t all, before;  // the process's signals are for the threads of its own
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (; workers_ < threads - 1; ++workers_) std::thread([this] { work(); }).detach();
    } catch (std::system_error const&) {  // a limit on threads: those that run will do
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void work() {
    set_default_float_environment();
    std::unique_lock lock(mutex_);
    for (;;) {
      auto const found = std::find_if(jobs_.begin(), jobs_.end(), [](Job const* job) { return job->seats > 0; });
      if (found == jobs_.end()) {
        work_.wait(lock);
        continue;
      }
      Job* const job = *found;
      --job->seats;
      ++job->running;
      lock.unlock();
      job->work();
      lock.lock();
      if (--job->running == 0) done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::vector<Job*> jobs_;
  int workers_ = 0;
  bool started_ = false;
};

// Never destroyed: its threads wait in it until the process ends. No lock guards its making, because a fork may come
// while another thread holds that lock, and the child would wait for it for ever.
std::atomic<Pool*> current_pool{nullptr};

// A replaced executor is never freed: a call may be using it.
std::atomic<fp4aot_executor const*> current_executor{nullptr};

// In a forked child, where neither our threads nor those of an executor exist.
void forget_pool() {
  current_pool.store(nullptr, std::memory_order_relaxed);
  current_executor.store(nullptr, std::memory_order_relaxed);
}

[[maybe_unused]] int const at_fork_registered = pthread_atfork(nullptr, nullptr, forget_pool);

Pool& pool() {
  Pool* existing = current_pool.load(std::memory_order_acquire);
  if (existing != nullptr) return *existing;
  Pool* const fresh = new Pool;
  if (current_pool.compare_exchange_strong(existing, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;  // it has not started threads
  return *existing;
}

// Null if our own threads are to be used.
fp4aot_executor const* executor() {
  fp4aot_executor const* const given = current_executor.load(std::memory_order_acquire);
  return given != nullptr && pool().asked == 0 ? given : nullptr;
}

}  // namespace

void set_executor(fp4aot_executor const* given) {
  current_executor.store(given != nullptr ? new fp4aot_executor(*given) : nullptr, std::memory_order_release);
}

int thread_count() {
  fp4aot_executor const* const given = executor();
  return given != nullptr ? std::clamp(given->threads(given->user), 1, kMaxThreads) : pool().threads;
}

void run_items(int64_t items, void (*call)(void const*, int64_t), void const* body) {
  if (items <= 0) return;
  Job job{call, body, items};
  int64_t const tasks = std::min<int64_t>(items, thread_count());
  if (tasks == 1) {
    job.work();
  } else if (fp4aot_executor const* const given = executor()) {
    auto const task = [](void* context, int64_t) {
      ScopedFloatEnvironment const environment;
      static_cast<Job*>(context)->work();
    };
    given->run(given->user, tasks, task, &job);
    job.work();  // what an executor that ran too few tasks has left
  } else {
    pool().run(job);
  }
  if (job.failed.load(std::memory_order_relaxed)) throw std::bad_alloc();
}

}  // namespace fp4aot::cpu
