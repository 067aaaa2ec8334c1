#include "isa/bulk.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "isa/atomic.h"
#include "isa/memory_modifiers.h"
#include "machine.h"
#include "memory/global.h"

namespace ptxsim {
namespace {

// Tickets of the cluster that are not yet read, and not yet done.
struct Tickets {
  uint64_t next = 1;
  std::set<uint64_t> unread, undone;
};
struct Groups {
  std::vector<uint64_t> current[kWarpSize];
  std::deque<std::vector<uint64_t>> committed[kWarpSize];
  std::map<uint64_t, uint32_t> times;  // of the operations on the clock of the CTA's copies
};

Tickets& tickets(Cluster& c) {
  if (c.bulk_tickets == nullptr) c.bulk_tickets = std::make_shared<Tickets>();
  return *static_cast<Tickets*>(c.bulk_tickets.get());
}
Groups& groups(Warp& w) {
  if (w.bulk_groups == nullptr) w.bulk_groups = std::make_shared<Groups>();
  return *static_cast<Groups*>(w.bulk_groups.get());
}

Step run_commit(Warp& w, Instruction const&) {
  Groups& g = groups(w);
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    g.committed[lane].push_back(std::move(g.current[lane]));
    g.current[lane].clear();
  }
  return Step::kNext;
}

Step run_wait(Warp& w, Instruction const& in) {
  Groups& g = groups(w);
  Tickets& t = tickets(w.cluster());
  std::set<uint64_t> const& open = in.variant ? t.unread : t.undone;
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    auto const& mine = g.committed[__builtin_ctz(rest)];
    for (size_t i = 0; i + static_cast<size_t>(in.aux) < mine.size(); ++i) {
      for (uint64_t ticket : mine[i]) {
        if (open.count(ticket)) return Step::kWait;
      }
    }
  }
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    auto& mine = g.committed[__builtin_ctz(rest)];
    auto done = [&](std::vector<uint64_t> const& group) {
      for (uint64_t ticket : group) {
        if (t.undone.count(ticket)) return false;
      }
      return true;
    };
    // The warp learns that the copies have read (or are done).
    size_t const party = w.cta().party(Agent::kTensorCopy);
    for (size_t i = 0; i + static_cast<size_t>(in.aux) < mine.size(); ++i) {
      for (uint64_t ticket : mine[i]) w.clock.set(party, std::max(w.clock[party], g.times[ticket]));
    }
    while (!mine.empty() && mine.size() > static_cast<size_t>(in.aux) && done(mine.front())) {
      for (uint64_t ticket : mine.front()) g.times.erase(ticket);
      mine.pop_front();
    }
  }
  return Step::kNext;
}

struct Bulk {
  enum class Way : uint8_t { kGlobalToShared, kSharedToShared, kSharedToGlobal, kPrefetch } way = Way::kGlobalToShared;
  bool multicast = false;
  AtomicOperation reduction = AtomicOperation::kNone;  // kNone: a copy
  Type type;                                           // of what is reduced
};

void reduce(Bulk const& bulk, uint8_t* to, uint8_t const* from, uint32_t bytes) {
  for (uint32_t i = 0; i + bulk.type.bytes <= bytes; i += bulk.type.bytes) {
    uint64_t old = 0, value = 0;
    std::memcpy(&old, to + i, bulk.type.bytes);
    std::memcpy(&value, from + i, bulk.type.bytes);
    old = atomic_result(bulk.reduction, bulk.type, old, value);
    std::memcpy(to + i, &old, bulk.type.bytes);
  }
}

// The bytes of a copy as lane `lane` names them; multiples of 16 throughout.
bool check_size(Warp& w, Instruction const& in, int lane, uint32_t bytes, uint32_t offset) {
  if (bytes % 16 == 0 && offset % 16 == 0) return true;
  w.finding(in, lane, "bulk-misaligned", "size and addresses of a bulk copy must be multiples of 16");
  return false;
}

