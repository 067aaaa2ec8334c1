// Global (and const) memory: allocations at their host addresses, which bytes were ever written, and what a grid
// touched.
#ifndef PTXSIM_MEMORY_GLOBAL_H_
#define PTXSIM_MEMORY_GLOBAL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace ptxsim {

struct Allocation {
  uint8_t* start = nullptr;
  size_t bytes = 0;
  uint8_t* written = nullptr;  // one byte a byte: 1 once written
  bool read_only = false;      // const memory
  std::string name;            // of a module's variable
  std::unique_ptr<uint8_t[]> storage;
  struct Free {
    void operator()(uint8_t* p) const;
  };
  std::unique_ptr<uint8_t, Free> shadow;

  bool contains(uint64_t address, uint64_t count) const {
    uint64_t offset = address - reinterpret_cast<uint64_t>(start);
    return offset <= bytes && count <= bytes - offset;
  }
};

class GlobalMemory {
 public:
  Allocation* allocate(size_t bytes, size_t alignment = 256);
  bool release(void* start);
  // The allocation that holds the first byte, or null.
  Allocation const* find(uint64_t address) const;
  // "40 bytes behind an allocation of 256 bytes at 0x...": for messages.
  std::string describe(uint64_t address) const;
  static void mark_written(Allocation const& allocation, uint64_t address, uint64_t bytes);
  static bool is_written(Allocation const& allocation, uint64_t address, uint64_t bytes);

 private:
  std::map<uint64_t, std::unique_ptr<Allocation>> allocations_;
};

// A set of bytes of global memory, as pages of bits.
class ByteSet {
 public:
  static constexpr uint64_t kPage = 4096;
  void add(uint64_t address, uint64_t bytes);
  void merge(ByteSet const& other);
  // The first byte in both; false if there is none.
  bool intersects(ByteSet const& other, uint64_t* first) const;
  bool empty() const { return pages_.empty(); }

 private:
  struct Page {
    uint64_t bits[kPage / 64] = {};
  };
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_number_ = ~uint64_t{0};
  Page* last_ = nullptr;
};

}  // namespace ptxsim

#endif
