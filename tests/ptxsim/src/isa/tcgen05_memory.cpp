// tcgen05.ld, .st and .cp.
//
// A load gives its values at once (they may be used without wait::ld); what wait::ld decides is when the words may be
// overwritten by others. A store counts for others after wait::st.
#include <algorithm>
#include <initializer_list>

#include "isa/tcgen05.h"

namespace ptxsim {
namespace {

constexpr TmemShape kShapes[] = {TmemShape::k32x32b, TmemShape::k16x64b, TmemShape::k16x128b, TmemShape::k16x256b,
                                 TmemShape::k16x32bx2};

struct Access {
  TmemShape shape = TmemShape::k32x32b;
  bool packed = false;
  int split = 0;
  std::vector<Operand const*> registers;
  Operand const* address = nullptr;
};

// The address, checked for what this warp may reach; columns: of the whole access.
bool resolve(Warp& w, Instruction const& in, Access const& a, TmemCheck* check, TmemAddress* at) {
  if (w.active() != kAllLanes) {
    w.finding(in, w.leader(), "divergent-aligned", "this tcgen05 instruction needs all 32 lanes of the warp");
    return false;
  }
  w.require_defined(in, *a.address, "an address of tensor memory");
  Operand const& base = a.address->elements[0];
  *at = tmem_address(static_cast<uint32_t>(w.uniform(in, base) + static_cast<uint64_t>(a.address->offset)));
  int const quarter = 32 * (w.number() % 4);
  bool const whole = a.shape == TmemShape::k32x32b;
  if (at->lane != quarter && (whole || at->lane != quarter + 16)) {
    w.finding(in, 0, "tensor-memory-lanes",
              "warp " + std::to_string(w.number()) + " may reach lanes " + std::to_string(quarter) + ".." +
                  std::to_string(quarter + 31) + " only; the address begins at lane " + std::to_string(at->lane));
    return false;
  }
  int last = 0;
  int const reg = static_cast<int>(a.registers.size()) - 1;
  for (int lane = 0; lane < kWarpSize; ++lane) last = std::max(last, tmem_access(a.shape, reg, lane, a.split).column);
  int const columns = a.packed ? 2 * (last + 1) : last + 1;
  return check->range(at->column, columns);
}

Step run_ld(Warp& w, Instruction const& in) {
  Access const& a = in.decoded<Access>();
  TmemCheck check(w, in, w.cta());
  TmemAddress at;
  if (!resolve(w, in, a, &check, &at)) return Step::kNext;
  TensorMemory& tensor = tensor_state(w.cta());
  std::vector<int>& loads = tensor.loads[w.number()];
  for (size_t r = 0; r < a.registers.size(); ++r) {
    uint32_t values[kWarpSize], undefined = 0;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      TmemAddress const cell = tmem_access(a.shape, static_cast<int>(r), lane, a.split);
      int const row = at.lane + cell.lane;
      uint32_t word = 0;
      for (int half = 0; half < (a.packed ? 2 : 1); ++half) {
        int const column = at.column + (a.packed ? 2 * cell.column + half : cell.column);
        int const index = tmem_index(row, column);
        uint32_t const value = tensor.words[static_cast<size_t>(index)];
        word |= a.packed ? (value & 0xFFFF) << 16 * half : value;
        check.read(row, column, false);
        if (tensor.written[static_cast<size_t>(index)] != 1) undefined |= 1u << lane;
        loads.push_back(index);
      }
      values[lane] = word;
    }
    w.store_lanes<uint32_t>(*a.registers[r], values);
    if (undefined != 0) w.set_poison(*a.registers[r], undefined);
  }
  return Step::kNext;
}

Step run_st(Warp& w, Instruction const& in) {
  Access const& a = in.decoded<Access>();
  TmemCheck check(w, in, w.cta());
  TmemAddress at;
  if (!resolve(w, in, a, &check, &at)) return Step::kNext;
  TensorMemory& tensor = tensor_state(w.cta());
  std::vector<int>& stores = tensor.stores[w.number()];
  for (size_t r = 0; r < a.registers.size(); ++r) {
    Lanes<uint32_t> scratch;
    uint32_t const* values = w.lanes<uint32_t>(*a.registers[r], scratch);
    uint32_t const poisoned = w.poison(*a.registers[r]);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      TmemAddress const cell = tmem_access(a.shape, static_cast<int>(r), lane, a.split);
      int const row = at.lane + cell.lane;
      for (int half = 0; half < (a.packed ? 2 : 1); ++half) {
        int const column = at.column + (a.packed ? 2 * cell.column + half : cell.column);
        size_t const index = static_cast<size_t>(tmem_index(row, column));
        check.write(row, column);
        tensor.words[index] = a.packed ? values[lane] >> 16 * half & 0xFFFF : values[lane];
        if ((poisoned >> lane & 1) != 0) tensor.written[index] = 2;
        stores.push_back(static_cast<int>(index));
      }
    }
  }
  ++w.cluster().progress;
  return Step::kNext;
}

bool decode_access(Decoder& d, Access* a, bool load) {
  if (!d.take("sync") || !d.take("aligned")) return d.fail("must be .sync.aligned") != nullptr;
  int const shape = d.take_one_of({"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"});
  int const repeat = d.take_one_of({"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"});
  if (shape < 0 || repeat < 0 || !d.take("b32")) return d.fail("no such shape") != nullptr;
  a->shape = kShapes[shape];
  a->packed = d.take(load ? "pack::16b" : "unpack::16b");
  if (1 << repeat > tmem_max_repeat(a->shape)) return d.fail("no such repetition") != nullptr;
  bool const split = a->shape == TmemShape::k16x32bx2;
  if (!d.operands(split ? 3 : 2, split ? 3 : 2)) return false;
  int const address = load ? 1 : 0, registers = load ? 0 : split ? 2 : 1;
  a->address = &d.operand(address);
  a->registers = elements_of(d.operand(registers));
  if (split) {
    int64_t value;
    if (!d.immediate(load ? 2 : 1, &value)) return d.fail("the split must be an immediate") != nullptr;
    a->split = static_cast<int>(value);
  }
  if (static_cast<int>(a->registers.size()) != tmem_registers(a->shape) << repeat)
    return d.fail("wrong number of registers") != nullptr;
  d.instruction().aligned = true;
  return true;
}

