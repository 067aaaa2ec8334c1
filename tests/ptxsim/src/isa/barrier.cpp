// Named barriers of a CTA, the barrier of a cluster, and fences.
#include <algorithm>

#include "isa/tensor.h"
#include "kernel.h"
#include "machine.h"

namespace ptxsim {
namespace {

enum class Kind : uint8_t { kSync, kArrive, kReduce };
struct Barrier {
  Kind kind = Kind::kSync;
  int reduction = -1;  // 0 popc, 1 and, 2 or
};

// Threads that a barrier without a count waits for: those of the warps that still run.
uint32_t running_threads(Cta& cta) {
  uint32_t n = 0;
  for (Warp& w : cta.warps) n += w.alive() != 0 ? kWarpSize : 0;
  return n;
}

void complete_if_all(Cta& cta, NamedBarrier& b) {
  uint32_t needed = b.all_threads ? running_threads(cta) : b.expected;
  if (b.expected == 0 || b.arrived < needed) return;
  ++b.round;
  b.knowledge.join(b.gathering);
  b.gathering = Clock();
  b.waited |= b.gathering_waited;
  b.gathering_waited = false;
  b.reduction_and = b.gathering_and;
  b.reduction_or = b.gathering_or;
  b.reduction_count = b.gathering_count;
  b.gathering_and = 1;
  b.gathering_or = b.gathering_count = 0;
  b.arrived = b.expected = 0;
  ++cta.cluster().progress;
}

Step run_barrier(Warp& w, Instruction const& in) {
  Barrier const& kind = in.decoded<Barrier>();
  int first = kind.kind == Kind::kReduce ? 1 : 0;
  Cta& cta = w.cta();
  uint64_t id = w.uniform(in, in.operands[first]);
  if (id > 15) {
    w.finding(in, w.leader(), "barrier-id", "barrier " + std::to_string(id) + " of 16");
    id &= 15;
  }
  NamedBarrier& b = cta.barriers[id];
  int counted = first + (kind.kind == Kind::kReduce ? in.operand_count - 3 : in.operand_count - 1);
  bool all = counted < 1 + first;
  uint32_t count = (cta.threads() + kWarpSize - 1) / kWarpSize * kWarpSize;
  if (!all) count = static_cast<uint32_t>(w.uniform(in, in.operands[first + 1]));
  if (!w.barrier_arrival.pending) {
    if (count == 0 || count % kWarpSize != 0 || (kind.kind == Kind::kArrive && all)) {
      w.finding(in, w.leader(), "barrier-count", std::to_string(count) + " threads: not a multiple of the warp");
      return Step::kNext;
    }
    if (b.expected != 0 && b.expected != count) {
      w.finding(in, w.leader(), "barrier-count",
                "barrier " + std::to_string(id) + " waits for " + std::to_string(b.expected) + " threads, this for " +
                    std::to_string(count));
    }
    b.expected = count;
    b.all_threads = all;
    b.arrived += kWarpSize;
    b.gathering.join(w.release());
    b.gathering_waited |= w.waited != 0;
    if (kind.kind == Kind::kReduce) {
      uint32_t votes = w.predicate(in.operands[in.operand_count - 1]) & w.active();
      b.gathering_and &= votes == w.active();
      b.gathering_or |= votes != 0;
      b.gathering_count += static_cast<uint32_t>(__builtin_popcount(votes));
    }
    if (b.arrived > count) {
      w.finding(in, w.leader(), "barrier-count",
                "more than " + std::to_string(count) + " threads arrive at barrier " + std::to_string(id));
    }
    w.barrier_arrival.round = b.round;
    ++w.cluster().progress;
    if (kind.kind == Kind::kArrive) {
      complete_if_all(cta, b);
      return Step::kNext;
    }
    w.barrier_arrival.pending = true;
  }
  if (b.round == w.barrier_arrival.round) complete_if_all(cta, b);
  if (b.round == w.barrier_arrival.round) return Step::kWait;
  w.barrier_arrival.pending = false;
  w.clock.join(b.knowledge);
  if (b.waited) w.waited |= w.active();
  w.cluster().tally.add(Wait::kBarrier);
  if (kind.kind == Kind::kReduce) {
    if (kind.reduction == 0) {
      for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
        w.set(in.operands[0], __builtin_ctz(rest), b.reduction_count);
      }
    } else {
      w.set_predicate(in.operands[0], (kind.reduction == 1 ? b.reduction_and : b.reduction_or) ? kAllLanes : 0);
    }
  }
  return Step::kNext;
}

uint32_t cluster_threads(Cluster& cluster) {
  uint32_t n = 0;
  for (Cta& cta : cluster.ctas) {
    for (Warp& w : cta.warps) n += static_cast<uint32_t>(__builtin_popcount(w.alive()));
  }
  return n;
}

void complete_cluster_barrier(Cluster& c) {
  if (c.barrier_arrived == 0 || c.barrier_arrived < cluster_threads(c)) return;
  ++c.barrier_round;
  c.barrier_arrived = 0;
  c.barrier_knowledge.join(c.barrier_gathering);
  c.barrier_gathering = Clock();
  c.barrier_waited |= c.barrier_gathering_waited;
  c.barrier_gathering_waited = false;
  ++c.progress;
}

// in.variant: 1 relaxed: orders only what a fence stands behind.
Step run_cluster_arrive(Warp& w, Instruction const& in) {
  Cluster& c = w.cluster();
  if ((w.active() & ~w.cluster_held) == 0) {
    if (c.barrier_round == w.cluster_round) complete_cluster_barrier(c);
    if (c.barrier_round == w.cluster_round) return Step::kWait;
    w.cluster_held &= ~w.active();
    return Step::kNext;
  }
  uint32_t again = w.cluster_arrived & w.active();
  if (again != 0) {
    w.finding(in, __builtin_ctz(again), "cluster-barrier",
              "a thread arrives twice at the cluster's barrier without waiting");
  }
  w.cluster_arrived |= w.active();
  w.cluster_round = c.barrier_round;
  c.barrier_arrived += static_cast<uint32_t>(__builtin_popcount(w.active()));
  if (in.variant) {
    // Strictly, only what stands before a fence is ordered. CUTLASS initialises one mbarrier (of the deallocation of
    // tensor memory) between its last fence and the arrival; taken as right where the warp has fenced its others.
    size_t const me = w.cta().party(Agent::kWarp, w.number());
    for (auto& [offset, m] : w.cta().mbarriers) {
      if (w.fenced.size() > me && m.init_party == me) m.init_time = std::min(m.init_time, w.fenced[me]);
    }
    c.barrier_gathering.join(w.fenced);
  } else {
    c.barrier_gathering.join(w.release());
  }
  c.barrier_gathering_waited |= w.waited != 0;
  ++c.progress;
  complete_cluster_barrier(c);
  if (!c.arrivals_wait || c.barrier_round != w.cluster_round) return Step::kNext;
  w.cluster_held |= w.active();
  return Step::kWait;
}

Step run_cluster_wait(Warp& w, Instruction const& in) {
  Cluster& c = w.cluster();
  uint32_t without = w.active() & ~w.cluster_arrived;
  if (without != 0) {
    w.finding(in, __builtin_ctz(without), "cluster-barrier",
              "barrier.cluster.wait without barrier.cluster.arrive before it");
    return Step::kNext;
  }
  if (c.barrier_round == w.cluster_round) complete_cluster_barrier(c);
  if (c.barrier_round == w.cluster_round) return Step::kWait;
  w.cluster_arrived &= ~w.active();
  w.clock.join(c.barrier_knowledge);
  if (c.barrier_waited) w.waited |= w.active();
  c.tally.add(Wait::kCluster);
  return Step::kNext;
}

// What relaxed arrivals behind it make known.
Step run_fence(Warp& w, Instruction const&) {
  w.fenced = w.release();
  return Step::kNext;
}

Step run_fence_proxy(Warp& w, Instruction const&) {
  w.fence_proxy_async();
  return Step::kNext;
}

Step run_nothing(Warp&, Instruction const&) { return Step::kNext; }

Handler decode_cluster(Decoder& d) {
  bool arrive = d.take("arrive");
  if (!arrive && !d.take("wait")) return d.fail("neither .arrive nor .wait");
  int order = d.take_one_of({"release", "relaxed", "acquire"});
  d.instruction().variant = order == 1;
  d.instruction().aligned = d.take("aligned");
  d.instruction().category = Class::kBarrier;
  if (!d.operands(0, 0)) return nullptr;
  return arrive ? run_cluster_arrive : run_cluster_wait;
}

}  // namespace

