// tcgen05: alloc, dealloc, relinquish_alloc_permit, commit, wait, fence; and the checks of tensor memory.
#include "isa/tcgen05.h"

#include <algorithm>
#include <initializer_list>

namespace ptxsim {
namespace {

struct Commit {
  Operand const* mask = nullptr;
  Space space = Space::kGeneric;
  int cta_group = 1;
};

std::string place(int lane, int column) {
  return "lane " + std::to_string(lane) + ", column " + std::to_string(column) + " of tensor memory";
}

bool warp_collective(Warp& w, Instruction const& in) {
  if (w.active() == kAllLanes) return true;
  w.finding(in, w.leader(), "divergent-aligned", "this tcgen05 instruction needs all 32 lanes of the warp");
  return false;
}

int free_units(TensorMemory const& tensor, int units) {
  // Allocations are powers of two and lie at multiples of their size.
  for (int first = 0; first + units <= kTmemUnits; first += units) {
    bool const free =
        std::all_of(tensor.owner + first, tensor.owner + first + units, [](int owner) { return owner == 0; });
    if (free) return first;
  }
  return -1;
}

bool columns_fine(Warp& w, Instruction const& in, uint64_t columns) {
  bool const fine = columns >= kTmemUnit && columns <= kTmemColumns && (columns & (columns - 1)) == 0;
  if (!fine)
    w.finding(in, w.leader(), "tensor-memory-allocation", "the number of columns must be a power of two, 32..512");
  return fine;
}

void report_leak(Warp& w, Instruction const& in) {
  TensorMemory const& tensor = tensor_state(w.cta());
  int units = 0;
  for (int owner : tensor.owner) units += owner != 0;
  if (units != 0)
    w.finding(in, w.leader(), "tensor-memory-leak",
              "the CTA exits with " + std::to_string(units * kTmemUnit) + " columns of tensor memory allocated");
}

Step run_alloc(Warp& w, Instruction const& in) {
  if (!warp_collective(w, in)) return Step::kNext;
  check_cta_group(w, in, static_cast<int>(in.aux));
  TensorMemory& tensor = tensor_state(w.cta());
  w.require_defined(in, in.operand(1), "a number of columns");
  uint64_t const columns = w.uniform(in, in.operand(1));
  if (!columns_fine(w, in, columns)) return Step::kNext;
  if (tensor.relinquished) w.finding(in, 0, "tensor-memory-allocation", "tcgen05.alloc after relinquish_alloc_permit");
  if (!w.grid().properties().tensor_memory) {
    w.finding(in, 0, "tensor-memory-allocation", "the device has no tensor memory");
    return Step::kNext;
  }
  int const units = static_cast<int>(columns) / kTmemUnit;
  int const first = free_units(tensor, units);
  if (first < 0) return Step::kWait;  // blocks until another warp frees some
  if (tensor.last_columns != 0 && columns > tensor.last_columns)
    w.finding(in, 0, "tensor-memory-allocation", "an allocation may not be larger than the one before it");
  tensor.make();
  tensor.last_columns = static_cast<uint32_t>(columns);
  std::fill(tensor.owner + first, tensor.owner + first + units, ++tensor.allocations);
  for (int lane = 0; lane < kTmemLanes; ++lane)
    std::fill_n(tensor.written.begin() + tmem_index(lane, first * kTmemUnit), columns, uint8_t{0});
  w.cta().at_exit = report_leak;
  uint32_t const address = static_cast<uint32_t>(first * kTmemUnit);
  Space const space = in.variant == 0 ? Space::kGeneric : Space::kShared;
  w.write(in, 0, space, w.address(in.operand(0), 0), 4, &address, false);
  ++w.cluster().progress;
  return Step::kNext;
}

Step run_dealloc(Warp& w, Instruction const& in) {
  if (!warp_collective(w, in)) return Step::kNext;
  check_cta_group(w, in, static_cast<int>(in.aux));
  TensorMemory& tensor = tensor_state(w.cta());
  w.require_defined(in, in.operand(0), "an address of tensor memory");
  TmemAddress const at = tmem_address(static_cast<uint32_t>(w.uniform(in, in.operand(0))));
  uint64_t const columns = w.uniform(in, in.operand(1));
  if (!columns_fine(w, in, columns)) return Step::kNext;
  int const first = at.column / kTmemUnit, units = static_cast<int>(columns) / kTmemUnit;
  int const owner = first < kTmemUnits ? tensor.owner[first] : 0;
  bool fine = owner != 0 && at.lane == 0 && at.column % kTmemUnit == 0 && first + units <= kTmemUnits;
  int total = 0;
  for (int unit = 0; unit < kTmemUnits && fine; ++unit) total += tensor.owner[unit] == owner;
  fine = fine && total == units && (first == 0 || tensor.owner[first - 1] != owner);
  if (!fine) {
    w.finding(in, 0, "tensor-memory-allocation", "tcgen05.dealloc of what is no allocation of that size");
    return Step::kNext;
  }
  std::fill(tensor.owner + first, tensor.owner + first + units, 0);
  ++w.cluster().progress;
  return Step::kNext;
}

Step run_relinquish(Warp& w, Instruction const& in) {
  check_cta_group(w, in, static_cast<int>(in.aux));
  tensor_state(w.cta()).relinquished = true;
  return Step::kNext;
}

Step run_wait(Warp& w, Instruction const& in) {
  if (!warp_collective(w, in)) return Step::kNext;
  TensorMemory& tensor = tensor_state(w.cta());
  uint32_t const me = static_cast<uint32_t>(w.cta().party(Agent::kWarp, w.number()));
  uint32_t const now = w.clock[me] + 1;
  bool const loads = in.aux == 0;
  std::vector<int>& words = loads ? tensor.loads[w.number()] : tensor.stores[w.number()];
  for (int index : words) {
    TensorMemory::Word& word = tensor.known[static_cast<size_t>(index)];
    uint32_t& time = loads ? word.read_time : word.write_time;
    if ((loads ? word.reader : word.writer) == me + 1 && time == TensorMemory::kUnwaited) time = now;
  }
  words.clear();
  return Step::kNext;
}

Step run_fence(Warp&, Instruction const&) { return Step::kNext; }

Step run_commit(Warp& w, Instruction const& in) {
  Commit const& c = in.decoded<Commit>();
  check_cta_group(w, in, c.cta_group);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.active() >> lane & 1) == 0) continue;
    uint32_t offset;
    Cta* const addressed = w.shared_target(in, lane, c.space, w.address(in.operand(0), lane), &offset);
    if (addressed == nullptr) continue;
    Cluster& cluster = w.cluster();
    uint32_t ranks = 1u << addressed->rank();
    if (c.mask != nullptr) {
      ranks = static_cast<uint32_t>(w.value(*c.mask, lane)) & 0xFFFF;
      if (ranks == 0 || ranks >> cluster.size() != 0)
        w.finding(in, lane, "multicast-mask", "the mask names no CTA, or one outside of the cluster");
    }
    Stamp const stamp = w.stamp(Agent::kTensorCore, lane);
    cluster.defer(tensor_core_chain(w.cta()), [=, &cluster, at = site(w, in, lane)] {
      for (uint32_t r = 0; r < cluster.size(); ++r)
        if ((ranks >> r & 1) != 0) mbarrier_arrive(at, cluster.cta(r), offset, stamp, 1);
      ++cluster.progress;
    });
  }
  return Step::kNext;
}

