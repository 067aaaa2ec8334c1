// Runs warps and clusters.
#ifndef PTXSIM_ENGINE_RUNNER_H_
#define PTXSIM_ENGINE_RUNNER_H_

#include <memory>
#include <random>

#include "engine/grid.h"
#include "machine.h"

namespace ptxsim {

// When asynchronous operations complete: as soon as possible, at random, or not before nothing else can run.
enum class AsyncMode : uint8_t { kEager, kRandom, kLazy };

// Divergence. A warp is a set of groups of lanes, each at one place; the group at the lowest place runs, and groups
// that come to the same place become one. nvcc lays blocks out so that the place where the two sides of a branch meet
// again comes behind both, except for blocks that it moves out of line; there, too, an instruction that needs its
// lanes together (.aligned, or a membermask) waits until the others have come, so that the lanes meet wherever the
// program needs them to, as they do on the hardware. A group that waits for something (or polls) lets the others run,
// so that lanes of one warp may wait for each other.
class WarpRunner {
 public:
  enum class Turn : uint8_t { kProgress, kPolled, kBlocked, kExited };
  static Turn run(Warp& w, Kernel const& kernel, int quantum);
  // All groups of the warp wait for lanes that cannot come.
  static bool cannot_converge(Warp const& w);
  static void exit_lanes(Warp& w);

 private:
  static bool choose(Warp& w);
  static void merge(Warp& w);
};

class ClusterRunner {
 public:
  enum class Outcome : uint8_t { kFinished, kStuck, kExpired, kAborted };

  ClusterRunner(std::shared_ptr<Grid::State> grid, uint64_t number, AsyncMode mode);
  ~ClusterRunner();
  // Runs warps until all have exited, nothing can run, or about `turns` turns of warps have passed.
  Outcome run(uint64_t turns);
  bool triggered() const;  // all its CTAs have let dependents start, or have exited
  std::string describe();  // what every warp waits for
  Grid::State& grid() { return *state_; }
  std::shared_ptr<Grid::State> const& grid_pointer() const { return state_; }
  Cluster& cluster() { return cluster_; }

  uint64_t seen_progress = 0;  // the engine's count of events when this cluster got stuck
  uint64_t last_progress = 0;
  bool counted_trigger = false;

 private:
  bool run_deferred();
  void make_cta(uint32_t rank);
  void start_warp(Cta& cta, Warp& w);

  std::shared_ptr<Grid::State> state_;
  Grid grid_;
  Cluster cluster_;
  AsyncMode mode_;
  std::mt19937_64 random_;
  std::vector<Warp*> order_;
  uint32_t running_ = 0;
  bool stepped_aside_ = false;
};

}  // namespace ptxsim

#endif