Handler decode_bar_warp(Decoder& d);

Handler decode_barrier(Decoder& d) {
  if (d.has("warp")) return decode_bar_warp(d);
  if (d.take("cluster")) return decode_cluster(d);
  d.take("cta");
  auto barrier = std::make_shared<Barrier>();
  int kind = d.take_one_of({"sync", "arrive", "red"});
  if (kind < 0) return d.fail("neither .sync, .arrive nor .red");
  barrier->kind = static_cast<Kind>(kind);
  if (kind == 2) {
    barrier->reduction = d.take_one_of({"popc", "and", "or"});
    Type type;
    if (barrier->reduction < 0 || !d.take_type(&type)) return d.fail("no reduction");
  }
  // Without .aligned, lanes may come one after the other; they count together all the same.
  d.take("aligned");
  d.instruction().aligned = true;
  int least = kind == 0 ? 1 : kind == 1 ? 2 : 3;
  if (!d.operands(least, kind == 2 ? 4 : 2)) return nullptr;
  d.instruction().data = barrier;
  d.instruction().category = Class::kBarrier;
  return run_barrier;
}

Handler decode_fence(Decoder& d) {
  d.instruction().category = Class::kFence;
  if (is_tensormap_fence(d)) return decode_tensormap_fence(d);
  if (d.take("mbarrier_init")) {
    d.take("release");
    return d.take("cluster") && d.operands(0, 0) ? run_fence : d.fail("this scope");
  }
  if (d.take("proxy")) {
    if (d.take_one_of({"async", "async::generic"}) >= 0) {
      d.take_one_of({"acquire", "release"});
      d.take_one_of({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
      d.take_one_of({"cta", "cluster", "gpu", "sys"});
      d.take_one_of({"global", "shared::cta", "shared::cluster", "shared"});
      return run_fence_proxy;
    }
    return d.take("alias") ? run_nothing : d.fail("this proxy");
  }
  d.take_one_of({"sc", "acq_rel", "acquire", "release"});
  d.take_one_of({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
  d.take_one_of({"cta", "cluster", "gpu", "sys"});
  return d.operands(0, 0) ? run_fence : nullptr;
}

Handler decode_membar(Decoder& d) {
  d.instruction().category = Class::kFence;
  d.take_one_of({"cta", "gl", "sys"});
  return d.operands(0, 0) ? run_fence : nullptr;
}

}  // namespace ptxsim