void copy_in(Warp& w, Instruction const& in, int lane, Bulk const& bulk) {
  uint32_t bytes = static_cast<uint32_t>(w.value(in.operands[2], lane));
  uint32_t offset, barrier, source_offset = 0;
  Cta* target = w.shared_target(in, lane, Space::kSharedCluster, w.address(in.operands[0], lane), &offset);
  Cta* barrier_cta = w.shared_target(in, lane, Space::kSharedCluster, w.address(in.operands[3], lane), &barrier);
  if (target == nullptr || barrier_cta == nullptr || !check_size(w, in, lane, bytes, offset)) return;
  Stamp stamp = w.stamp(Agent::kTensorCopy, lane);
  std::vector<uint8_t> data(bytes);
  if (bulk.way == Bulk::Way::kSharedToShared) {
    Cta* source = w.shared_target(in, lane, Space::kShared, w.address(in.operands[1], lane), &source_offset);
    if (source == nullptr || !check_size(w, in, lane, bytes, source_offset)) return;
    if (!source->shared.async_read(w, in, lane, source_offset, bytes, stamp)) return;
    std::memcpy(data.data(), source->shared.bytes() + source_offset, bytes);
  } else {
    uint64_t address = w.address(in.operands[1], lane);
    uint8_t const* from = w.global_range(in, lane, address, bytes, false, 16);
    if (from == nullptr) return;
    std::memcpy(data.data(), from, bytes);
  }
  w.cluster().tally.add(Traffic::kBulkLoad, bytes);
  uint32_t mask = bulk.multicast ? static_cast<uint32_t>(w.value(in.operands[4], lane)) : 1u << target->rank();
  Site where = site(w, in, lane);
  Cluster* cluster = &w.cluster();
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    uint32_t rank = static_cast<uint32_t>(__builtin_ctz(rest));
    if (rank >= cluster->size()) {
      w.finding(in, lane, "bad-cta-rank", "a multicast names a CTA that the cluster does not have");
      break;
    }
    Cta* to = &cluster->cta(rank);
    if (!to->shared.async_write_begin(w, in, lane, offset, bytes, stamp)) continue;
    Cta* signalled = bulk.multicast ? to : barrier_cta;
    cluster->defer(0, [=] {
      std::memcpy(to->shared.bytes() + offset, data.data(), bytes);
      to->shared.async_write_end(offset, bytes, stamp);
      mbarrier_complete_tx(where, *signalled, barrier, stamp, bytes);
    });
  }
}

void copy_out(Warp& w, Instruction const& in, int lane, Bulk const& bulk) {
  uint32_t bytes = static_cast<uint32_t>(w.value(in.operands[2], lane));
  uint32_t offset;
  Cta* source = w.shared_target(in, lane, Space::kShared, w.address(in.operands[1], lane), &offset);
  uint64_t address = w.address(in.operands[0], lane);
  if (source == nullptr || !check_size(w, in, lane, bytes, offset)) return;
  Stamp stamp = w.stamp(Agent::kTensorCopy, lane);
  if (!source->shared.async_read(w, in, lane, offset, bytes, stamp)) return;
  bool const reduces = bulk.reduction != AtomicOperation::kNone;
  if (reduces && w.global_range(in, lane, address, bytes, false, 16) == nullptr) return;
  uint8_t* to = w.global_range(in, lane, address, bytes, true, 16);
  if (to == nullptr) return;
  w.cluster().tally.add(Traffic::kBulkStore, bytes);
  source->shared.source_begin(offset, bytes);
  uint64_t ticket = bulk_group_add(w, lane);
  Warp* warp = &w;
  Cluster* cluster = &w.cluster();
  Bulk const* const what = &bulk;
  cluster->defer(0, [=] {
    if (reduces) {
      std::lock_guard<std::mutex> const lock(cluster->grid().global_lock());
      reduce(*what, to, source->shared.bytes() + offset, bytes);
    } else {
      std::memcpy(to, source->shared.bytes() + offset, bytes);
    }
    source->shared.source_end(offset, bytes);
    warp->global_wrote(address, bytes);
    bulk_read(*cluster, ticket);
    bulk_done(*cluster, ticket);
  });
}

