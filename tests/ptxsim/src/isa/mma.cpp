// mma.sync.
#include "isa/tensor.h"
#include "machine.h"

namespace ptxsim {
namespace {

struct Mma {
  MmaShape shape;
  std::vector<Operand const*> d, a, b, c;
  Operand const* scale_a = nullptr;
  Operand const* scale_b = nullptr;
  Operand const* selectors[4] = {};  // byte-id and thread-id of A, then of B
  std::string count_name;
};

// Copies the registers of a fragment to [register][lane].
void load(Warp& w, std::vector<Operand const*> const& operands, uint32_t (*to)[kWarpLanes]) {
  for (size_t r = 0; r < operands.size(); ++r) {
    Lanes<uint32_t> scratch;
    std::memcpy(to[r], w.lanes<uint32_t>(*operands[r], scratch), sizeof(uint32_t) * kWarpLanes);
  }
}

// Lanes of each destination register that depend on an undefined element: an element of A spoils its row, one of B its
// column, one of C its own place, a scale what it scales. So does a scale byte that is none (harmless in rows of
// padding).
void poisoned_results(Warp& w, Mma const& m, MmaInvalid const& invalid, uint32_t spoilt[4]) {
  bool rows[16] = {}, columns[8] = {};
  bool any = invalid.rows != 0 || invalid.columns != 0;
  for (int row = 0; row < 16; ++row) rows[row] = (invalid.rows >> row & 1) != 0;
  for (int column = 0; column < 8; ++column) columns[column] = (invalid.columns >> column & 1) != 0;
  auto const mark = [&](std::vector<Operand const*> const& operands, bool of_a) {
    for (size_t r = 0; r < operands.size(); ++r) {
      uint32_t const lanes = w.poison(*operands[r]);
      for (int lane = 0; lane < kWarpLanes; ++lane) {
        if ((lanes >> lane & 1) == 0) continue;
        any = true;
        (of_a ? rows[lane / 4 + 8 * (r % 2)] : columns[lane / 4]) = true;
      }
    }
  };
  mark(m.a, true);
  mark(m.b, false);
  if (m.scale_a != nullptr) {
    int const of_a = static_cast<int>(w.value(*m.selectors[1], 0)),
              of_b = static_cast<int>(w.value(*m.selectors[3], 0));
    uint32_t const lanes_a = w.poison(*m.scale_a), lanes_b = w.poison(*m.scale_b);
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      if ((lanes_a >> lane & 1) != 0 && lane % 4 / 2 == of_a) any = rows[lane / 4 + 8 * (lane % 2)] = true;
      if ((lanes_b >> lane & 1) != 0 && lane % 4 == of_b) any = columns[lane / 4] = true;
    }
  }
  for (size_t r = 0; r < m.c.size(); ++r) spoilt[r] = w.poison(*m.c[r]);
  if (any) {
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        if (!rows[row] && !columns[column]) continue;
        MmaPlace const p = mma_c_place(m.shape, row, column);
        spoilt[p.reg] |= 1u << p.lane;
      }
  }
}

Step run_mma(Warp& w, Instruction const& in) {
  Mma const& m = in.decoded<Mma>();
  if (w.active() != kAllLanes) {
    w.finding(in, w.leader(), "divergent-aligned", "mma.sync needs all 32 lanes of the warp");
    return Step::kNext;
  }
  uint32_t a[4][kWarpLanes], b[4][kWarpLanes], c[4][kWarpLanes], d[4][kWarpLanes];
  load(w, m.a, a);
  load(w, m.b, b);
  load(w, m.c, c);
  MmaOperands operands{a, b, c, nullptr, nullptr, {}};
  Lanes<uint32_t> scales_a, scales_b;
  if (m.scale_a != nullptr) {
    operands.scale_a = w.lanes<uint32_t>(*m.scale_a, scales_a);
    operands.scale_b = w.lanes<uint32_t>(*m.scale_b, scales_b);
    MmaScaleSelect& s = operands.select;
    int* const selected[] = {&s.byte_a, &s.thread_a, &s.byte_b, &s.thread_b};
    for (int i = 0; i < 4; ++i) *selected[i] = static_cast<int>(w.uniform(in, *m.selectors[i]));
    if (char const* fault = mma_select_fault(m.shape, s)) {
      w.finding(in, 0, "mma-scale-selector", fault);
      return Step::kNext;
    }
  }
  MmaInvalid const invalid = mma_sync(m.shape, operands, d);
  // Poison of the sources first: a destination may be one of them.
  uint32_t dirty = invalid.rows | invalid.columns;
  for (auto const* list : {&m.a, &m.b, &m.c})
    for (Operand const* op : *list) dirty |= w.poison(*op);
  if (m.scale_a != nullptr) dirty |= w.poison(*m.scale_a) | w.poison(*m.scale_b);
  if (dirty == 0) {
    for (size_t r = 0; r < m.d.size(); ++r) w.store_lanes<uint32_t>(*m.d[r], d[r]);
  } else {
    uint32_t spoilt[4] = {};
    poisoned_results(w, m, invalid, spoilt);
    for (size_t r = 0; r < m.d.size(); ++r) {
      w.store_lanes<uint32_t>(*m.d[r], d[r]);
      w.set_poison(*m.d[r], spoilt[r]);
    }
  }
  ++w.cluster().tally.mma[m.count_name];
  return Step::kNext;
}

