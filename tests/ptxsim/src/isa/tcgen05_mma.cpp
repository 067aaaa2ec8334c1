// tcgen05.mma.
//
// At issue: descriptors, shared memory, scale factors and accumulators are checked against what the issuing thread
// knows. The products are computed when the machine completes the operation, in order with the CTA's other
// tensor-core operations.
#include <algorithm>
#include <initializer_list>

#include "isa/tcgen05.h"

namespace ptxsim {
namespace {

struct Mma {
  Tcgen05Kind kind = Tcgen05Kind::kF16;
  int cta_group = 1, scale_block = 0;
  Operand const* d = nullptr;
  Operand const* a = nullptr;  // a descriptor, or [tensor memory]
  Operand const* b = nullptr;
  Operand const* descriptor = nullptr;
  Operand const* scale_a = nullptr;
  Operand const* scale_b = nullptr;
  Operand const* disabled = nullptr;
  Operand const* enable = nullptr;
  int scale_d = 0;
  bool a_in_tmem = false;
  std::string count_name;
};

// One issue, ready to run.
struct Issue {
  Tcgen05Mma mma;
  SmemMatrix a, b;
  TmemAddress d, a_tmem, scale_a, scale_b;
  bool a_in_tmem = false, accumulate = false;
  int scale_d = 0, count = 1;
  Cta* ctas[2] = {};
  uint32_t disabled[2][4] = {};
};

struct Undefined {
  bool row[kTmemLanes] = {}, column[256] = {};
};

std::string address_fault(uint32_t address, int sf_id) {
  uint32_t const id = address >> 30;
  if (id != 0 && static_cast<int>(id) != sf_id)
    return "the id in bits 31:30 of a scale factor address is not that of the instruction descriptor";
  return tmem_address(address & 0x3FFFFFFF).lane != 0 ? "scale factors begin at lane 0" : "";
}

// Fills the issue from a lane's operands; returns what is wrong.
std::string resolve(Warp& w, Mma const& m, int lane, Issue* x) {
  uint32_t const descriptor = static_cast<uint32_t>(w.value(*m.descriptor, lane));
  std::string fault = decode_tcgen05(m.kind, m.cta_group, m.scale_block, descriptor, &x->mma);
  if (!fault.empty()) return fault;
  x->d = tmem_address(static_cast<uint32_t>(w.address(*m.d, lane)));
  if (x->d.lane != 0 && !(x->mma.ctas == 1 && x->mma.m == 64 && x->d.lane == 16))
    return "the accumulators' address has the wrong lane";
  SmemOperand operand;
  if (m.a_in_tmem) {
    x->a_tmem = tmem_address(static_cast<uint32_t>(w.address(*m.a, lane)));
    if (x->a_tmem.lane != 0 || x->mma.m / x->mma.ctas != 128 || x->mma.width() < 16)
      return "A in tensor memory is modelled for 128 rows a CTA and 16- or 32-bit types";
  } else {
    if (fault = decode_tcgen05_descriptor(w.value(*m.a, lane), &operand); !fault.empty()) return "A: " + fault;
    x->a = tcgen05_a_matrix(x->mma, operand);
    if (fault = smem_matrix_fault(x->a); !fault.empty()) return "A: " + fault;
  }
  if (fault = decode_tcgen05_descriptor(w.value(*m.b, lane), &operand); !fault.empty()) return "B: " + fault;
  x->b = tcgen05_b_matrix(x->mma, operand);
  if (fault = smem_matrix_fault(x->b); !fault.empty()) return "B: " + fault;
  if (m.scale_a != nullptr) {
    uint32_t const address_a = static_cast<uint32_t>(w.address(*m.scale_a, lane));
    uint32_t const address_b = static_cast<uint32_t>(w.address(*m.scale_b, lane));
    if (fault = address_fault(address_a, x->mma.sf_id_a); !fault.empty()) return fault;
    if (fault = address_fault(address_b, x->mma.sf_id_b); !fault.empty()) return fault;
    x->scale_a = tmem_address(address_a & 0x3FFFFFFF);
    x->scale_b = tmem_address(address_b & 0x3FFFFFFF);
  }
  x->a_in_tmem = m.a_in_tmem;
  x->scale_d = m.scale_d;
  x->accumulate = (w.predicate(*m.enable) >> lane & 1) != 0;
  if (m.disabled != nullptr) {
    auto const words = elements_of(*m.disabled);
    for (size_t i = 0; i < words.size(); ++i)
      x->disabled[i / 4][i % 4] = static_cast<uint32_t>(w.value(*words[i], lane));
  }
  return "";
}

bool check_scales(Issue const& x, bool of_b, TmemCheck* check, Undefined* undefined) {
  TmemAddress const base = of_b ? x.scale_b : x.scale_a;
  int last = 0;
  for_each_scale_word(of_b, x.mma, [&](int, int column) { last = std::max(last, column); });
  if (!check->range(base.column, last + 1)) return false;
  int const rows = of_b ? x.mma.n : kTmemLanes;
  for (int row = 0; row < rows; ++row)
    for (int j = 0, before = -1; j < x.mma.scales(); ++j) {
      int const column = base.column + tcgen05_scale_place(of_b, x.mma, row, j).column;
      if (column == before) continue;  // a byte of the same word
      before = column;
      for (int q = 0; q < 4; ++q)
        if (!check->read(row % 32 + 32 * q, column, true)) (of_b ? undefined->column[row] : undefined->row[row]) = true;
    }
  return true;
}

bool check_accumulators(Issue const& x, int cta, TmemCheck* check, Undefined const& undefined) {
  if (!check->range(x.d.column, tcgen05_d_columns(x.mma))) return false;
  TensorMemory& tensor = tensor_state(*x.ctas[cta]);
  int const rows = x.mma.m / x.mma.ctas;
  int const run = tcgen05_d_columns(x.mma);
  for (int m = 0; m < rows; ++m)
    for (int first = 0; first < x.mma.n; first += run) {
      TmemPlace const p = tcgen05_d_place(x.mma, cta * rows + m, first);
      int const lane = x.d.lane + p.lane;
      if ((x.disabled[cta][lane / 32] >> lane % 32 & 1) != 0) continue;
      for (int i = 0; i < run; ++i) {
        int const column = x.d.column + p.column + i;
        bool const defined = !x.accumulate || check->read(lane, column, true);
        check->write(lane, column);
        if (!defined || undefined.row[m] || undefined.column[first + i])
          tensor.written[static_cast<size_t>(tmem_index(lane, column))] = 2;
      }
    }
  return true;
}

bool check_issue(Warp& w, Instruction const& in, int lane, Issue const& x, Stamp const& stamp) {
  bool fine = true;
  for (int cta = 0; cta < x.count && fine; ++cta) {
    Undefined undefined;
    TmemCheck check(w, in, lane, *x.ctas[cta], stamp);
    for (SmemMatrix const* matrix : {x.a_in_tmem ? nullptr : &x.a, &x.b}) {
      if (matrix == nullptr) continue;
      for_each_smem_chunk(*matrix, [&](SmemChunk const& chunk) {
        fine = fine && x.ctas[cta]->shared.async_read(w, in, lane, chunk.address, 16, stamp);
      });
    }
    if (x.a_in_tmem) {
      int const columns = x.mma.k * x.mma.width() / 32;
      if (!check.range(x.a_tmem.column, columns)) return false;
      for (int row = 0; row < kTmemLanes; ++row)
        for (int c = 0; c < columns; ++c)
          if (!check.read(row, x.a_tmem.column + c, true)) undefined.row[row] = true;
    }
    if (x.mma.scale_block != 0)
      fine = fine && check_scales(x, false, &check, &undefined) && check_scales(x, true, &check, &undefined);
    fine = fine && check_accumulators(x, cta, &check, undefined);
  }
  return fine;
}

// Accumulators that a scale byte which is none went into become undefined: in rows of padding that is harmless.
void spoil(Issue const& x, int cta, Tcgen05Invalid const& invalid) {
  TensorMemory& tensor = tensor_state(*x.ctas[cta]);
  int const rows = x.mma.m / x.mma.ctas;
  for (int m = 0; m < rows; ++m)
    for (int n = 0; n < x.mma.n; ++n) {
      if (!invalid.row[m] && !invalid.column[n]) continue;
      TmemPlace const p = tcgen05_d_place(x.mma, cta * rows + m, n);
      tensor.written[static_cast<size_t>(tmem_index(x.d.lane + p.lane, x.d.column + p.column))] = 2;
    }
}

void compute(Issue const& x) {
  int const rows = x.mma.m / x.mma.ctas, k = x.mma.k;
  size_t const half = static_cast<size_t>(x.mma.n / x.mma.ctas) * k;
  std::vector<double> a(static_cast<size_t>(rows) * k), b(static_cast<size_t>(x.mma.n) * k);
  for (int cta = 0; cta < x.count; ++cta)
    read_smem_matrix(x.b, x.mma.b, x.ctas[cta]->shared.bytes(), b.data() + half * static_cast<size_t>(cta));
  for (int cta = 0; cta < x.count; ++cta) {
    TensorMemory& tensor = tensor_state(*x.ctas[cta]);
    if (x.a_in_tmem)
      tcgen05_a_from_tmem(x.mma, tensor.words.data(), x.a_tmem, a.data());
    else
      read_smem_matrix(x.a, x.mma.a, x.ctas[cta]->shared.bytes(), a.data());
    Tcgen05Run run{a.data(), b.data(), tensor.words.data(), x.d, x.scale_a, x.scale_b};
    run.accumulate = x.accumulate;
    run.scale_d = x.scale_d;
    std::memcpy(run.disabled, x.disabled[cta], sizeof run.disabled);
    Tcgen05Invalid invalid;
    if (!tcgen05_product(x.mma, cta, run, &invalid)) spoil(x, cta, invalid);
  }
}

Step run_mma(Warp& w, Instruction const& in) {
  Mma const& m = in.decoded<Mma>();
  check_cta_group(w, in, m.cta_group);
  for (Operand const* op : {m.d, m.a, m.b, m.descriptor, m.scale_a, m.scale_b, m.enable})
    if (op != nullptr) w.require_defined(in, *op, "an address, a descriptor or the predicate of tcgen05.mma");
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.active() >> lane & 1) == 0) continue;
    Issue x;
    if (std::string const fault = resolve(w, m, lane, &x); !fault.empty()) {
      w.finding(in, lane, "matrix-descriptor", fault);
      continue;
    }
    x.count = ctas_of_group(w, m.cta_group, x.ctas);
    Stamp const stamp = w.stamp(Agent::kTensorCore, lane);
    if (!check_issue(w, in, lane, x, stamp)) continue;
    ++w.cluster().tally.mma[m.count_name];
    Cluster& cluster = w.cluster();
    cluster.defer(tensor_core_chain(w.cta()), [x] { compute(x); });
  }
  return Step::kNext;
}

}  // namespace

