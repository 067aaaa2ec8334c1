// What the files of tensor copies share.
#ifndef PTXSIM_ISA_TMA_H_
#define PTXSIM_ISA_TMA_H_

#include <cstdint>

#include "machine.h"
#include "units.h"

namespace ptxsim {

// Reads the tensor map at a generic address for use by a lane; false, with a finding, if it is none, faulty, has no
// model, has another rank, or was modified without the warp having acquired it since.
bool fetch_tensor_map(Warp& w, Instruction const& in, int lane, uint64_t address, uint32_t rank, TensorMap* map);

// A box and where it meets memory.
struct TensorBox {
  TensorMap map;
  int32_t at[5] = {};
  uint32_t bytes = 0;       // in shared memory
  bool whole = true;        // no element is out of bounds
  bool all_written = true;  // every byte in bounds was written (of loads)
  uint64_t inside = 0;      // global bytes in bounds
};
// Checks map, coordinates and every global byte that is in bounds; false with a finding.
bool fetch_tensor_box(Warp& w, Instruction const& in, int lane, Operand const& map_and_coordinates, bool is_write,
                      TensorBox* box);

// Calls visit(offset, bytes) for ranges of shared memory that together are the box at `shared` (all of it, or only
// what is in bounds): one range where that is possible.
template <class Visit>
void for_each_shared_range(TensorBox const& box, uint32_t shared, bool only_inside, Visit&& visit) {
  // Rows of 128 bytes are permuted in themselves, so whole ones stay in place as a set.
  bool const compact = box.map.swizzle == TensorSwizzle::kNone || box.bytes % 128 == 0;
  if (compact && (box.whole || !only_inside)) {
    visit(shared, box.bytes);
    return;
  }
  for_each_tensor_run(box.map, box.at, shared, [&](TensorRun const& run) {
    if (run.in_bounds || !only_inside) visit(run.shared, run.bytes);
  });
}

}  // namespace ptxsim

#endif
