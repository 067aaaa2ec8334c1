// ldmatrix and stmatrix: 8x8 matrices of 16-bit elements.
//
// Lanes 8j .. 8j + 7 give the addresses of the rows of matrix j; lane l holds the two elements 2 (l % 4) .. of row l
// / 4 (with .trans: of column l / 4, rows 2 (l % 4) ..) in register j.
#include "isa/tensor.h"
#include "machine.h"

namespace ptxsim {
namespace {

constexpr int kRowBytes = 16, kRows = 8;

struct MatrixMemory {
  int matrices = 1;
  bool transposed = false;
  Space space = Space::kGeneric;
  std::vector<Operand const*> registers;
  Operand const* address = nullptr;
};

Step run_ldmatrix(Warp& w, Instruction const& in) {
  MatrixMemory const& m = in.decoded<MatrixMemory>();
  if (w.active() != kAllLanes) {
    w.finding(in, w.leader(), "divergent-aligned", "ldmatrix needs all 32 lanes of the warp");
    return Step::kNext;
  }
  uint32_t results[4][kWarpSize], undefined[4] = {};
  for (int j = 0; j < m.matrices; ++j) {
    uint16_t elements[kRows][8];
    bool bad[kRows];
    for (int row = 0; row < kRows; ++row) {
      int const lane = kRows * j + row;
      bool const poisoned = (w.poison(*m.address) >> lane & 1) != 0;
      if (poisoned)
        w.finding(in, lane, "uninitialised", "the address of a matrix row depends on what was never written");
      w.read(in, lane, m.space, w.address(*m.address, lane), kRowBytes, elements[row], &bad[row]);
    }
    for (int lane = 0; lane < kWarpSize; ++lane) {
      int const major = lane / 4, minor = 2 * (lane % 4);
      uint32_t const low = m.transposed ? elements[minor][major] : elements[major][minor];
      uint32_t const high = m.transposed ? elements[minor + 1][major] : elements[major][minor + 1];
      results[j][lane] = low | high << 16;
      bool const spoilt = m.transposed ? bad[minor] || bad[minor + 1] : bad[major];
      undefined[j] |= static_cast<uint32_t>(spoilt) << lane;
    }
  }
  for (int j = 0; j < m.matrices; ++j) {
    w.store_lanes<uint32_t>(*m.registers[static_cast<size_t>(j)], results[j]);
    if (undefined[j] != 0) w.set_poison(*m.registers[static_cast<size_t>(j)], undefined[j]);
  }
  return Step::kNext;
}

Step run_stmatrix(Warp& w, Instruction const& in) {
  MatrixMemory const& m = in.decoded<MatrixMemory>();
  if (w.active() != kAllLanes) {
    w.finding(in, w.leader(), "divergent-aligned", "stmatrix needs all 32 lanes of the warp");
    return Step::kNext;
  }
  for (int j = 0; j < m.matrices; ++j) {
    Operand const& op = *m.registers[static_cast<size_t>(j)];
    Lanes<uint32_t> scratch;
    uint32_t const* values = w.lanes<uint32_t>(op, scratch);
    uint32_t const poisoned = w.poison(op);
    uint16_t elements[kRows][8];
    bool bad[kRows] = {};
    for (int lane = 0; lane < kWarpSize; ++lane)
      for (int half = 0; half < 2; ++half) {
        int const major = lane / 4, minor = 2 * (lane % 4) + half;
        int const row = m.transposed ? minor : major;
        elements[row][m.transposed ? major : minor] = static_cast<uint16_t>(values[lane] >> 16 * half);
        bad[row] = bad[row] || (poisoned >> lane & 1) != 0;
      }
    for (int row = 0; row < kRows; ++row) {
      int const lane = kRows * j + row;
      if ((w.poison(*m.address) >> lane & 1) != 0)
        w.finding(in, lane, "uninitialised", "the address of a matrix row depends on what was never written");
      w.write(in, lane, m.space, w.address(*m.address, lane), kRowBytes, elements[row], bad[row]);
    }
  }
  return Step::kNext;
}

bool decode(Decoder& d, MatrixMemory* m, bool load) {
  if (!d.take("sync") || !d.take("aligned")) return d.fail("must be .sync.aligned") != nullptr;
  int const count = d.take_one_of({"x1", "x2", "x4"});
  if (count < 0 || !d.take("m8n8") || !d.take("b16")) return d.fail("only .m8n8 of .b16 is modelled") != nullptr;
  m->matrices = 1 << count;
  m->transposed = d.take("trans");
  if (d.take("shared") || d.take("shared::cta")) m->space = Space::kShared;
  if (!d.operands(2, 2)) return false;
  m->registers = elements_of(d.operand(load ? 0 : 1));
  m->address = &d.operand(load ? 1 : 0);
  if (static_cast<int>(m->registers.size()) != m->matrices) return d.fail("one register a matrix") != nullptr;
  d.instruction().aligned = true;
  d.instruction().side_effect = true;
  d.instruction().category = Class::kSharedMemory;
  return true;
}

}  // namespace

Handler decode_ldmatrix(Decoder& d) {
  auto m = std::make_shared<MatrixMemory>();
  if (!decode(d, m.get(), true)) return nullptr;
  d.instruction().data = m;
  return run_ldmatrix;
}

Handler decode_stmatrix(Decoder& d) {
  auto m = std::make_shared<MatrixMemory>();
  if (!decode(d, m.get(), false)) return nullptr;
  d.instruction().data = m;
  return run_stmatrix;
}

}  // namespace ptxsim
