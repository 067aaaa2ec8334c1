// The simulated machine as instruction handlers see it: Warp (lanes, registers) in a Cta (shared memory, barriers) in a
// Cluster (CTAs that run together) in a Grid (one launch). One host thread runs a cluster at a time, so that handlers
// need no locks except for global memory's read-modify-write (global_lock()).
//
// Order between asynchronous agents is checked with vector clocks: each warp, and each CTA's two agents (tensor copy,
// tensor core), has a clock; barriers and mbarriers carry them. A Stamp is what an operation's issuer knew when it
// issued: complete_tx and arrive take one, so that those who wait on the mbarrier learn it. What handlers do for an
// asynchronous operation:
//   1. at issue: Stamp s = w.stamp(Agent::kTensorCopy, lane); check what it reads with cta.shared.async_read(...) and
//      what it will write with cta.shared.async_write_begin(...) (these report missing fences, pending writes,
//      unordered and never-written bytes, out of bounds);
//   2. w.cluster().defer(chain, fn): fn runs later (at once, at random or as late as possible, by the mode of the run);
//      operations of one chain run in the order of their defer. In fn: move the bytes, cta.shared.async_write_end(...),
//      then mbarrier_complete_tx(cta, offset, s, bytes) or mbarrier_arrive(cta, offset, s, 1).
#ifndef PTXSIM_MACHINE_H_
#define PTXSIM_MACHINE_H_

#include <atomic>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "counts.h"
#include "device.h"
#include "isa.h"
#include "memory/shared.h"
#include "sync/clock.h"
#include "sync/mbarrier.h"

namespace ptxsim {

class Cta;
class Cluster;
class Grid;
class GlobalMemory;
struct Allocation;
struct GlobalAccesses;
class TensorMemory;  // isa/tcgen05*: whoever implements tensor memory defines it

template <class T>
struct Lanes {
  alignas(64) T v[kWarpSize];
};

// A group of lanes of a warp that stand at the same instruction.
struct Group {
  uint32_t pc = 0, mask = 0;
  bool waiting = false;     // its instruction returned kWait
  bool converging = false;  // waits for other lanes to come to the same place
};

// Generic addresses: windows by the top byte; everything else is global.
constexpr int kWindowShift = 56;
constexpr uint64_t kSharedWindow = 1, kLocalWindow = 2, kParamWindow = 3;
constexpr uint32_t kSharedRankShift = 24, kSharedReserved = 0x400;

class Warp {
 public:
  Cta& cta() { return *cta_; }
  Cluster& cluster();
  Grid& grid();
  int number() const { return number_; }       // in the CTA
  uint32_t active() const { return active_; }  // lanes that run this instruction
  uint32_t alive() const { return alive_; }    // lanes that exist and have not exited
  int leader() const { return __builtin_ctz(active_); }

  // Registers. value(): one lane, zero-extended, of at most 8 bytes (value128 for wide ones). lanes(): all 32 as T, in
  // place where the width is T's, else converted (truncated or zero-extended) into scratch.
  uint64_t value(Operand const& op, int lane) const;
  void value128(Operand const& op, int lane, uint64_t out[2]) const;
  float value_float(Operand const& op, int lane) const;
  int64_t value_signed(Operand const& op, int lane) const;  // sign-extended from the operand's width
  template <class T>
  T const* lanes(Operand const& op, Lanes<T>& scratch) const;
  void set(Operand const& op, int lane, uint64_t value);  // low bytes; sinks are ignored; clears the lane's poison
  void set128(Operand const& op, int lane, uint64_t const value[2]);
  void set_float(Operand const& op, int lane, float value);
  // Stores lanes of `active` (zero-extended or truncated to the register) and clears their poison.
  template <class T>
  void store_lanes(Operand const& op, T const* values);
  uint32_t predicate(Operand const& op) const;            // mask with ! applied
  void set_predicate(Operand const& op, uint32_t lanes);  // in active lanes
  uint32_t poison(Operand const& op) const;            // lanes in which a register (or any of a vector's) is undefined
  void set_poison(Operand const& op, uint32_t lanes);  // in active lanes
  // A value that all active lanes must share (descriptors, ids, ...): finding "not-uniform" otherwise.
  uint64_t uniform(Instruction const& in, Operand const& op);
  // Reports "uninitialised" if op is poisoned in an active lane; what: "address", "descriptor", "predicate", ...
  bool require_defined(Instruction const& in, Operand const& op, char const* what);

