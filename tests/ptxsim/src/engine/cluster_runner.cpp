#include <algorithm>
#include <cstdio>

#include "engine/runner.h"

namespace ptxsim {
namespace {

// Registers are not cleared between CTAs (poison says which are defined), so that their memory can be used again; that of
// shared memory is used again as well.
thread_local std::vector<std::vector<uint8_t>> free_registers;
thread_local std::vector<SharedMemory> free_shared;

uint32_t special_value(std::string_view name, Warp& w, int lane, Grid::State const& grid) {
  Dim3 const& block = grid.config.block;
  uint32_t linear = static_cast<uint32_t>(w.number()) * kWarpSize + static_cast<uint32_t>(lane);
  uint32_t const tid[3] = {linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
  uint32_t const ntid[3] = {block.x, block.y, block.z};
  Dim3 const& index = w.cta().index();
  uint32_t const ctaid[3] = {index.x, index.y, index.z};
  uint32_t const nctaid[3] = {grid.config.grid.x, grid.config.grid.y, grid.config.grid.z};
  uint32_t const* dims = grid.cluster_dims;
  uint32_t rank = w.cta().rank();
  uint32_t const in_cluster[3] = {rank % dims[0], rank / dims[0] % dims[1], rank / dims[0] / dims[1]};
  uint32_t const clusterid[3] = {ctaid[0] / dims[0], ctaid[1] / dims[1], ctaid[2] / dims[2]};
  struct Vector {
    std::string_view name;
    uint32_t const* values;
  };
  Vector const vectors[] = {{"%tid.", tid},
                            {"%ntid.", ntid},
                            {"%ctaid.", ctaid},
                            {"%nctaid.", nctaid},
                            {"%cluster_ctaid.", in_cluster},
                            {"%cluster_nctaid.", dims},
                            {"%clusterid.", clusterid},
                            {"%nclusterid.", grid.cluster_grid}};
  for (Vector const& v : vectors) {
    if (name.size() == v.name.size() + 1 && name.compare(0, v.name.size(), v.name) == 0) {
      int part = name.back() - 'x';
      return part >= 0 && part < 3 ? v.values[part] : 0;
    }
  }
  uint32_t bit = 1u << lane;
  if (name == "%laneid") return static_cast<uint32_t>(lane);
  if (name == "%warpid") return static_cast<uint32_t>(w.number());
  if (name == "%nwarpid") return 64;
  if (name == "%smid") return static_cast<uint32_t>(index.x % static_cast<uint32_t>(grid.properties->multiprocessors));
  if (name == "%nsmid") return static_cast<uint32_t>(grid.properties->multiprocessors);
  if (name == "%gridid") return static_cast<uint32_t>(grid.number);
  if (name == "%lanemask_eq") return bit;
  if (name == "%lanemask_lt") return bit - 1;
  if (name == "%lanemask_le") return bit | (bit - 1);
  if (name == "%lanemask_gt") return ~(bit | (bit - 1));
  if (name == "%lanemask_ge") return ~(bit - 1);
  if (name == "%cluster_ctarank") return rank;
  if (name == "%cluster_nctarank") return dims[0] * dims[1] * dims[2];
  if (name == "%dynamic_smem_size") return grid.config.dynamic_shared_bytes;
  if (name == "%total_smem_size") return grid.kernel->static_shared + grid.config.dynamic_shared_bytes;
  return 0;
}

}  // namespace

Dim3 Grid::State::first_cta(uint64_t cluster) const {
  Dim3 at;
  at.x = static_cast<uint32_t>(cluster % cluster_grid[0]) * cluster_dims[0];
  at.y = static_cast<uint32_t>(cluster / cluster_grid[0] % cluster_grid[1]) * cluster_dims[1];
  at.z = static_cast<uint32_t>(cluster / cluster_grid[0] / cluster_grid[1]) * cluster_dims[2];
  return at;
}

ClusterRunner::ClusterRunner(std::shared_ptr<Grid::State> grid, uint64_t number, AsyncMode mode)
    : state_(std::move(grid)), mode_(mode), random_(state_->seed * 0x9E3779B97F4A7C15u + number) {
  grid_.state_ = state_;
  cluster_.grid_ = &grid_;
  cluster_.first_ = state_->first_cta(number);
  cluster_.arrivals_wait = mode == AsyncMode::kEager;
  if (state_->track_accesses) cluster_.accesses = std::make_shared<GlobalAccesses>();
  uint32_t size = state_->cluster_dims[0] * state_->cluster_dims[1] * state_->cluster_dims[2];
  cluster_.ctas.resize(size);
  for (uint32_t rank = 0; rank < size; ++rank) make_cta(rank);
  for (Cta& cta : cluster_.ctas) {
    for (Warp& w : cta.warps) order_.push_back(&w);
  }
  running_ = static_cast<uint32_t>(order_.size());
}

ClusterRunner::~ClusterRunner() {
  for (Warp* w : order_) {
    if (free_registers.size() < 64) free_registers.push_back(std::move(w->registers));
  }
  for (Cta& cta : cluster_.ctas) {
    if (free_shared.size() < 16) free_shared.push_back(std::move(cta.shared));
  }
  std::lock_guard<std::mutex> lock(state_->merge_lock);
  state_->tally.merge(cluster_.tally);
  if (cluster_.accesses == nullptr) return;
  state_->accesses.read.merge(cluster_.accesses->read);
  state_->accesses.written.merge(cluster_.accesses->written);
  for (auto& [key, early] : cluster_.accesses->early) {
    EarlyAccess& mine = state_->accesses.early[key];
    if (mine.bytes.empty()) {
      mine.site = early.site;
      mine.is_write = early.is_write;
    }
    mine.bytes.merge(early.bytes);
  }
}

void ClusterRunner::make_cta(uint32_t rank) {
  Cta& cta = cluster_.ctas[rank];
  uint32_t const* dims = state_->cluster_dims;
  Dim3 const& block = state_->config.block;
  cta.cluster_ = &cluster_;
  cta.rank_ = rank;
  cta.index_.x = cluster_.first_.x + rank % dims[0];
  cta.index_.y = cluster_.first_.y + rank / dims[0] % dims[1];
  cta.index_.z = cluster_.first_.z + rank / dims[0] / dims[1];
  cta.threads_ = block.x * block.y * block.z;
  uint32_t warps = (cta.threads_ + kWarpSize - 1) / kWarpSize;
  cta.running_warps = warps;
  uint32_t parties = (warps + 2) * static_cast<uint32_t>(cluster_.ctas.size());
  if (!free_shared.empty()) {
    cta.shared = std::move(free_shared.back());
    free_shared.pop_back();
  }
  cta.shared.resize(&cta, state_->kernel->dynamic_base + state_->config.dynamic_shared_bytes, parties);
  cta.warps.resize(warps);
  for (uint32_t i = 0; i < warps; ++i) {
    Warp& w = cta.warps[i];
    w.cta_ = &cta;
    w.number_ = static_cast<int>(i);
    uint32_t lanes = std::min<uint32_t>(kWarpSize, cta.threads_ - i * kWarpSize);
    w.alive_ = lanes == kWarpSize ? kAllLanes : (1u << lanes) - 1;
    w.clock.resize(parties);
    start_warp(cta, w);
  }
}

void ClusterRunner::start_warp(Cta&, Warp& w) {
  Kernel const& kernel = *state_->kernel;
  if (!free_registers.empty()) {
    w.registers = std::move(free_registers.back());
    free_registers.pop_back();
  }
  if (size_t const bytes = kernel.register_bytes + 64; w.registers.size() < bytes) {
    w.registers.clear();  // nothing of it is copied
    w.registers.resize(bytes);
  }
  w.poison_masks.assign(kernel.poison_masks, kAllLanes);
  w.poison_masks[0] = 0;
  w.local.assign(static_cast<size_t>(kernel.function->local_bytes) * 2 * kWarpSize, 0);
  w.constants_ = kernel.constants.data();
  w.groups.assign(1, Group{0, w.alive_, false, false});
  w.waited = state_->config.programmatic ? 0 : kAllLanes;
  for (Kernel::Preset const& preset : kernel.presets) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      uint64_t value = preset.special.empty()
                           ? static_cast<uint64_t>(w.cta().rank()) << kSharedRankShift | preset.shared_offset
                           : special_value(preset.special, w, lane, *state_);
      std::memcpy(w.registers.data() + preset.slot + lane * preset.width, &value, preset.width);
    }
  }
}

