// cp.async.bulk.tensor: loads, stores, reductions and prefetches of boxes of tensors.
//
// What is read and written is checked when the instruction issues; the bytes move when the machine completes the
// operation. A load counts the whole box's bytes on the mbarrier, also where elements are out of bounds (and zero).
#include <initializer_list>

#include "engine/grid.h"
#include "isa/tensor.h"
#include "isa/tma.h"
#include "memory/global.h"

namespace ptxsim {
namespace {

enum class Reduction : uint8_t { kNone, kAdd, kMin, kMax, kAnd, kOr, kXor };

struct TensorCopy {
  uint32_t rank = 0;
  Space target_space = Space::kSharedCluster;
  Operand const* map = nullptr;
  Operand const* shared = nullptr;  // destination of a load, source of a store
  Operand const* mbarrier = nullptr;
  Operand const* mask = nullptr;
  int cta_group = 0;
  Reduction reduction = Reduction::kNone;
};

// A destination of a load and the mbarrier that is told.
struct Target {
  Cta* cta;
  Cta* signalled;
};

std::vector<Target> targets_of(Warp& w, Instruction const& in, int lane, TensorCopy const& c, Cta& addressed,
                               Cta& barrier) {
  std::vector<Target> targets;
  Cluster& cluster = w.cluster();
  uint32_t ranks = 1u << addressed.rank();
  if (c.mask != nullptr) {
    ranks = static_cast<uint32_t>(w.value(*c.mask, lane)) & 0xFFFF;
    if (ranks == 0 || ranks >> cluster.size() != 0) {
      w.finding(in, lane, "multicast-mask", "the mask names no CTA, or one outside of the cluster");
      ranks &= (1u << cluster.size()) - 1;
    }
  }
  for (uint32_t r = 0; r < cluster.size(); ++r) {
    if ((ranks >> r & 1) == 0) continue;
    // cta_group::2: the CTA of the destination's pair that has the parity of the mbarrier's.
    uint32_t told = c.cta_group == 2 ? (r & ~1u) | (barrier.rank() & 1) : r;
    if (told >= cluster.size()) {
      w.finding(in, lane, "cta-pair", "cta_group::2 in a cluster that has no pair for the destination");
      told = r;
    }
    targets.push_back({&cluster.cta(r), &cluster.cta(told)});
  }
  if (c.mask == nullptr && c.cta_group != 2 && &barrier != &addressed)
    w.finding(in, lane, "mbarrier-elsewhere", "the mbarrier must be in the CTA of the destination");
  return targets;
}

void move_in(TensorBox const& box, uint32_t shared, std::vector<Target> const& targets) {
  for_each_tensor_run(box.map, box.at, shared, [&](TensorRun const& run) {
    for (Target const& target : targets) {
      uint8_t* const to = target.cta->shared.bytes() + run.shared;
      if (run.in_bounds)
        std::memcpy(to, reinterpret_cast<void const*>(run.global), run.bytes);
      else
        std::memset(to, 0, run.bytes);
    }
  });
}

// Bytes that came from memory never written are still not written.
void spread_undefined(Grid& grid, TensorBox const& box, uint32_t shared, std::vector<Target> const& targets) {
  for_each_tensor_run(box.map, box.at, shared, [&](TensorRun const& run) {
    if (!run.in_bounds) return;
    for (uint32_t i = 0; i < run.bytes; ++i) {
      Allocation const* allocation = grid.global().find(run.global + i);
      if (allocation != nullptr && GlobalMemory::is_written(*allocation, run.global + i, 1)) continue;
      for (Target const& target : targets) target.cta->shared.mark(run.shared + i, 1, 0, SharedMemory::kWritten);
    }
  });
}

void load(Warp& w, Instruction const& in, int lane, TensorCopy const& c) {
  TensorBox box;
  if (!fetch_tensor_box(w, in, lane, *c.map, false, &box)) return;
  uint32_t shared, mbarrier;
  Cta* const addressed = w.shared_target(in, lane, c.target_space, w.address(*c.shared, lane), &shared);
  Cta* const barrier = w.shared_target(in, lane, c.target_space, w.address(*c.mbarrier, lane), &mbarrier);
  if (addressed == nullptr || barrier == nullptr) return;
  if (shared % kTensorSharedAlignment != 0) {
    w.finding(in, lane, "shared-misaligned", "a box in shared memory must be aligned to 128 bytes");
    return;
  }
  std::vector<Target> const targets = targets_of(w, in, lane, c, *addressed, *barrier);
  Stamp const stamp = w.stamp(Agent::kTensorCopy, lane);
  bool fine = true;
  for (Target const& target : targets) {
    if (target.cta->exited())
      w.finding(in, lane, "remote-exited", "a copy to the shared memory of a CTA that has exited");
    for_each_shared_range(box, shared, false, [&](uint32_t offset, uint32_t bytes) {
      fine = fine && target.cta->shared.async_write_begin(w, in, lane, offset, bytes, stamp);
    });
  }
  if (!fine) return;
  Cluster& cluster = w.cluster();
  cluster.tally.add(Traffic::kTensorCopyLoad, box.inside);
  ++cluster.progress;
  cluster.defer(0, [=, &cluster, at = site(w, in, lane)] {
    move_in(box, shared, targets);
    for (Target const& target : targets) {
      for_each_shared_range(box, shared, false, [&](uint32_t offset, uint32_t bytes) {
        target.cta->shared.async_write_end(offset, bytes, stamp);
      });
      mbarrier_complete_tx(at, *target.signalled, mbarrier, stamp, box.bytes);
    }
    if (!box.all_written) spread_undefined(cluster.grid(), box, shared, targets);
    ++cluster.progress;
  });
}

template <class T>
T combine(Reduction reduction, T old, T value) {
  switch (reduction) {
    case Reduction::kMin:
      return value < old ? value : old;
    case Reduction::kMax:
      return old < value ? value : old;
    default:
      return static_cast<T>(old + value);
  }
}
template <class T>
T combine_bits(Reduction reduction, T old, T value) {
  switch (reduction) {
    case Reduction::kAnd:
      return static_cast<T>(old & value);
    case Reduction::kOr:
      return static_cast<T>(old | value);
    case Reduction::kXor:
      return static_cast<T>(old ^ value);
    default:
      return combine<T>(reduction, old, value);
  }
}
template <class T, class Combine>
void reduce_as(uint8_t* to, uint8_t const* from, uint32_t bytes, Combine combine_two) {
  for (uint32_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    T old, value;
    std::memcpy(&old, to + i, sizeof(T));
    std::memcpy(&value, from + i, sizeof(T));
    old = combine_two(old, value);
    std::memcpy(to + i, &old, sizeof(T));
  }
}

// False: the type does not know the reduction.
bool reduce(TensorType type, Reduction r, uint8_t* to, uint8_t const* from, uint32_t bytes) {
  bool const arithmetic = r == Reduction::kAdd || r == Reduction::kMin || r == Reduction::kMax;
  auto const small = [&](FloatFormat const& format) {
    reduce_as<uint16_t>(to, from, bytes, [&](uint16_t a, uint16_t b) {
      double const sum = combine<double>(r, decode(format, a), decode(format, b));
      return static_cast<uint16_t>(encode(format, sum, RoundMode::kNearestEven, false, false));
    });
  };
  switch (type) {
    case TensorType::kU32:
      reduce_as<uint32_t>(to, from, bytes, [r](uint32_t a, uint32_t b) { return combine_bits(r, a, b); });
      return true;
    case TensorType::kU64:
      reduce_as<uint64_t>(to, from, bytes, [r](uint64_t a, uint64_t b) { return combine_bits(r, a, b); });
      return true;
    case TensorType::kS32:
      // The sum wraps as unsigned numbers do; order is that of signed ones.
      reduce_as<int32_t>(to, from, bytes, [r](int32_t a, int32_t b) {
        if (r == Reduction::kMin || r == Reduction::kMax) return combine(r, a, b);
        return static_cast<int32_t>(combine_bits(r, static_cast<uint32_t>(a), static_cast<uint32_t>(b)));
      });
      return true;
    case TensorType::kF32:
      if (r != Reduction::kAdd) return false;
      reduce_as<float>(to, from, bytes, [r](float a, float b) { return combine(r, a, b); });
      return true;
    case TensorType::kF16:
      small(kFp16);
      return arithmetic;
    case TensorType::kBf16:
      small(kBf16);
      return arithmetic;
    default:
      return false;
  }
}

void store(Warp& w, Instruction const& in, int lane, TensorCopy const& c) {
  TensorBox box;
  if (!fetch_tensor_box(w, in, lane, *c.map, true, &box)) return;
  uint32_t shared;
  Cta* const cta = w.shared_target(in, lane, Space::kShared, w.address(*c.shared, lane), &shared);
  if (cta == nullptr) return;
  if (shared % kTensorSharedAlignment != 0) {
    w.finding(in, lane, "shared-misaligned", "a box in shared memory must be aligned to 128 bytes");
    return;
  }
  Stamp const stamp = w.stamp(Agent::kTensorCopy, lane);
  bool fine = true;
  for_each_shared_range(box, shared, true, [&](uint32_t offset, uint32_t bytes) {
    fine = fine && cta->shared.async_read(w, in, lane, offset, bytes, stamp);
  });
  if (!fine) return;
  for_each_shared_range(box, shared, true,
                        [&](uint32_t offset, uint32_t bytes) { cta->shared.source_begin(offset, bytes); });
  Cluster& cluster = w.cluster();
  cluster.tally.add(Traffic::kTensorCopyStore, box.inside);
  uint64_t const ticket = bulk_group_add(w, lane);
  cluster.defer(0, [=, &w, &cluster, &in] {
    for_each_tensor_run(box.map, box.at, shared, [&](TensorRun const& run) {
      if (!run.in_bounds) return;
      uint8_t const* const from = cta->shared.bytes() + run.shared;
      uint8_t* const to = reinterpret_cast<uint8_t*>(run.global);
      if (c.reduction == Reduction::kNone) {
        std::memcpy(to, from, run.bytes);
      } else {
        std::lock_guard<std::mutex> const hold(cluster.grid().global_lock());
        if (!reduce(box.map.type, c.reduction, to, from, run.bytes))
          w.finding(in, lane, "tensor-map", "the element type does not know this reduction");
      }
    });
    TensorMap plain = box.map;
    plain.swizzle = TensorSwizzle::kNone;
    for_each_tensor_run(plain, box.at, 0, [&](TensorRun const& run) {
      if (run.in_bounds) w.global_wrote(run.global, run.bytes);
    });
    for_each_shared_range(box, shared, true,
                          [&](uint32_t offset, uint32_t bytes) { cta->shared.source_end(offset, bytes); });
    bulk_read(cluster, ticket);
    bulk_done(cluster, ticket);
  });
}

template <void (*Run)(Warp&, Instruction const&, int, TensorCopy const&)>
Step run_each(Warp& w, Instruction const& in) {
  for (int lane = 0; lane < kWarpSize; ++lane)
    if ((w.active() >> lane & 1) != 0) Run(w, in, lane, in.decoded<TensorCopy>());
  return Step::kNext;
}

void prefetch(Warp& w, Instruction const& in, int lane, TensorCopy const& c) {
  // Only a hint: the map must be one, but nothing is read, and coordinates may be anywhere.
  TensorMap map;
  fetch_tensor_map(w, in, lane, w.address(*c.map, lane), c.rank, &map);
}

Handler decode_load(Decoder& d, TensorCopy* c) {
  int const space = d.take_one_of({"shared::cta", "shared::cluster"});
  if (space < 0 || !d.take("global") || !d.take("mbarrier::complete_tx::bytes")) return d.fail("no such tensor copy");
  c->target_space = space == 0 ? Space::kShared : Space::kSharedCluster;
  bool const multicast = d.take("multicast::cluster");
  int const group = d.take_one_of({"cta_group::1", "cta_group::2"});
  c->cta_group = group + 1;
  bool const hint = d.take("L2::cache_hint");
  int const count = 3 + (multicast ? 1 : 0) + (hint ? 1 : 0);
  if (!d.operands(count, count)) return nullptr;
  c->shared = &d.operand(0);
  c->map = &d.operand(1);
  c->mbarrier = &d.operand(2);
  if (multicast) c->mask = &d.operand(3);
  return run_each<load>;
}

Handler decode_store(Decoder& d, TensorCopy* c, bool reducing) {
  if (!d.take("global") || !d.take("shared::cta") || !d.take("bulk_group")) return d.fail("no such tensor copy");
  if (reducing) {
    int const what = d.take_one_of({"add", "min", "max", "and", "or", "xor"});
    if (what < 0) return d.fail("no such reduction");
    c->reduction = static_cast<Reduction>(what + 1);
  }
  int const count = d.take("L2::cache_hint") ? 3 : 2;
  if (!d.operands(count, count)) return nullptr;
  c->map = &d.operand(0);
  c->shared = &d.operand(1);
  return run_each<store>;
}

}  // namespace

bool is_tensor_copy(Decoder const& d) { return d.has("bulk") && d.has("tensor"); }

Handler decode_tensor_copy(Decoder& d) {
  auto c = std::make_shared<TensorCopy>();
  bool const reducing = d.take("reduce");
  if (!d.take("async") || !d.take("bulk")) return d.fail("no such tensor copy");
  bool const prefetching = d.take("prefetch");
  if (!d.take("tensor")) return d.fail("no such tensor copy");
  int const rank = d.take_one_of({"1d", "2d", "3d", "4d", "5d"});
  if (rank < 0) return d.fail("no such rank");
  c->rank = static_cast<uint32_t>(rank) + 1;
  d.take("tile");  // the default mode; im2col and gather modes stay and make the instruction unknown
  d.instruction().side_effect = true;
  d.instruction().category = Class::kTensorCopy;
  Handler handler = nullptr;
  if (prefetching) {
    if (!d.take("L2") || !d.take("global")) return d.fail("no such tensor copy");
    int const count = d.take("L2::cache_hint") ? 2 : 1;
    if (!d.operands(count, count)) return nullptr;
    c->map = &d.operand(0);
    handler = run_each<prefetch>;
  } else {
    handler = d.has("mbarrier::complete_tx::bytes") ? decode_load(d, c.get()) : decode_store(d, c.get(), reducing);
  }
  if (handler == nullptr) return nullptr;
  Operand const& map = *c->map;
  if (map.kind != Operand::Kind::kAddress || map.elements.size() != 2 || elements_of(map.elements[1]).size() != c->rank)
    return d.fail("the map must stand as [map, {coordinates}] with as many coordinates as dimensions");
  d.instruction().data = c;
  return handler;
}

}  // namespace ptxsim
