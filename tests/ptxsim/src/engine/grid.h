// A launch inside the engine.
#ifndef PTXSIM_ENGINE_GRID_H_
#define PTXSIM_ENGINE_GRID_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "kernel.h"
#include "machine.h"
#include "memory/global.h"

namespace ptxsim {

// Findings of all launches since clear(); the same fault at the same place is kept once.
class FindingLog {
 public:
  void add(Finding finding);
  std::vector<Finding> const& all() const { return findings_; }
  void clear();

 private:
  std::mutex mutex_;
  std::vector<Finding> findings_;
  std::map<std::tuple<std::string, std::string, int>, size_t> known_;
};

// Accesses to global memory before griddepcontrol.wait, by instruction.
struct EarlyAccess {
  Site site;
  bool is_write = false;
  ByteSet bytes;
};

struct GlobalAccesses {
  ByteSet read, written;
  std::map<std::pair<uint32_t, bool>, EarlyAccess> early;  // by (pc, is_write)
};

struct Grid::State {
  Properties const* properties = nullptr;
  LaunchConfig config;
  Kernel const* kernel = nullptr;
  std::vector<uint8_t> parameters;
  std::vector<uint8_t> parameter_written;
  GlobalMemory* memory = nullptr;
  FindingLog* log = nullptr;
  std::mutex* global_lock = nullptr;
  uint64_t number = 0;  // of the launch
  uint64_t seed = 0;

  std::atomic<bool> aborted{false};
  std::atomic<uint64_t> next_cluster{0};
  uint64_t clusters = 0;
  uint32_t cluster_dims[3] = {1, 1, 1}, cluster_grid[3] = {1, 1, 1};
  uint64_t started = 0, finished = 0, triggered = 0;  // clusters, under the engine lock
  std::atomic<uint64_t> cancelled{0};                 // taken by clusterlaunchcontrol: they never start
  bool track_accesses = false;
  bool has_dependent = false;  // a programmatic grid stands behind it in its stream
  std::atomic<bool> any_wait{false};
  std::shared_ptr<State> predecessor;  // in its stream
  std::atomic<bool> complete{false};

  std::mutex merge_lock;
  Tally tally;
  GlobalAccesses accesses;

  Dim3 first_cta(uint64_t cluster) const;
};

Finding make_finding(Grid::State const& state, Site const& site, std::string check, std::string message);

}  // namespace ptxsim

#endif