Handler decode_tcgen05_mma(Decoder& d) {
  auto m = std::make_shared<Mma>();
  m->cta_group = take_cta_group(d);
  int const kind =
      d.take_one_of({"kind::f16", "kind::tf32", "kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"});
  if (m->cta_group == 0 || kind < 0) return d.fail("no such tcgen05.mma");
  m->kind = static_cast<Tcgen05Kind>(kind);
  bool const scaled = d.take("block_scale");
  if (scaled != (kind >= 3)) return d.fail("block_scale does not go with the kind");
  int const vector = d.take_one_of({"scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32"});
  if (!scaled && vector >= 0) return d.fail("scales without block_scale");
  if (scaled) {
    if (vector < 0 && m->kind == Tcgen05Kind::kMxf4nvf4) return d.fail("kind::mxf4nvf4 must name its scale_vec");
    m->scale_block = vector == 2 || vector == 3 ? 16 : 32;
    if ((vector == 0) != (m->kind == Tcgen05Kind::kMxf8f6f4) && vector >= 0 && vector <= 2)
      return d.fail("scale_vec does not suit the kind");
  }
  // Reuse of A between products: without effect on results.
  d.take_one_of({"collector::a::fill", "collector::a::use", "collector::a::lastuse", "collector::a::discard"});
  if (!d.operands(scaled ? 7 : 5, 7)) return nullptr;
  m->d = &d.operand(0);
  m->a = &d.operand(1);
  m->a_in_tmem = m->a->kind == Operand::Kind::kAddress;
  m->b = &d.operand(2);
  m->descriptor = &d.operand(3);
  int next = 4;
  if (scaled) {
    m->scale_a = &d.operand(next++);
    m->scale_b = &d.operand(next++);
  } else if (d.operand(next).kind == Operand::Kind::kVector) {
    m->disabled = &d.operand(next++);
    if (elements_of(*m->disabled).size() != (m->cta_group == 1 ? 4u : 8u))
      return d.fail("disable-output-lane has 4 words, with cta_group::2 8");
  }
  if (next >= d.operand_count()) return d.fail("no enable-input-d");
  m->enable = &d.operand(next++);
  if (next < d.operand_count()) {
    int64_t value;
    if (scaled || !d.immediate(next++, &value) || value < 0 || value > 15) return d.fail("scale-input-d must be 0..15");
    m->scale_d = static_cast<int>(value);
  }
  if (next != d.operand_count()) return d.fail("wrong number of operands");
  m->count_name = mma_count_name(d.statement());
  d.instruction().category = Class::kMma;
  d.instruction().data = m;
  return run_mma;
}

}  // namespace ptxsim
