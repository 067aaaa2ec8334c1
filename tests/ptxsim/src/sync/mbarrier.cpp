// Operations on mbarrier objects: phases, arrivals, transaction bytes, and their misuse.
#include "sync/mbarrier.h"

#include <cstdio>

#include "engine/grid.h"
#include "machine.h"

namespace ptxsim {
namespace {

constexpr int64_t kMaxCount = (1 << 20) - 1;

std::string place(Cta& cta, uint32_t offset) {
  char text[64];
  std::snprintf(text, sizeof text, "mbarrier 0x%x of CTA %u of the cluster", offset, cta.rank());
  return text;
}

// A phase ends when nothing is missing.
void complete_if_done(Cta& cta, Mbarrier& m) {
  ++cta.cluster().progress;
  if (m.pending != 0 || m.transactions != 0) return;
  ++m.phase;
  m.pending = m.expected;
  m.knowledge.join(m.gathering);
  m.waited |= m.gathering_waited;
  m.gathering = Clock();
  m.gathering_waited = false;
}

// who: a function that gives the Site. It is called if there is something to report.
template <class Who>
void check_counts(Who who, Cta& cta, uint32_t offset, Mbarrier& m) {
  Grid& grid = cta.cluster().grid();
  if (m.pending < 0) {
    grid.finding(who(), "mbarrier-overflow",
                 "more arrivals in one phase than the " + std::to_string(m.expected) + " that " + place(cta, offset) +
                     " expects");
    m.pending = 0;
  }
  if (m.transactions > kMaxCount || m.transactions < -kMaxCount) {
    grid.finding(who(), "mbarrier-transactions",
                 "transaction count " + std::to_string(m.transactions) + " is out of range at " + place(cta, offset));
    m.transactions = 0;
  }
}

template <class Who>
Mbarrier* find_live(Who who, Cta& cta, uint32_t offset) {
  auto found = cta.mbarriers.find(offset);
  if (found != cta.mbarriers.end() && found->second.live) return &found->second;
  cta.cluster().grid().finding(who(), "mbarrier-uninitialised", "no mbarrier object lives here: " + place(cta, offset));
  return nullptr;
}

}  // namespace

void mbarrier_init(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset, int64_t count) {
  if (offset % 8 != 0) w.finding(in, lane, "shared-misaligned", "an mbarrier object must be aligned to 8 bytes");
  if (!cta.shared.in_bounds(offset, 8)) {
    w.finding(in, lane, "shared-out-of-bounds", place(cta, offset) + " lies outside of shared memory");
    return;
  }
  if (count < 1 || count > kMaxCount) {
    w.finding(in, lane, "mbarrier-count", "an mbarrier's count must be 1 to 2^20 - 1, not " + std::to_string(count));
    return;
  }
  Mbarrier& m = cta.mbarriers[offset];
  if (m.live) {
    w.finding(in, lane, "mbarrier-reinitialised",
              place(cta, offset) + " is initialised again without mbarrier.inval in between");
  } else {
    cta.shared.generic_write(w, in, lane, offset, 8, false);
  }
  m = Mbarrier();
  m.live = true;
  m.expected = m.pending = count;
  m.init_party = static_cast<uint32_t>(w.cta().party(Agent::kWarp, w.number()));
  m.init_time = w.clock[m.init_party] + 1;
  cta.shared.mark(offset, 8, SharedMemory::kMbarrier, 0);
  ++w.cluster().progress;
}

void mbarrier_invalidate(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset) {
  Mbarrier* m = mbarrier_find(w, in, lane, cta, offset);
  if (m == nullptr) return;
  if (m->transactions != 0) {
    w.finding(in, lane, "mbarrier-pending", place(cta, offset) + " is invalidated while bytes are outstanding");
  }
  m->live = false;
  cta.shared.mark(offset, 8, 0, SharedMemory::kMbarrier | SharedMemory::kWritten);
}

Mbarrier* mbarrier_find(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset) {
  if (&cta != &w.cta() && cta.exited()) {
    w.finding(in, lane, "remote-exited", "operation on " + place(cta, offset) + ", which has exited");
    return nullptr;
  }
  Mbarrier* m = find_live([&] { return site(w, in, lane); }, cta, offset);
  if (m == nullptr) return nullptr;
  if (w.cta().party(Agent::kWarp, w.number()) != m->init_party && w.clock[m->init_party] < m->init_time) {
    w.finding(in, lane, "mbarrier-init-race",
              "use of " + place(cta, offset) + " without a barrier behind its mbarrier.init");
  }
  return m;
}

void mbarrier_expect_tx(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset, int64_t bytes) {
  Mbarrier* m = mbarrier_find(w, in, lane, cta, offset);
  if (m == nullptr) return;
  m->transactions += bytes;
  check_counts([&] { return site(w, in, lane); }, cta, offset, *m);
  ++w.cluster().progress;
}

void mbarrier_arrive(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset, int64_t count) {
  Mbarrier* m = mbarrier_find(w, in, lane, cta, offset);
  if (m == nullptr) return;
  m->pending -= count;
  m->gathering.join(w.release());
  m->gathering_waited |= (w.waited >> lane & 1) != 0;
  check_counts([&] { return site(w, in, lane); }, cta, offset, *m);
  complete_if_done(cta, *m);
}

void mbarrier_complete_tx(Site const& who, Cta& cta, uint32_t offset, Stamp const& stamp, int64_t bytes) {
  Mbarrier* m = find_live([&] { return who; }, cta, offset);
  if (m == nullptr) return;
  m->transactions -= bytes;
  m->gathering.join(stamp.clock);
  m->gathering_waited |= stamp.waited;
  check_counts([&] { return who; }, cta, offset, *m);
  complete_if_done(cta, *m);
}

void mbarrier_arrive(Site const& who, Cta& cta, uint32_t offset, Stamp const& stamp, int64_t count) {
  Mbarrier* m = find_live([&] { return who; }, cta, offset);
  if (m == nullptr) return;
  m->pending -= count;
  m->gathering.join(stamp.clock);
  m->gathering_waited |= stamp.waited;
  check_counts([&] { return who; }, cta, offset, *m);
  complete_if_done(cta, *m);
}

bool mbarrier_test_parity(Warp& w, Instruction const& in, int lane, Cta& cta, uint32_t offset, uint32_t parity) {
  if (&cta != &w.cta()) {
    w.finding(in, lane, "mbarrier-remote-wait", "a thread can wait only on mbarriers of its own CTA");
    return true;
  }
  Mbarrier* m = mbarrier_find(w, in, lane, cta, offset);
  if (m == nullptr) return true;
  if ((m->phase & 1) == (parity & 1)) return false;
  w.clock.join(m->knowledge);
  if (m->waited) w.waited |= 1u << lane;
  return true;
}

}  // namespace ptxsim
