#include "engine/engine.h"

#include <algorithm>
#include <thread>

namespace ptxsim {
namespace {

constexpr uint64_t kSliceTurns = 4000;

uint64_t ctas_each(Grid::State const& grid) {
  return uint64_t{grid.cluster_dims[0]} * grid.cluster_dims[1] * grid.cluster_dims[2];
}

}  // namespace

void Engine::set_schedule(AsyncMode mode, int threads) {
  mode_ = mode;
  threads_ = threads;
}

void Engine::queue(std::shared_ptr<Grid::State> grid) {
  for (auto it = grids_.rbegin(); it != grids_.rend(); ++it) {
    if ((*it)->config.stream == grid->config.stream) {
      grid->predecessor = *it;
      break;
    }
  }
  if (grid->config.programmatic && grid->predecessor != nullptr) {
    grid->track_accesses = true;
    grid->predecessor->has_dependent = true;
    for (auto p = grid->predecessor; p != nullptr; p = p->config.programmatic ? p->predecessor : nullptr) {
      p->track_accesses = true;
    }
  }
  grids_.push_back(std::move(grid));
}

bool Engine::may_start(Grid::State const& grid) const {
  Grid::State const* before = grid.predecessor.get();
  if (before == nullptr || before->complete) return true;
  if (!grid.config.programmatic) return false;
  // A programmatic grid starts once every CTA of its predecessor has let it or has ended.
  return before->triggered + before->cancelled == before->clusters && before->next_cluster >= before->clusters;
}

// A cluster of the first grid that may run and has some left, if the device has room for it.
Engine::Running Engine::admit() {
  for (auto& grid : grids_) {
    if (grid->aborted || grid->complete || grid->next_cluster >= grid->clusters || !may_start(*grid)) continue;
    uint64_t ctas = ctas_each(*grid);
    uint32_t warps = (grid->config.block.x * grid->config.block.y * grid->config.block.z + 31) / 32;
    uint64_t shared = grid->kernel->dynamic_base + grid->config.dynamic_shared_bytes;
    uint64_t by_threads = std::max<uint64_t>(1, properties_.max_threads_per_multiprocessor / (warps * 32));
    uint64_t by_shared =
        std::max<uint64_t>(1, properties_.shared_bytes_per_multiprocessor / std::max<uint64_t>(1, shared));
    uint64_t room =
        std::max<uint64_t>(ctas, properties_.multiprocessors * std::min({by_threads, by_shared, uint64_t{32}}));
    if (resident_ctas_ + ctas > room && resident_ctas_ != 0) continue;
    uint64_t number = grid->next_cluster++;
    if (number >= grid->clusters) continue;
    ++grid->started;
    resident_ctas_ += ctas;
    return std::make_unique<ClusterRunner>(grid, number, mode_);
  }
  return nullptr;
}

// What to run next: what is ready, a new cluster, one that stepped aside, or one that was stuck if something happened
// since.
Engine::Running Engine::next(std::unique_lock<std::mutex>& lock) {
  while (true) {
    auto take = [](std::deque<Running>& from) {
      Running cluster = std::move(from.front());
      from.pop_front();
      return cluster;
    };
    if (!ready_.empty()) return take(ready_);
    for (size_t i = 0; i < stuck_.size(); ++i) {
      if (stuck_[i]->seen_progress == events_) continue;
      Running cluster = std::move(stuck_[i]);
      stuck_.erase(stuck_.begin() + static_cast<long>(i));
      return cluster;
    }
    if (Running fresh = admit()) return fresh;
    if (!parked_.empty()) return take(parked_);
    if (busy_ > 0) {
      changed_.wait(lock);
      continue;
    }
    if (stuck_.empty()) return nullptr;
    if (++fruitless_ < 8) {
      ++events_;
      continue;
    }
    report_deadlock();
  }
}

void Engine::report_deadlock() {
  std::string states;
  Grid::State* first = nullptr;
  std::vector<std::shared_ptr<Grid::State>> concerned;
  for (Running& cluster : stuck_) {
    if (first == nullptr) first = &cluster->grid();
    if (&cluster->grid() == first && states.size() < 8000) states += cluster->describe();
    cluster->grid().aborted = true;
  }
  Site where;
  where.kernel = first->kernel->name;
  log_.add(make_finding(*first, where, "deadlock", "no warp of the launch can run:" + states));
  for (Running& cluster : stuck_) {
    resident_ctas_ -= ctas_each(cluster->grid());
    ++cluster->grid().finished;
  }
  std::deque<Running> dropped = std::move(stuck_);
  stuck_.clear();
  for (Running& cluster : dropped) {
    Grid::State& grid = cluster->grid();
    if (grid.finished == grid.started) grid.complete = true;
  }
  ++events_;
  fruitless_ = 0;
}

void Engine::finish(ClusterRunner& cluster) {
  Grid::State& grid = cluster.grid();
  resident_ctas_ -= ctas_each(grid);
  ++grid.finished;
  if (!cluster.counted_trigger) ++grid.triggered;
  cluster.counted_trigger = true;
  bool all = grid.aborted ? grid.finished == grid.started : grid.finished + grid.cancelled == grid.clusters;
  if (all) grid.complete = true;
}

void Engine::after_slice(Running cluster, ClusterRunner::Outcome outcome) {
  Grid::State& grid = cluster->grid();
  if (!cluster->counted_trigger && cluster->triggered()) {
    cluster->counted_trigger = true;
    ++grid.triggered;
    ++events_;
  }
  switch (outcome) {
    case ClusterRunner::Outcome::kFinished:
    case ClusterRunner::Outcome::kAborted:
      finish(*cluster);
      ++events_;
      fruitless_ = 0;
      break;
    case ClusterRunner::Outcome::kExpired:
      if (cluster->cluster().progress == cluster->last_progress) {
        // It goes round and round without any effect.
        cluster->seen_progress = events_;
        stuck_.push_back(std::move(cluster));
        break;
      }
      cluster->last_progress = cluster->cluster().progress;
      fruitless_ = 0;
      ++events_;
      (cluster->counted_trigger ? parked_ : ready_).push_back(std::move(cluster));
      break;
    case ClusterRunner::Outcome::kStuck:
      // Others may wait for what it did before it got stuck.
      if (cluster->cluster().progress != cluster->last_progress) {
        ++events_;
        fruitless_ = 0;
      }
      cluster->last_progress = cluster->cluster().progress;
      cluster->seen_progress = events_;
      stuck_.push_back(std::move(cluster));
      break;
  }
}

void Engine::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (Running cluster = next(lock)) {
    ++busy_;
    lock.unlock();
    ClusterRunner::Outcome outcome = cluster->run(kSliceTurns);
    lock.lock();
    --busy_;
    after_slice(std::move(cluster), outcome);
    changed_.notify_all();
  }
  changed_.notify_all();
}

std::vector<std::shared_ptr<Grid::State>> Engine::run() {
  uint64_t clusters = 0;
  for (auto& grid : grids_) {
    clusters += grid->clusters;
    if (grid->clusters == 0) grid->complete = true;
  }
  int threads = threads_ > 0 ? threads_ : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  threads = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(threads), std::max<uint64_t>(1, clusters)));
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([this] { work(); });
  work();
  for (std::thread& t : others) t.join();
  std::vector<std::shared_ptr<Grid::State>> done = std::move(grids_);
  grids_.clear();
  check_dependences(done);
  for (auto& grid : done) grid->predecessor.reset();
  return done;
}

}  // namespace ptxsim
