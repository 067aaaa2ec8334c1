#include "memory/global.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ptxsim {

void Allocation::Free::operator()(uint8_t* p) const { std::free(p); }

Allocation* GlobalMemory::allocate(size_t bytes, size_t alignment) {
  constexpr size_t kGuard = 512;
  auto made = std::make_unique<Allocation>();
  size_t total = bytes + 2 * kGuard + alignment;
  made->storage.reset(new uint8_t[total]);
  made->shadow.reset(static_cast<uint8_t*>(std::calloc(bytes + 64, 1)));
  uint64_t start = (reinterpret_cast<uint64_t>(made->storage.get()) + kGuard + alignment - 1) / alignment * alignment;
  made->start = reinterpret_cast<uint8_t*>(start);
  made->bytes = bytes;
  made->written = made->shadow.get();
  Allocation* result = made.get();
  allocations_[start] = std::move(made);
  return result;
}

bool GlobalMemory::release(void* start) { return allocations_.erase(reinterpret_cast<uint64_t>(start)) != 0; }

Allocation const* GlobalMemory::find(uint64_t address) const {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  Allocation const& candidate = *std::prev(after)->second;
  return candidate.contains(address, 1) ? &candidate : nullptr;
}

std::string GlobalMemory::describe(uint64_t address) const {
  auto after = allocations_.upper_bound(address);
  char text[160];
  uint64_t before_distance = ~uint64_t{0}, after_distance = ~uint64_t{0};
  if (after != allocations_.end()) after_distance = after->first - address;
  if (after != allocations_.begin()) {
    Allocation const& a = *std::prev(after)->second;
    before_distance = address - (reinterpret_cast<uint64_t>(a.start) + a.bytes);
  }
  if (std::min(before_distance, after_distance) > (uint64_t{1} << 32)) return "near no allocation";
  bool behind = before_distance <= after_distance;
  Allocation const& a = behind ? *std::prev(after)->second : *after->second;
  std::snprintf(text, sizeof text, "%llu bytes %s an allocation of %llu bytes%s%s",
                static_cast<unsigned long long>(behind ? before_distance : after_distance),
                behind ? "behind" : "before", static_cast<unsigned long long>(a.bytes),
                a.name.empty() ? "" : ", variable ", a.name.c_str());
  return text;
}

void GlobalMemory::mark_written(Allocation const& allocation, uint64_t address, uint64_t bytes) {
  std::memset(allocation.written + (address - reinterpret_cast<uint64_t>(allocation.start)), 1, bytes);
}

bool GlobalMemory::is_written(Allocation const& allocation, uint64_t address, uint64_t bytes) {
  uint8_t const* shadow = allocation.written + (address - reinterpret_cast<uint64_t>(allocation.start));
  return std::memchr(shadow, 0, bytes) == nullptr;
}

void ByteSet::add(uint64_t address, uint64_t bytes) {
  while (bytes > 0) {
    uint64_t number = address / kPage;
    uint64_t in_page = address % kPage;
    uint64_t here = std::min(bytes, kPage - in_page);
    if (number != last_number_) {
      std::unique_ptr<Page>& page = pages_[number];
      if (page == nullptr) page = std::make_unique<Page>();
      last_ = page.get();
      last_number_ = number;
    }
    for (uint64_t i = in_page; i < in_page + here;) {
      uint64_t bit = i % 64;
      uint64_t count = std::min(64 - bit, in_page + here - i);
      uint64_t mask = count == 64 ? ~uint64_t{0} : ((uint64_t{1} << count) - 1) << bit;
      last_->bits[i / 64] |= mask;
      i += count;
    }
    address += here;
    bytes -= here;
  }
}

void ByteSet::merge(ByteSet const& other) {
  for (auto const& [number, page] : other.pages_) {
    std::unique_ptr<Page>& mine = pages_[number];
    if (mine == nullptr) mine = std::make_unique<Page>();
    for (size_t i = 0; i < kPage / 64; ++i) mine->bits[i] |= page->bits[i];
  }
}

bool ByteSet::intersects(ByteSet const& other, uint64_t* first) const {
  bool found = false;
  for (auto const& [number, page] : pages_) {
    auto theirs = other.pages_.find(number);
    if (theirs == other.pages_.end()) continue;
    for (size_t i = 0; i < kPage / 64; ++i) {
      uint64_t both = page->bits[i] & theirs->second->bits[i];
      if (both == 0) continue;
      uint64_t address = number * kPage + i * 64 + static_cast<uint64_t>(__builtin_ctzll(both));
      if (!found || address < *first) *first = address;
      found = true;
      break;
    }
  }
  return found;
}

}  // namespace ptxsim