struct Copy {
  TmemCopy shape;
  int cta_group;
};

Step run_cp(Warp& w, Instruction const& in) {
  Copy const& c = in.decoded<Copy>();
  check_cta_group(w, in, c.cta_group);
  w.require_defined(in, in.operand(0), "an address of tensor memory");
  w.require_defined(in, in.operand(1), "a matrix descriptor");
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((w.active() >> lane & 1) == 0) continue;
    SmemOperand operand;
    std::string fault = decode_tcgen05_descriptor(w.value(in.operand(1), lane), &operand);
    SmemMatrix const matrix = tmem_cp_matrix(c.shape, operand);
    if (fault.empty()) fault = smem_matrix_fault(matrix);
    TmemAddress const at = tmem_address(static_cast<uint32_t>(w.address(in.operand(0), lane)));
    if (fault.empty() && at.lane != 0) fault = "the address of tcgen05.cp must have lane 0";
    if (!fault.empty()) {
      w.finding(in, lane, "matrix-descriptor", fault);
      continue;
    }
    Cta* ctas[2];
    int const count = ctas_of_group(w, c.cta_group, ctas);
    Stamp const stamp = w.stamp(Agent::kTensorCore, lane);
    // With cta_group::2 each CTA of the pair copies from its own shared memory to its own tensor memory: SFA differs
    // between the two, so it cannot be otherwise.
    bool fine = true;
    for (int i = 0; i < count; ++i) {
      TmemCheck check(w, in, lane, *ctas[i], stamp);
      fine = fine && check.range(at.column, matrix.k / 4);
      for_each_smem_chunk(matrix, [&](SmemChunk const& chunk) {
        fine = fine && ctas[i]->shared.async_read(w, in, lane, chunk.address, 16, stamp, true);
        if (!fine) return;
        int lanes[4];
        int const copies = tmem_cp_lanes(c.shape, chunk.row, lanes);
        for (int j = 0; j < 4; ++j) {
          bool defined = true;  // undefined bytes (padding of scales) make undefined words
          for (uint32_t b = 0; b < 4; ++b)
            defined = defined && (ctas[i]->shared.state(chunk.address + static_cast<uint32_t>(4 * j) + b) &
                                  SharedMemory::kWritten) != 0;
          for (int copy = 0; copy < copies; ++copy) {
            int const column = at.column + chunk.k / 4 + j;
            check.write(lanes[copy], column);
            if (!defined) tensor_state(*ctas[i]).written[static_cast<size_t>(tmem_index(lanes[copy], column))] = 2;
          }
        }
      });
    }
    if (!fine) continue;
    Cta* const first = ctas[0];
    Cta* const second = count == 2 ? ctas[1] : nullptr;
    w.cluster().defer(tensor_core_chain(w.cta()), [=, &c] {
      for (Cta* cta : {first, second}) {
        if (cta == nullptr) continue;
        TensorMemory& tensor = tensor_state(*cta);
        for_each_smem_chunk(matrix, [&](SmemChunk const& chunk) {
          int lanes[4];
          int const copies = tmem_cp_lanes(c.shape, chunk.row, lanes);
          for (int copy = 0; copy < copies; ++copy)
            std::memcpy(&tensor.words[static_cast<size_t>(tmem_index(lanes[copy], at.column + chunk.k / 4))],
                        cta->shared.bytes() + chunk.address, 16);
        });
      }
    });
  }
  return Step::kNext;
}

}  // namespace

Handler decode_tcgen05_ld(Decoder& d) {
  auto a = std::make_shared<Access>();
  if (!decode_access(d, a.get(), true)) return nullptr;
  d.instruction().data = a;
  return run_ld;
}

Handler decode_tcgen05_st(Decoder& d) {
  auto a = std::make_shared<Access>();
  if (!decode_access(d, a.get(), false)) return nullptr;
  d.instruction().data = a;
  return run_st;
}

Handler decode_tcgen05_cp(Decoder& d) {
  auto c = std::make_shared<Copy>();
  c->cta_group = take_cta_group(d);
  int const shape = d.take_one_of({"128x256b", "128x128b", "64x128b", "32x128b"});
  if (c->cta_group == 0 || shape < 0) return d.fail("no such tcgen05.cp");
  if (shape <= 1) {
    c->shape = shape == 0 ? TmemCopy::k128x256b : TmemCopy::k128x128b;
  } else if (shape == 2) {
    int const pairing = d.take_one_of({"warpx2::02_13", "warpx2::01_23"});
    if (pairing < 0) return d.fail("64x128b must be .warpx2");
    c->shape = pairing == 0 ? TmemCopy::k64x128bWarpx2_02_13 : TmemCopy::k64x128bWarpx2_01_23;
  } else {
    if (!d.take("warpx4")) return d.fail("32x128b must be .warpx4");
    c->shape = TmemCopy::k32x128bWarpx4;
  }
  if (!d.operands(2, 2)) return nullptr;
  d.instruction().data = c;
  return run_cp;
}

}  // namespace ptxsim