bool ClusterRunner::triggered() const {
  for (Cta const& cta : cluster_.ctas) {
    if (!cta.triggered && !cta.exited()) return false;
  }
  return true;
}

void Cluster::defer(uint64_t chain, std::function<void()> fn) {
  deferred_.push_back({chain, std::move(fn)});
  ++progress;
}

// Completes one asynchronous operation: the oldest, or any that is the first of its chain.
bool ClusterRunner::run_deferred() {
  auto& queue = cluster_.deferred_;
  if (queue.empty()) return false;
  size_t pick = 0;
  if (mode_ != AsyncMode::kEager && state_->seed != 0) {
    pick = random_() % queue.size();
    for (size_t i = 0; i < pick; ++i) {
      if (queue[pick].chain != 0 && queue[i].chain == queue[pick].chain) pick = i;
    }
  }
  std::function<void()> fn = std::move(queue[pick].fn);
  queue.erase(queue.begin() + static_cast<long>(pick));
  fn();
  ++cluster_.progress;
  return true;
}

ClusterRunner::Outcome ClusterRunner::run(uint64_t turns) {
  Kernel const& kernel = *state_->kernel;
  int polled_rounds = 0;
  uint64_t last_progress = cluster_.progress;
  while (running_ > 0) {
    if (state_->aborted.load(std::memory_order_relaxed)) return Outcome::kAborted;
    if (state_->seed != 0) std::shuffle(order_.begin(), order_.end(), random_);
    bool progress = false, polled = false;
    for (Warp* w : order_) {
      if (w->alive_ == 0) continue;
      int quantum = state_->seed == 0 ? 128 : 1 + static_cast<int>(random_() % 200);
      bool hangs = w->hangs_at != nullptr && w->hangs_at->live && w->hangs_at->phase == w->hangs_in_phase;
      w->hangs_at = hangs ? w->hangs_at : nullptr;
      WarpRunner::Turn turn = hangs ? WarpRunner::Turn::kBlocked : WarpRunner::run(*w, kernel, quantum);
      turns -= turns > 0;
      progress |= turn == WarpRunner::Turn::kProgress || turn == WarpRunner::Turn::kExited;
      polled |= turn == WarpRunner::Turn::kPolled;
      if (w->groups.empty()) {
        w->alive_ = 0;
        --running_;
        progress = true;
        if (--w->cta().running_warps == 0) {
          Cta& cta = w->cta();
          if (cta.at_exit) cta.at_exit(*w, kernel.code.back());
          // Stores may still be under way: the hardware keeps a CTA's shared memory until they have read it, and
          // CUTLASS's epilogues end so.
          for (auto& [offset, m] : cta.mbarriers) {
            if (m.live && m.transactions != 0) {
              w->finding(kernel.code.back(), 0, "mbarrier-exit-pending",
                         "the CTA ends while " + std::to_string(m.transactions) +
                             " bytes are outstanding at its mbarrier " + std::to_string(offset));
            }
          }
        }
      } else if (turn == WarpRunner::Turn::kBlocked && WarpRunner::cannot_converge(*w)) {
        Instruction const& in = kernel.code[w->groups[0].pc];
        w->active_ = w->groups[0].mask;
        w->finding(in, w->leader(), "divergent-aligned",
                   "\"" + opcode_text(*in.statement) + "\" needs lanes of its warp that cannot come; " + describe());
        state_->aborted = true;
        return Outcome::kAborted;
      }
    }
    if (mode_ == AsyncMode::kEager) {
      while (run_deferred()) progress = true;
    } else if (mode_ == AsyncMode::kRandom && random_() % 3 == 0) {
      progress |= run_deferred();
    }
    if (cluster_.progress != last_progress) polled_rounds = 0;
    last_progress = cluster_.progress;
    if (!progress) {
      if (run_deferred()) continue;
      if (!polled || ++polled_rounds > 256) return Outcome::kStuck;
    }
    if (turns == 0 && running_ > 0) return Outcome::kExpired;
    // Dependents start as early as they may.
    if (state_->has_dependent && !stepped_aside_ && running_ > 0 && triggered()) {
      stepped_aside_ = true;
      return Outcome::kExpired;
    }
  }
  while (run_deferred()) {
  }
  return Outcome::kFinished;
}

