// wgmma: fence, mma_async, commit_group, wait_group.
//
// An operation belongs to four warps and starts when all have come to it (the hardware's warps arrive together); then
// its matrices in shared memory are checked, and its products are computed when the machine completes it. Registers
// of A are read at once. What is checked of registers: those that ordinary instructions wrote, and accumulators that a
// wait gave back, need a wgmma.fence since, and between mma_async and the wait that gives them back nobody may read or
// write them (register_watch.h). Nor may a warp exit before it has waited for all.
#include <algorithm>
#include <initializer_list>

#include "isa/register_watch.h"
#include "isa/tensor.h"
#include "isa/tensor_state.h"
#include "kernel.h"

namespace ptxsim {

TensorMemory& tensor_state(Cta& cta) {
  if (cta.tensor == nullptr) cta.tensor = std::make_shared<TensorMemory>();
  return *cta.tensor;
}

namespace {

struct Wgmma {
  WgmmaShape shape;
  std::vector<Operand const*> d, a;
  Operand const* descriptor_a = nullptr;  // null: A is in registers
  Operand const* descriptor_b = nullptr;
  Operand const* accumulate = nullptr;
  std::string count_name;
};

Warpgroup& group_of(Warp& w) { return tensor_state(w.cta()).warpgroups[w.number() / kGroupWarps]; }
WgmmaWarp& state_of(Warp& w) { return group_of(w).warps[w.number() % kGroupWarps]; }

bool whole_warp(Warp& w, Instruction const& in) {
  if (w.active() == kAllLanes) return true;
  w.finding(in, w.leader(), "divergent-aligned", "wgmma needs all 32 lanes of the warp");
  return false;
}

Step run_fence(Warp& w, Instruction const& in) {
  if (!whole_warp(w, in)) return Step::kNext;
  state_of(w).fenced = true;
  unwatch(w, kWrittenSinceFence);
  return Step::kNext;
}

// The warp's accumulators: those in flight, or new ones from the registers.
std::shared_ptr<WgmmaAccumulators> accumulators(Warp& w, Instruction const& in, Wgmma const& m, bool accumulate) {
  WgmmaWarp& state = state_of(w);
  auto const same_place = [](Operand const* a, Operand const* b) { return a->slot == b->slot; };
  for (auto const& known : state.in_flight) {
    if (std::equal(m.d.begin(), m.d.end(), known->registers.begin(), known->registers.end(), same_place)) return known;
    size_t shared = 0;
    for (Operand const* ours : m.d)
      for (Operand const* theirs : known->registers) shared += ours->slot == theirs->slot;
    if (shared == 0) continue;
    w.finding(in, 0, "wgmma-register-in-flight",
              "accumulators overlap those of an operation in flight, in another order: wgmma.wait_group first");
    return known;
  }
  auto fresh = std::make_shared<WgmmaAccumulators>();
  fresh->registers = m.d;
  for (Operand const* op : m.d) {
    Lanes<uint32_t> scratch;
    uint32_t const* values = w.lanes<uint32_t>(*op, scratch);
    fresh->values.emplace_back();
    std::copy(values, values + kWarpSize, fresh->values.back().begin());
    fresh->poison.push_back(accumulate ? w.poison(*op) : 0);
  }
  bool ordered = state.fenced, fragment = false;
  for (Operand const* op : m.d) {
    ordered = ordered && (watched(w, op->poison) & kWrittenSinceFence) == 0;
    fragment = fragment || (watched(w, op->poison) & kFragmentInFlight) != 0;
    watched(w, op->poison) |= kAccumulatorInFlight;
  }
  if (!ordered)
    w.finding(in, 0, "missing-wgmma-fence",
              "wgmma.mma_async uses accumulators that ordinary instructions may have written: wgmma.fence first");
  if (fragment)
    w.finding(in, 0, "wgmma-register-in-flight",
              "accumulators are registers that an operation in flight reads as A: wgmma.wait_group first");
  state.in_flight.push_back(fresh);
  return fresh;
}

// Poison of results: rows that an undefined register of A spoils, and of old values the accumulator's own.
void spoil(Wgmma const& m, WgmmaOperation::Part const& part, bool accumulate) {
  MmaShape fragment;
  fragment.fp16_accumulator = m.shape.fp16_accumulator;
  size_t const per_block = static_cast<size_t>(mma_c_registers(fragment));
  for (size_t r = 0; r < part.d->poison.size(); ++r) {
    if (!accumulate) part.d->poison[r] = 0;
    size_t const row_half = m.shape.fp16_accumulator ? r % per_block : r % per_block / 2;
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (part.spoilt_rows[static_cast<size_t>(lane / 4) + 8 * row_half] != 0) part.d->poison[r] |= 1u << lane;
  }
}

void compute(SharedMemory& shared, WgmmaOperation& op) {
  op.done = true;
  if (!op.readable) return;
  Wgmma const& m = op.instruction->decoded<Wgmma>();
  int const k = wgmma_k(m.shape);
  std::vector<double> a, b(static_cast<size_t>(m.shape.n) * k);
  read_smem_matrix(wgmma_b_matrix(m.shape, op.b), m.shape.type_b, shared.bytes(), b.data());
  if (m.descriptor_a != nullptr) {
    a.resize(static_cast<size_t>(64 * k));
    read_smem_matrix(wgmma_a_matrix(m.shape, op.a), m.shape.type, shared.bytes(), a.data());
  }
  for (int i = 0; i < kGroupWarps; ++i) {
    WgmmaOperation::Part const& part = op.parts[i];
    double const* rows = m.descriptor_a != nullptr ? a.data() + i * 16 * k : part.a.data();
    static_assert(sizeof(part.d->values[0]) == sizeof(uint32_t) * kWarpLanes, "values are [register][lane]");
    wgmma_warp(m.shape, rows, b.data(), op.accumulate,
               reinterpret_cast<uint32_t (*)[kWarpLanes]>(part.d->values.data()));
  }
}

// When a CTA's last warp exits. The finding is at the operation that nobody waited for.
void report_in_flight(Warp& last, Instruction const&) {
  auto const report = [&](int warp, std::vector<std::shared_ptr<WgmmaOperation>> const& operations) {
    for (auto const& op : operations)
      last.finding(*op->instruction, 0, "wgmma-exit-pending",
                   "warp " + std::to_string(warp) + " exited without a wgmma.wait_group for this");
  };
  for (auto const& [number, group] : tensor_state(last.cta()).warpgroups)
    for (int i = 0; i < kGroupWarps; ++i) {
      for (auto const& committed : group.warps[i].groups) report(number * kGroupWarps + i, committed);
      report(number * kGroupWarps + i, group.warps[i].open);
    }
}

void start(Warp& w, Instruction const& in, std::shared_ptr<WgmmaOperation> const& op) {
  Wgmma const& m = in.decoded<Wgmma>();
  Cta& cta = w.cta();
  auto const check = [&](SmemMatrix const& matrix) {
    if (std::string const fault = smem_matrix_fault(matrix); !fault.empty())
      w.finding(in, 0, "matrix-descriptor", fault);
    for_each_smem_chunk(matrix, [&](SmemChunk const& chunk) {
      if (op->readable) op->readable = cta.shared.async_read(w, in, 0, chunk.address, 16, op->stamp);
    });
  };
  if (m.descriptor_a != nullptr) check(wgmma_a_matrix(m.shape, op->a));
  check(wgmma_b_matrix(m.shape, op->b));
  ++w.cluster().tally.mma[m.count_name];
  cta.at_exit = report_in_flight;
  Warpgroup* const group = &group_of(w);
  w.cluster().defer(reinterpret_cast<uintptr_t>(group), [&cta, op] {
    compute(cta.shared, *op);
    ++cta.cluster().progress;
  });
}

Step run_mma_async(Warp& w, Instruction const& in) {
  if (!whole_warp(w, in)) return Step::kNext;
  Wgmma const& m = in.decoded<Wgmma>();
  Warpgroup& group = group_of(w);
  WgmmaWarp& state = state_of(w);
  int const me = w.number() % kGroupWarps;
  size_t const index = state.issued - group.first;
  if (index == group.operations.size()) group.operations.push_back(std::make_shared<WgmmaOperation>());
  std::shared_ptr<WgmmaOperation> const op = group.operations[index];
  ++state.issued;

  w.require_defined(in, *m.descriptor_b, "a matrix descriptor");
  uint64_t const descriptor_b = w.uniform(in, *m.descriptor_b);
  uint64_t const descriptor_a = m.descriptor_a != nullptr ? w.uniform(in, *m.descriptor_a) : 0;
  uint32_t const flags = w.predicate(*m.accumulate);
  if (flags != 0 && flags != kAllLanes) w.finding(in, 0, "not-uniform", "scale-d must be the same in all lanes");
  bool const accumulate = flags != 0;
  if (op->joined == 0) {
    op->instruction = &in;
    op->descriptor_a = descriptor_a, op->descriptor_b = descriptor_b;
    op->accumulate = accumulate;
    std::string fault = decode_wgmma_descriptor(descriptor_b, &op->b);
    if (fault.empty() && m.descriptor_a != nullptr) fault = decode_wgmma_descriptor(descriptor_a, &op->a);
    if (!fault.empty()) {
      w.finding(in, 0, "matrix-descriptor", fault);
      op->readable = false;
    }
  } else if (op->instruction->decoded<Wgmma>().count_name != m.count_name || op->descriptor_a != descriptor_a ||
             op->descriptor_b != descriptor_b || op->accumulate != accumulate) {
    w.finding(in, 0, "wgmma-mismatch", "the warps of a warpgroup do not execute the same wgmma.mma_async");
  }
  WgmmaOperation::Part& part = op->parts[me];
  part.d = accumulators(w, in, m, accumulate);
  part.d->last_group = state.committed + 1;
  if (m.descriptor_a == nullptr) {
    uint32_t registers[4][kWarpLanes];
    for (size_t r = 0; r < m.a.size(); ++r) {
      uint8_t& mine = watched(w, m.a[r]->poison);
      if ((mine & kWrittenSinceFence) != 0)
        w.finding(in, 0, "missing-wgmma-fence",
                  "wgmma.mma_async reads registers of A that ordinary instructions wrote: wgmma.fence first");
      if ((mine & kAccumulatorInFlight) != 0)
        w.finding(in, 0, "wgmma-register-in-flight",
                  "registers of A are accumulators of an operation in flight: wgmma.wait_group first");
      mine |= kFragmentInFlight;
      Lanes<uint32_t> scratch;
      std::memcpy(registers[r], w.lanes<uint32_t>(*m.a[r], scratch), sizeof registers[r]);
      uint32_t const poisoned = w.poison(*m.a[r]);
      for (int lane = 0; lane < kWarpSize; ++lane)
        if ((poisoned >> lane & 1) != 0) part.spoilt_rows[static_cast<size_t>(lane / 4) + 8 * (r % 2)] = 1;
    }
    part.a.resize(static_cast<size_t>(16 * wgmma_k(m.shape)));
    wgmma_a_values(m.shape, registers, part.a.data());
  }
  spoil(m, part, accumulate);
  for (Operand const* op_d : m.d) w.set_poison(*op_d, kAllLanes);
  state.open.push_back(op);

  Stamp const stamp = w.stamp(Agent::kTensorCore, 0);
  if (op->joined == 0) {
    op->stamp = stamp;
  } else {
    // The last to come brings the latest place; what any of the four knew was known when the operation started.
    Clock merged = op->stamp.clock;
    merged.join(stamp.clock);
    op->stamp = stamp;
    op->stamp.clock = merged;
  }
  op->joined |= 1u << me;
  if (op->joined == (1u << kGroupWarps) - 1) {
    while (!group.operations.empty() && group.operations.front()->joined == (1u << kGroupWarps) - 1) {
      group.operations.pop_front();
      ++group.first;
    }
    start(w, in, op);
  }
  return Step::kNext;
}

Step run_commit(Warp& w, Instruction const& in) {
  if (!whole_warp(w, in)) return Step::kNext;
  WgmmaWarp& state = state_of(w);
  state.groups.push_back(std::move(state.open));
  state.open.clear();
  ++state.committed;
  return Step::kNext;
}

void give_back(Warp& w, WgmmaAccumulators const& d) {
  for (size_t r = 0; r < d.registers.size(); ++r) {
    watched(w, d.registers[r]->poison) &= static_cast<uint8_t>(~kAccumulatorInFlight);
    w.store_lanes<uint32_t>(*d.registers[r], d.values[r].data());
    w.set_poison(*d.registers[r], d.poison[r]);
  }
}

void watch_fragments(Warp& w, std::vector<std::shared_ptr<WgmmaOperation>> const& operations) {
  for (auto const& op : operations)
    for (Operand const* a : op->instruction->decoded<Wgmma>().a) watched(w, a->poison) |= kFragmentInFlight;
}

Step run_wait(Warp& w, Instruction const& in) {
  if (!whole_warp(w, in)) return Step::kNext;
  WgmmaWarp& state = state_of(w);
  uint64_t const may_stay = static_cast<uint64_t>(in.aux);
  size_t const must = state.groups.size() > may_stay ? state.groups.size() - may_stay : 0;
  for (size_t g = 0; g < must; ++g)
    for (auto const& op : state.groups[g])
      if (!op->done) return Step::kWait;
  for (size_t g = 0; g < must; ++g) {
    for (auto const& op : state.groups.front())
      w.clock.set(op->stamp.party, std::max(w.clock[op->stamp.party], op->stamp.time));
    state.groups.pop_front();
    ++state.completed;
  }
  for (size_t i = 0; i < state.in_flight.size();) {
    if (state.in_flight[i]->last_group > state.completed) {
      ++i;
      continue;
    }
    give_back(w, *state.in_flight[i]);
    state.in_flight.erase(state.in_flight.begin() + static_cast<std::ptrdiff_t>(i));
    state.fenced = false;
  }
  unwatch(w, kFragmentInFlight);
  for (auto const& group : state.groups) watch_fragments(w, group);
  watch_fragments(w, state.open);
  return Step::kNext;
}

char const* decode_shape(Decoder& d, WgmmaShape* s) {
  for (int n = 8; n <= 256; n += 8)
    for (int k : {8, 16, 32})
      if (d.take("m64n" + std::to_string(n) + "k" + std::to_string(k))) {
        s->n = n;
        std::string_view const type_d = d.take_first(), type_a = d.take_first(), type_b = d.take_first();
        if (type_d != "f32" && type_d != "f16") return "D must be f32 or f16";
        s->fp16_accumulator = type_d == "f16";
        if (!mma_type_of(type_a, &s->type) || !mma_type_of(type_b, &s->type_b)) return "no such element type";
        if (wgmma_k(*s) != k) return "no such k for the type";
        return wgmma_shape_fault(*s);
      }
  return "no such shape";
}

Handler decode_mma_async(Decoder& d) {
  auto m = std::make_shared<Wgmma>();
  if (char const* fault = decode_shape(d, &m->shape)) return d.fail(fault);
  if (!d.operands(6, 8)) return nullptr;
  bool const registers = d.operand(1).kind == Operand::Kind::kVector;
  bool const transposable = wgmma_k(m->shape) == 16;
  if (d.operand_count() != 6 + (transposable ? (registers ? 1 : 2) : 0)) return d.fail("wrong number of operands");
  m->d = elements_of(d.operand(0));
  if (static_cast<int>(m->d.size()) != wgmma_d_registers(m->shape)) return d.fail("wrong number of accumulators");
  if (registers) {
    m->a = elements_of(d.operand(1));
    if (m->a.size() != 4) return d.fail("A has 4 registers");
  } else {
    m->descriptor_a = &d.operand(1);
  }
  m->descriptor_b = &d.operand(2);
  m->accumulate = &d.operand(3);
  int64_t values[4] = {1, 1, 0, 0};
  for (int i = 4; i < d.operand_count(); ++i)
    if (!d.immediate(i, &values[i - 4])) return d.fail("scales and transpositions must be immediates");
  m->shape.negate_a = values[0] == -1;
  m->shape.negate_b = values[1] == -1;
  int64_t const transpose_a = registers ? 0 : values[2], transpose_b = registers ? values[2] : values[3];
  m->shape.major_a = transpose_a != 0 ? Major::kMn : Major::kK;
  m->shape.major_b = transpose_b != 0 ? Major::kMn : Major::kK;
  m->count_name = mma_count_name(d.statement());
  d.instruction().category = Class::kMma;
  d.instruction().data = m;
  return run_mma_async;
}

}  // namespace

Handler decode_wgmma(Decoder& d) {
  int const what = d.take_one_of({"fence", "mma_async", "commit_group", "wait_group"});
  if (what < 0 || !d.take("sync") || !d.take("aligned")) return d.fail("no such wgmma instruction");
  d.instruction().aligned = true;
  d.instruction().side_effect = true;
  d.kernel().uses_wgmma = true;
  d.instruction().category = Class::kFence;
  if (what == 1) return decode_mma_async(d);
  if (!d.operands(what == 3 ? 1 : 0, what == 3 ? 1 : 0)) return nullptr;
  if (what == 0) return run_fence;
  if (what == 2) return run_commit;
  if (!d.immediate(0, &d.instruction().aux)) return d.fail("the number of groups must be an immediate");
  return run_wait;
}

}  // namespace ptxsim