Step run_bulk(Warp& w, Instruction const& in) {
  Bulk const& bulk = in.decoded<Bulk>();
  for (uint32_t rest = w.active(); rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    switch (bulk.way) {
      case Bulk::Way::kGlobalToShared:
      case Bulk::Way::kSharedToShared:
        copy_in(w, in, lane, bulk);
        break;
      case Bulk::Way::kSharedToGlobal:
        copy_out(w, in, lane, bulk);
        break;
      case Bulk::Way::kPrefetch:
        break;
    }
  }
  return Step::kNext;
}

}  // namespace

uint64_t bulk_group_add(Warp& w, int lane) {
  Tickets& t = tickets(w.cluster());
  uint64_t ticket = t.next++;
  t.unread.insert(ticket);
  t.undone.insert(ticket);
  Groups& g = groups(w);
  g.current[lane].push_back(ticket);
  g.times[ticket] = w.cta().agent_time[static_cast<int>(Agent::kTensorCopy)];
  return ticket;
}

void bulk_read(Cluster& cluster, uint64_t ticket) { tickets(cluster).unread.erase(ticket); }

void bulk_done(Cluster& cluster, uint64_t ticket) {
  tickets(cluster).unread.erase(ticket);
  tickets(cluster).undone.erase(ticket);
  ++cluster.progress;
}

bool bulk_unread(Warp& w) {
  if (w.bulk_groups == nullptr) return false;
  Groups const& g = groups(w);
  Tickets const& t = tickets(w.cluster());
  auto open = [&](std::vector<uint64_t> const& group) {
    return std::any_of(group.begin(), group.end(), [&](uint64_t ticket) { return t.unread.count(ticket) != 0; });
  };
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (open(g.current[lane])) return true;
    for (auto const& group : g.committed[lane]) {
      if (open(group)) return true;
    }
  }
  return false;
}

Handler decode_bulk(Decoder& d) {
  d.instruction().category = Class::kAsyncCopy;
  if (!d.take("async") || !d.take("bulk")) return d.fail("this form");
  if (d.take("commit_group")) return d.operands(0, 0) ? run_commit : nullptr;
  if (d.take("wait_group")) {
    d.instruction().variant = d.take("read");
    int64_t n;
    if (!d.operands(1, 1) || !d.immediate(0, &n)) return d.fail("no number of groups");
    d.instruction().aux = n;
    return run_wait;
  }
  auto bulk = std::make_shared<Bulk>();
  d.instruction().data = bulk;
  if (d.take("reduce")) {
    bulk->reduction = take_atomic_operation(d);
    d.take("noftz");
    if (!d.take_type(&bulk->type) || !exists(bulk->reduction, bulk->type) ||
        bulk->reduction == AtomicOperation::kExchange || bulk->reduction == AtomicOperation::kCompare)
      return d.fail("this reduction");
  }
  if (d.take("prefetch")) {
    bulk->way = Bulk::Way::kPrefetch;
    take_cache_modifiers(d);
    return d.take("L2") && d.take("global") && d.operands(2, 3) ? run_bulk : d.fail("this form");
  }
  // The order of the spaces says which is the destination.
  std::string_view first = d.take_first();
  std::string_view second = d.take_first();
  bool barrier = d.take("mbarrier::complete_tx::bytes");
  bool group = d.take("bulk_group");
  bulk->multicast = d.take("multicast::cluster");
  take_cache_modifiers(d);
  bool to_shared = first == "shared::cluster" || first == "shared::cta";
  bool const reduces = bulk->reduction != AtomicOperation::kNone;
  if (to_shared && second == "global" && barrier && !reduces) {
    bulk->way = Bulk::Way::kGlobalToShared;
    return d.operands(4, 6) ? run_bulk : nullptr;
  }
  if (first == "shared::cluster" && second == "shared::cta" && barrier && !reduces) {
    bulk->way = Bulk::Way::kSharedToShared;
    return d.operands(4, 4) ? run_bulk : nullptr;
  }
  if (first == "global" && second == "shared::cta" && group) {
    bulk->way = Bulk::Way::kSharedToGlobal;
    return d.operands(3, 4) ? run_bulk : nullptr;
  }
  return d.fail("this form");
}

}  // namespace ptxsim
