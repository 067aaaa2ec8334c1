// Tensor-core state of a CTA: warpgroups' wgmma operations in flight, and the tensor memory of tcgen05.
#ifndef PTXSIM_ISA_TENSOR_STATE_H_
#define PTXSIM_ISA_TENSOR_STATE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "machine.h"
#include "units.h"

namespace ptxsim {

// ---- wgmma ----------------------------------------------------------------------------------------------------------
constexpr int kGroupWarps = 4;

// A warp's accumulators between the first wgmma that uses their registers and the wait that gives them back.
// Meanwhile the registers themselves are poisoned, so that reading one shows, and writing one shows at the wait.
struct WgmmaAccumulators {
  std::vector<Operand const*> registers;
  std::vector<std::array<uint32_t, kWarpSize>> values;
  std::vector<uint32_t> poison;  // what the registers' poison will be
  uint64_t last_group = 0;
};

// One operation of a warpgroup; it starts when all four warps have come to it.
struct WgmmaOperation {
  Instruction const* instruction = nullptr;
  uint64_t descriptor_a = 0, descriptor_b = 0;
  bool accumulate = false;
  SmemOperand a, b;
  uint32_t joined = 0;  // warps
  struct Part {
    std::vector<double> a;  // of registers
    std::array<uint32_t, 16> spoilt_rows{};
    std::shared_ptr<WgmmaAccumulators> d;
  } parts[kGroupWarps];
  Stamp stamp;
  bool readable = true;  // its matrices lie inside shared memory
  bool done = false;
};

struct WgmmaWarp {
  bool fenced = false;
  uint64_t issued = 0;     // operations of the warpgroup that this warp has joined
  uint64_t committed = 0;  // groups
  uint64_t completed = 0;
  std::deque<std::vector<std::shared_ptr<WgmmaOperation>>> groups;  // committed, not completed
  std::vector<std::shared_ptr<WgmmaOperation>> open;                // not committed
  std::vector<std::shared_ptr<WgmmaAccumulators>> in_flight;
};

struct Warpgroup {
  WgmmaWarp warps[kGroupWarps];
  uint64_t first = 0;                                      // number of operations[0]
  std::deque<std::shared_ptr<WgmmaOperation>> operations;  // that not all warps have joined
};

// ---- tcgen05 --------------------------------------------------------------------------------------------------------
constexpr int kTmemUnit = 32, kTmemUnits = kTmemColumns / kTmemUnit;

// Of a tensor map in global memory: which change of it warps have acquired; and them (by party), each with its time.
struct AcquiredMap {
  uint64_t generation = 0;
  std::map<uint32_t, uint32_t> by;
};

// machine.h's name for all of it.
class TensorMemory {
 public:
  std::map<int, Warpgroup> warpgroups;
  std::map<uint64_t, AcquiredMap> acquired_maps;  // by address

  // Of a word: who wrote and last read it (party + 1, 0: nobody) and when on that party's clock.
  struct Word {
    uint32_t writer = 0, write_time = 0, reader = 0, read_time = 0;
  };
  static constexpr uint32_t kUnwaited = 0xFFFFFFFF;  // time of a load or store before its wait::ld or wait::st

  bool present() const { return !words.empty(); }
  void make() {
    if (present()) return;
    words.assign(kTmemLanes * kTmemColumns, 0);
    known.assign(words.size(), Word());
    written.assign(words.size(), 0);
  }
  bool allocated(int column, int columns) const {
    for (int c = column / kTmemUnit; c <= (column + columns - 1) / kTmemUnit; ++c)
      if (c < 0 || c >= kTmemUnits || owner[c] == 0) return false;
    return true;
  }

  std::vector<uint32_t> words;
  std::vector<Word> known;
  // 0: never written, 1: written, 2: written with what was never written itself.
  std::vector<uint8_t> written;
  int owner[kTmemUnits] = {};  // number of the allocation, 0: free
  int allocations = 0;
  uint32_t last_columns = 0;  // of the last allocation
  bool relinquished = false;
  int cta_group = 0;                              // that the kernel's tcgen05 instructions use; 0: not known yet
  std::map<int, std::vector<int>> loads, stores;  // by warp: words accessed since its last wait::ld, wait::st
};

// The CTA's state, made when first needed.
TensorMemory& tensor_state(Cta& cta);

}  // namespace ptxsim

#endif