  // Address of an operand [base+offset] in a lane.
  uint64_t address(Operand const& op, int lane) const;

  // Memory of one lane. The space as the instruction names it (kGeneric: by window). Bounds, alignment and read-only
  // are checked against `bytes` (the alignment asked for, if it is another). On a fault: a finding, false, and zeros.
  // read: *undefined says whether any byte was never written. write: undefined marks the bytes as never written (in
  // global memory it is a finding).
  bool read(Instruction const& in, int lane, Space space, uint64_t address, uint32_t bytes, void* out, bool* undefined,
            uint32_t alignment = 0);
  bool write(Instruction const& in, int lane, Space space, uint64_t address, uint32_t bytes, void const* from,
             bool undefined, uint32_t alignment = 0);
  // The CTA and offset of a shared address (shared::cta, shared::cluster or generic); null with a finding if it is
  // none.
  Cta* shared_target(Instruction const& in, int lane, Space space, uint64_t address, uint32_t* offset);
  // Checks a range of global memory for an access by a lane (allocated, alignment; reads: written; PDL) and gives the
  // host's pointer, null on a fault. For asynchronous copies; they count bytes themselves. After writing:
  // global_wrote().
  uint8_t* global_range(Instruction const& in, int lane, uint64_t address, uint64_t bytes, bool is_write,
                        uint32_t alignment);
  void global_wrote(uint64_t address, uint64_t bytes);

  Stamp stamp(Agent agent, int lane);  // what this lane knows now; the agent's clock advances
  // The warp learns what an asynchronous operation's completion says (after wait_group and the like; mbarriers do it
  // themselves).
  void learn(Stamp const& stamp) { clock.join(stamp.clock); }
  // The clock for others to learn from (an arrival): everything this warp did before is ordered before what they do
  // then.
  Clock const& release();
  // fence.proxy.async of the active lanes.
  void fence_proxy_async();

  // The lanes of mask are needed here together (.aligned with mask = alive(), or a membermask). True: they are here.
  // False: the handler must return kWait; the machine runs the others until they come, or reports "divergent-aligned".
  bool converged(uint32_t mask);

  void finding(Instruction const& in, int lane, std::string check, std::string message);

  Group& group() { return groups[current]; }

  // Of the engine.
  bool polling = false;  // the instruction just run failed to observe something (test_wait, a spin): yield
  std::vector<uint8_t> registers;
  std::vector<uint32_t> poison_masks;
  std::vector<uint8_t> watched;  // of isa/register_watch.cpp, by number of the poison mask
  std::vector<uint8_t> local;
  uint32_t carry = 0, carry_poison = kAllLanes;  // CC.CF: lanes in which it is set; in which it is undefined
  Clock clock;
  std::vector<Group> groups;
  size_t current = 0;     // the group that runs
  uint32_t waited = 0;    // lanes that are ordered after griddepcontrol.wait
  uint32_t released = 0;  // lanes let go by bar.warp.sync
  struct Arrival {
    uint64_t round = 0;
    bool pending = false;
  } barrier_arrival;                         // at a named barrier, which it waits for
  bool cancel_failed = false;                // saw clusterlaunchcontrol fail
  std::map<uint32_t, uint64_t> waits_since;  // mbarriers that a try_wait hangs at: their phase when it began
  // The whole warp waits for this mbarrier to leave this phase: the engine need not ask it before.
  Mbarrier const* hangs_at = nullptr;
  uint64_t hangs_in_phase = 0;
  uint32_t cluster_arrived = 0;          // lanes between barrier.cluster.arrive and wait
  uint64_t cluster_round = 0;            // in which they arrived
  uint32_t cluster_held = 0;             // lanes whose arrival waits (Cluster::arrivals_wait)
  Clock fenced;                          // what was known at the last fence: relaxed arrivals make it known
  std::shared_ptr<void> async_copies;    // of isa/async_copy.cpp
  std::shared_ptr<void> bulk_groups;     // of isa/bulk.cpp
  uint32_t fence_epoch[kWarpSize] = {};  // fence.proxy.async executed by each lane so far
  uint64_t steps = 0;

