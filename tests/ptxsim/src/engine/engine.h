// Runs queued grids: clusters on host threads, grids of a stream in order, programmatic ones over their predecessors.
#ifndef PTXSIM_ENGINE_ENGINE_H_
#define PTXSIM_ENGINE_ENGINE_H_

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/runner.h"

namespace ptxsim {

class Engine {
 public:
  Engine(Properties const& properties, FindingLog& log) : properties_(properties), log_(log) {}
  void set_schedule(AsyncMode mode, int threads);
  void queue(std::shared_ptr<Grid::State> grid);
  // Runs everything that is queued; returns the grids in the order of their launches.
  std::vector<std::shared_ptr<Grid::State>> run();

 private:
  using Running = std::unique_ptr<ClusterRunner>;
  void work();
  Running next(std::unique_lock<std::mutex>& lock);
  Running admit();
  bool may_start(Grid::State const& grid) const;
  void finish(ClusterRunner& cluster);
  void after_slice(Running cluster, ClusterRunner::Outcome outcome);
  void report_deadlock();
  void drop_aborted();
  void check_dependences(std::vector<std::shared_ptr<Grid::State>> const& grids);

  Properties const& properties_;
  FindingLog& log_;
  AsyncMode mode_ = AsyncMode::kLazy;
  int threads_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Grid::State>> grids_;
  std::deque<Running> ready_, parked_, stuck_;  // parked: have let dependents start, and step aside for them
  size_t resident_ctas_ = 0;
  int busy_ = 0;
  uint64_t events_ = 0;  // bumped by whatever may let a stuck cluster go on
  int fruitless_ = 0;    // rounds in which no stuck cluster got on
};

}  // namespace ptxsim

#endif
