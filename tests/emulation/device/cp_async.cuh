// Emulates src/cpp/device/cp_async.cuh. Groups land when they are waited for, the latest moment that is allowed.
#ifndef FP4AOT_DEVICE_CP_ASYNC_CUH_
#define FP4AOT_DEVICE_CP_ASYNC_CUH_

#include "cuda_language.h"
#include "device/mbarrier.cuh"

namespace fp4aot {

template <int kBytes>
void start_thread_copy(uint32_t destination, void const* source, bool valid) {
  machine::ThreadCopy copy = {destination, kBytes, {}};
  if (valid) {
    if (reinterpret_cast<uintptr_t>(source) % kBytes != 0) machine::fail("misaligned source of cp.async");
    machine::check_operand(static_cast<uint8_t const*>(source), kBytes);
    std::memcpy(copy.data, source, kBytes);
  }
  std::memset(machine::shared_bytes(destination, kBytes, kBytes), 0xEE, kBytes);
  machine::current->open_copies.push_back(copy);
}

inline void cp_async16(uint32_t destination, void const* source, bool valid) {
  start_thread_copy<16>(destination, source, valid);
}
inline void cp_async4(uint32_t destination, void const* source, bool valid) {
  start_thread_copy<4>(destination, source, valid);
}

// In no group: they land by themselves, then this thread arrives.
inline void cp_async_arrive(uint32_t barrier_address) {
  machine::Mbarrier* const barrier = &machine::initialised_mbarrier(barrier_address);
  std::vector<std::pair<uint8_t*, machine::ThreadCopy>> landing;
  for (machine::ThreadCopy const& copy : machine::current->open_copies)
    landing.emplace_back(machine::shared_bytes(copy.destination, copy.bytes, 1), copy);
  machine::current->open_copies.clear();
  machine::flying.push_back([landing, barrier] {
    for (auto const& [place, copy] : landing) std::memcpy(place, copy.data, copy.bytes);
    --barrier->pending;
    barrier->complete_if_done();
  });
}

inline void cp_async_commit() {
  machine::current->copy_groups.push_back(std::move(machine::current->open_copies));
  machine::current->open_copies.clear();
}

template <int kPending>
void cp_async_wait() {
  auto& groups = machine::current->copy_groups;
  for (; groups.size() > kPending; groups.pop_front()) {
    for (machine::ThreadCopy const& copy : groups.front())
      std::memcpy(machine::shared_bytes(copy.destination, copy.bytes, 1), copy.data, copy.bytes);
  }
}

}  // namespace fp4aot

#endif