 private:
  friend class Engine;
  friend class Cta;
  friend class Cluster;
  friend class WarpRunner;
  friend class ClusterRunner;
  Cta* cta_ = nullptr;
  int number_ = 0;
  uint32_t active_ = 0, alive_ = 0;
  uint8_t const* constants_ = nullptr;
  Allocation const* last_allocation_ = nullptr;
};

struct NamedBarrier {
  uint32_t expected = 0;     // threads of the current round; 0: idle
  bool all_threads = false;  // no count was given: all that still run
  uint32_t arrived = 0;
  uint64_t round = 0;
  Clock gathering, knowledge;
  bool gathering_waited = false, waited = false;
  uint32_t reduction_and = 1, reduction_or = 0, reduction_count = 0;  // of the round that ended
  uint32_t gathering_and = 1, gathering_or = 0, gathering_count = 0;
};

class Cta {
 public:
  Cluster& cluster() { return *cluster_; }
  uint32_t rank() const { return rank_; }       // in the cluster
  Dim3 const& index() const { return index_; }  // %ctaid
  uint32_t threads() const { return threads_; }
  bool exited() const { return running_warps == 0; }

  SharedMemory shared;
  std::map<uint32_t, Mbarrier> mbarriers;  // by offset
  NamedBarrier barriers[16];
  std::deque<Warp> warps;
  std::shared_ptr<TensorMemory> tensor;                    // made by the first tcgen05.alloc
  std::function<void(Warp&, Instruction const&)> at_exit;  // run when the last warp exits (leaks), if set
  uint32_t running_warps = 0;
  bool triggered = false;       // launch_dependents by every thread that still ran, or by some: see griddepcontrol
  uint32_t agent_time[3] = {};  // operations issued by each agent
  size_t party(Agent agent, int warp = 0) const;  // number in the cluster's clocks

 private:
  friend class Cluster;
  friend class Engine;
  friend class WarpRunner;
  friend class ClusterRunner;
  Cluster* cluster_ = nullptr;
  uint32_t rank_ = 0, threads_ = 0;
  Dim3 index_;
};

class Cluster {
 public:
  Grid& grid() { return *grid_; }
  uint32_t size() const { return static_cast<uint32_t>(ctas.size()); }
  Cta& cta(uint32_t rank) { return ctas[rank]; }
  Dim3 const& first() const { return first_; }  // %ctaid of its first CTA

  // Queues the completion of an asynchronous operation. Chains (any number but 0) keep their order; a chain of 0 is
  // ordered with nothing. The machine does not end while some are left.
  void defer(uint64_t chain, std::function<void()> fn);

  std::deque<Cta> ctas;
  Tally tally;
  std::shared_ptr<GlobalAccesses> accesses;  // if they are tracked
  uint64_t progress = 0;                     // side effects so far: bump it in every operation that others can observe
  std::shared_ptr<void> bulk_tickets;        // of isa/bulk.cpp
  // barrier.cluster
  uint32_t barrier_arrived = 0;
  uint64_t barrier_round = 0;
  Clock barrier_gathering, barrier_knowledge;
  bool barrier_gathering_waited = false, barrier_waited = false;
  bool arrivals_wait = false;  // for all others, as under compute-sanitizer