// Types and shape from what is left of the modifiers; null if something is not known.
char const* decode_shape(Decoder& d, Mma* m) {
  MmaShape& s = m->shape;
  int const k = d.take_one_of({"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m16n8k64"});
  if (k < 0) return "no such shape";
  s.k = 4 << k;
  if (!d.take("row") || !d.take("col")) return "A must be row and B col";
  int const kind = d.take_one_of({"kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"});
  s.container_8 = kind == 0 || kind == 1;
  bool const scaled = d.take("block_scale");
  if (scaled != (kind >= 1)) return "block_scale does not go with the kind";
  int const vector = d.take_one_of({"scale_vec::1X", "scale_vec::2X", "scale_vec::4X"});
  if (scaled) s.scales = vector >= 0 ? 1 << vector : kind == 1 ? 1 : 2;
  if (!scaled && vector >= 0) return "scale_vec without block_scale";
  std::string_view const type_d = d.take_first(), type_a = d.take_first(), type_b = d.take_first(),
                         type_c = d.take_first();
  if ((type_d != "f32" && type_d != "f16") || type_c != type_d) return "D and C must both be f32 or f16";
  s.fp16_accumulator = type_d == "f16";
  if (!mma_type_of(type_a, &s.a) || !mma_type_of(type_b, &s.b)) return "no such element type";
  if (scaled) {
    int const type = d.take_one_of({"ue4m3", "ue8m0"});
    if (type < 0) return "no such scale type";
    s.scale = type == 0 ? ScaleType::kUe4m3 : ScaleType::kUe8m0;
    if (kind == 2 && s.scales != 2) return "kind::mxf4 has scale_vec::2X";
  }
  return mma_shape_fault(s);
}

}  // namespace

bool mma_type_of(std::string_view name, MmaType* type) {
  struct Entry {
    std::string_view name;
    MmaType type;
  };
  constexpr Entry kEntries[] = {{"f16", MmaType::kFp16},  {"bf16", MmaType::kBf16}, {"tf32", MmaType::kTf32},
                                {"e4m3", MmaType::kE4m3}, {"e5m2", MmaType::kE5m2}, {"e2m3", MmaType::kE2m3},
                                {"e3m2", MmaType::kE3m2}, {"e2m1", MmaType::kE2m1}};
  for (Entry const& entry : kEntries)
    if (entry.name == name) {
      *type = entry.type;
      return true;
    }
  return false;
}

std::string mma_count_name(Statement const& statement) {
  std::string name(statement.opcode);
  for (std::string_view modifier : statement.modifiers)
    if (modifier != "sync" && modifier != "aligned" && modifier != "row" && modifier != "col")
      name.append(".").append(modifier);
  return name;
}

Handler decode_mma(Decoder& d) {
  if (!d.take("sync") || !d.take("aligned")) return d.fail("mma must be .sync.aligned");
  auto m = std::make_shared<Mma>();
  if (char const* fault = decode_shape(d, m.get())) return d.fail(fault);
  bool const scaled = m->shape.scales != 0;
  if (!d.operands(scaled ? 8 : 4, scaled ? 8 : 4)) return nullptr;
  m->d = elements_of(d.operand(0));
  m->a = elements_of(d.operand(1));
  m->b = elements_of(d.operand(2));
  d.constant_width(3, 4);
  m->c = elements_of(d.operand(3));
  auto const count = [](std::vector<Operand const*> const& list) { return static_cast<int>(list.size()); };
  if (count(m->d) != mma_c_registers(m->shape) || count(m->c) != count(m->d) ||
      count(m->a) != mma_a_registers(m->shape) || count(m->b) != mma_b_registers(m->shape))
    return d.fail("fragments of the wrong number of registers");
  if (scaled) {
    m->scale_a = elements_of(d.operand(4))[0];
    m->scale_b = elements_of(d.operand(6))[0];
    for (int i = 0; i < 2; ++i) {
      auto const pair = elements_of(d.operand(5 + 2 * i));
      if (pair.size() != 2) return d.fail("scale selectors must be {byte-id, thread-id}");
      m->selectors[2 * i] = pair[0], m->selectors[2 * i + 1] = pair[1];
    }
  }
  m->count_name = mma_count_name(d.statement());
  d.instruction().data = m;
  d.instruction().aligned = true;
  d.instruction().category = Class::kMma;
  return run_mma;
}

}  // namespace ptxsim