Handler decode_commit(Decoder& d) {
  auto c = std::make_shared<Commit>();
  c->cta_group = take_cta_group(d);
  if (c->cta_group == 0 || !d.take("mbarrier::arrive::one") || !d.take("b64")) return d.fail("no such tcgen05.commit");
  if (d.take("shared::cluster")) c->space = Space::kSharedCluster;
  bool const multicast = d.take("multicast::cluster");
  if (!d.operands(multicast ? 2 : 1, multicast ? 2 : 1)) return nullptr;
  if (multicast) c->mask = &d.operand(1);
  d.instruction().data = c;
  return run_commit;
}

Handler decode_collective(Decoder& d, int what) {
  int const group = take_cta_group(d);
  if (group == 0 || !d.take("sync") || !d.take("aligned")) return d.fail("must be .cta_group.sync.aligned");
  d.instruction().aux = group;
  d.instruction().aligned = true;
  if (what == 2) return d.operands(0, 0) ? run_relinquish : nullptr;
  if (what == 0 && d.take("shared::cta")) d.instruction().variant = 1;
  if (!d.take("b32")) return d.fail("must be .b32");
  if (!d.operands(2, 2)) return nullptr;
  return what == 0 ? run_alloc : run_dealloc;
}

}  // namespace

int take_cta_group(Decoder& d) { return d.take_one_of({"cta_group::1", "cta_group::2"}) + 1; }