std::string ClusterRunner::describe() {
  std::string text;
  char line[256];
  int shown = 0;
  for (Cta& cta : cluster_.ctas) {
    for (Warp& w : cta.warps) {
      for (Group const& g : w.groups) {
        if (++shown > 48) continue;
        Statement const& at = *state_->kernel->code[g.pc].statement;
        std::snprintf(line, sizeof line, "\n  CTA (%u,%u,%u) warp %d lanes %08x at line %u: ", cta.index().x,
                      cta.index().y, cta.index().z, w.number(), g.mask, at.line);
        text += line + opcode_text(at) + (bulk_unread(w) ? ", with asynchronous stores under way" : "");
      }
    }
    for (auto const& [offset, m] : cta.mbarriers) {
      std::snprintf(line, sizeof line,
                    "\n  CTA rank %u mbarrier 0x%x: phase %llu, %lld of %lld arrivals and %lld bytes missing%s",
                    cta.rank(), offset, static_cast<unsigned long long>(m.phase), static_cast<long long>(m.pending),
                    static_cast<long long>(m.expected), static_cast<long long>(m.transactions),
                    m.live ? "" : " (dead)");
      text += line;
    }
    for (int i = 0; i < 16; ++i) {
      if (cta.barriers[i].expected == 0) continue;
      std::snprintf(line, sizeof line, "\n  CTA rank %u barrier %d: %u of %u threads have arrived", cta.rank(), i,
                    cta.barriers[i].arrived, cta.barriers[i].expected);
      text += line;
    }
  }
  if (cluster_.barrier_arrived != 0) {
    text += "\n  cluster barrier: " + std::to_string(cluster_.barrier_arrived) + " threads have arrived";
  }
  return text;
}

}  // namespace ptxsim
