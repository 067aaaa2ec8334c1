// Counts of a launch. As JSON: {"kernel": name, "grid": [x,y,z], "block": [...], "cluster": [...],
// "thread_instructions": {"<class>": n, ...}, "warp_instructions": n, "mma": {"<shape and types>": n, ...},
// "bytes": {"global_load", "global_store", "shared_load", "shared_store", "tensor_copy_load", "tensor_copy_store",
// "bulk_load", "bulk_store", "async_copy"}, "waits": {"barrier", "mbarrier", "cluster", "grid"}}: thread instructions
// count active lanes whose guard holds; mma counts instructions of a warp or CTA pair; bytes are those asked for by
// lanes or copies.
#ifndef PTXSIM_COUNTS_H_
#define PTXSIM_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>

namespace ptxsim {

constexpr int kClassSlots = 24;

enum class Traffic : uint8_t {
  kGlobalLoad,
  kGlobalStore,
  kSharedLoad,
  kSharedStore,
  kTensorCopyLoad,
  kTensorCopyStore,
  kBulkLoad,
  kBulkStore,
  kAsyncCopy,
  kCount
};
enum class Wait : uint8_t { kBarrier, kMbarrier, kCluster, kGrid, kCount };

struct Tally {
  uint64_t thread_instructions[kClassSlots] = {};
  uint64_t warp_instructions = 0;
  uint64_t bytes[static_cast<int>(Traffic::kCount)] = {};
  uint64_t waits[static_cast<int>(Wait::kCount)] = {};
  std::map<std::string, uint64_t> mma;

  void add(Traffic kind, uint64_t n) { bytes[static_cast<int>(kind)] += n; }
  void add(Wait kind) { ++waits[static_cast<int>(kind)]; }
  void merge(Tally const& other);
  std::string json(std::string const& kernel, uint32_t const grid[3], uint32_t const block[3],
                   uint32_t const cluster[3]) const;
};

}  // namespace ptxsim

#endif