void check_cta_group(Warp& w, Instruction const& in, int cta_group) {
  TensorMemory& tensor = tensor_state(w.cta());
  if (tensor.cta_group == 0) {
    tensor.cta_group = cta_group;
    if (cta_group == 2 && w.cluster().size() % 2 != 0)
      w.finding(in, w.leader(), "cta-pair", "cta_group::2 in a cluster of an odd number of CTAs");
  } else if (tensor.cta_group != cta_group) {
    w.finding(in, w.leader(), "cta-group-mixed", "tcgen05 instructions of both cta_group::1 and ::2 in one kernel");
  }
}

int ctas_of_group(Warp& w, int cta_group, Cta* ctas[2]) {
  if (cta_group == 1) {
    ctas[0] = &w.cta();
    return 1;
  }
  for (uint32_t i = 0; i < 2; ++i) {
    uint32_t const rank = (w.cta().rank() & ~1u) | i;
    ctas[i] = rank < w.cluster().size() ? &w.cluster().cta(rank) : &w.cta();
  }
  return 2;
}

TmemCheck::TmemCheck(Warp& w, Instruction const& in, int lane, Cta& cta, Stamp const& stamp)
    : w_(w),
      in_(in),
      lane_(lane),
      cta_(cta),
      tensor_(tensor_state(cta)),
      clock_(stamp.clock),
      me_(stamp.party),
      read_time_(stamp.time),
      write_time_(stamp.time) {}

TmemCheck::TmemCheck(Warp& w, Instruction const& in, Cta& cta)
    : w_(w),
      in_(in),
      lane_(w.leader()),
      cta_(cta),
      tensor_(tensor_state(cta)),
      clock_(w.clock),
      me_(static_cast<uint32_t>(cta.party(Agent::kWarp, w.number()))),
      read_time_(TensorMemory::kUnwaited),
      write_time_(TensorMemory::kUnwaited) {}

void TmemCheck::report(char const* check, std::string message) {
  if (reported_) return;
  reported_ = true;
  std::string const where = cta_.rank() == w_.cta().rank() ? "" : " (tensor memory of the peer CTA)";
  w_.finding(in_, lane_, check, message + where);
}

bool TmemCheck::range(int column, int count) {
  if (tensor_.present() && column >= 0 && column + count <= kTmemColumns && tensor_.allocated(column, count))
    return true;
  report("tensor-memory-unallocated", "columns " + std::to_string(column) + ".." + std::to_string(column + count - 1) +
                                          " of tensor memory are not allocated");
  return false;
}

void TmemCheck::report_unwritten(int lane, int column) {
  report("tensor-memory-uninitialised", "reads " + place(lane, column) + ", which was never written");
}

void TmemCheck::report_race(char const* does, int lane, int column) {
  bool const reads = does[0] == 'r';
  report("tensor-memory-race", does + place(lane, column) +
                                   (reads ? " without having observed the completion of what wrote it"
                                          : ", which another has accessed without a barrier (and wait) between"));
}

Handler decode_tcgen05(Decoder& d) {
  d.instruction().side_effect = true;
  d.instruction().category = Class::kTensorMemory;
  int const collective = d.take_one_of({"alloc", "dealloc", "relinquish_alloc_permit"});
  if (collective >= 0) return decode_collective(d, collective);
  if (d.take("ld")) return decode_tcgen05_ld(d);
  if (d.take("st")) return decode_tcgen05_st(d);
  if (d.take("cp")) return decode_tcgen05_cp(d);
  if (d.take("mma")) return decode_tcgen05_mma(d);
  if (d.take("commit")) return decode_commit(d);
  int const wait = d.take_one_of({"wait::ld", "wait::st"});
  if (wait >= 0) {
    if (!d.take("sync") || !d.take("aligned")) return d.fail("must be .sync.aligned");
    d.instruction().aux = wait;
    d.instruction().aligned = true;
    return d.operands(0, 0) ? run_wait : nullptr;
  }
  // Order between threads follows from the barriers between the two fences; they add nothing here, and kernels in
  // which an mbarrier does the work have none.
  if (d.take_one_of({"fence::before_thread_sync", "fence::after_thread_sync"}) >= 0)
    return d.operands(0, 0) ? run_fence : nullptr;
  return d.fail("no such tcgen05 instruction");
}

}  // namespace ptxsim