 private:
  friend class Engine;
  friend class WarpRunner;
  friend class ClusterRunner;
  Grid* grid_ = nullptr;
  Dim3 first_;
  struct Deferred {
    uint64_t chain;
    std::function<void()> fn;
  };
  std::deque<Deferred> deferred_;
};

// mbarrier operations on the object at offset of a CTA, on behalf of a warp (checks with names "mbarrier-...").
void mbarrier_init(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset, int64_t count);
void mbarrier_invalidate(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset);
// Null with a finding if no live object is there. remote: the operation comes from another CTA.
Mbarrier* mbarrier_find(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset);
void mbarrier_expect_tx(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset, int64_t bytes);
// By a thread (its own knowledge goes with it).
void mbarrier_arrive(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset, int64_t count);
// By asynchronous operations when they complete; the site says whose fault a misuse is.
struct Site {
  std::string kernel;
  Dim3 cta;
  int warp = -1, lane = -1;
  Statement const* statement = nullptr;
};
Site site(Warp& w, Instruction const& in, int lane);
void mbarrier_complete_tx(Site const& site, Cta& cta, uint32_t offset, Stamp const& stamp, int64_t bytes);
void mbarrier_arrive(Site const& site, Cta& cta, uint32_t offset, Stamp const& stamp, int64_t count);
// True iff the phase of that parity has completed; then the warp learns what was known by those who completed it.
bool mbarrier_test_parity(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset, uint32_t parity);

// Bulk-copy groups of a thread (cp.async.bulk.commit_group / wait_group): what isa/bulk.cpp offers to tensor stores.
// An operation of the current, uncommitted group. It counts as read when bulk_read() and as complete when bulk_done()
// is called with the ticket that it got.
uint64_t bulk_group_add(Warp& w, int lane);
void bulk_read(Cluster& cluster, uint64_t ticket);
void bulk_done(Cluster& cluster, uint64_t ticket);
// A store by the warp may still read its source.
bool bulk_unread(Warp& w);

// A launch.
class Grid {
 public:
  Properties const& properties() const;
  LaunchConfig const& config() const;
  std::string const& kernel_name() const;  // demangled
  std::vector<uint8_t> const& parameters() const;
  GlobalMemory& global();
  void finding(Site const& site, std::string check, std::string message);
  std::mutex& global_lock();
  // clusterlaunchcontrol: takes a cluster that has not started; false if there is none.
  bool take_cluster(Dim3* first_cta);
  uint64_t random();  // of the run's seed
  struct State;
  State& state() { return *state_; }

 private:
  friend class Engine;
  friend class ClusterRunner;
  std::shared_ptr<State> state_;
};

template <class T>
T const* Warp::lanes(Operand const& op, Lanes<T>& scratch) const {
  uint8_t const* base = (op.kind == Operand::Kind::kConstant ? constants_ : registers.data()) + op.slot;
  if (op.width == sizeof(T)) return reinterpret_cast<T const*>(base);
  for (int i = 0; i < kWarpSize; ++i) {
    T v = 0;
    std::memcpy(&v, base + static_cast<size_t>(i) * op.width, std::min<size_t>(sizeof(T), op.width));
    scratch.v[i] = v;
  }
  return scratch.v;
}

template <class T>
void Warp::store_lanes(Operand const& op, T const* values) {
  if (op.kind == Operand::Kind::kSink) return;
  uint8_t* base = registers.data() + op.slot;
  poison_masks[op.poison] &= ~active_;
  if (op.width == sizeof(T)) {
    T* to = reinterpret_cast<T*>(base);
    if (active_ == kAllLanes) {
      std::memcpy(to, values, sizeof(T) * kWarpSize);
    } else {
      for (int i = 0; i < kWarpSize; ++i) to[i] = (active_ >> i & 1) ? values[i] : to[i];
    }
    return;
  }
  for (int i = 0; i < kWarpSize; ++i) {
    if (active_ >> i & 1) set(op, i, static_cast<uint64_t>(values[i]));
  }
}

}  // namespace ptxsim

#endif
