// Decode functions of the tensor instructions, for isa/opcodes.cpp, and what their files share.
#ifndef PTXSIM_ISA_TENSOR_H_
#define PTXSIM_ISA_TENSOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa.h"
#include "units.h"

namespace ptxsim {

Handler decode_mma(Decoder& d);        // mma.sync
Handler decode_ldmatrix(Decoder& d);   // ldmatrix
Handler decode_stmatrix(Decoder& d);   // stmatrix
Handler decode_wgmma(Decoder& d);      // wgmma.{fence, mma_async, commit_group, wait_group}
Handler decode_tcgen05(Decoder& d);    // tcgen05.*
Handler decode_tensormap(Decoder& d);  // tensormap.{replace, cp_fenceproxy}
// For the opcode "cp", when the modifiers say so: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and
// cp.async.bulk.prefetch.tensor.
bool is_tensor_copy(Decoder const& d);
Handler decode_tensor_copy(Decoder& d);
// For the opcode "fence", when the modifiers begin with proxy.tensormap::generic.
bool is_tensormap_fence(Decoder const& d);
Handler decode_tensormap_fence(Decoder& d);

// A vector's elements, or the operand itself where braces were left away.
inline std::vector<Operand const*> elements_of(Operand const& op) {
  std::vector<Operand const*> all;
  if (op.kind != Operand::Kind::kVector) return {&op};
  for (Operand const& element : op.elements) all.push_back(&element);
  return all;
}

// Element types of matrix instructions. False: no such type.
bool mma_type_of(std::string_view name, MmaType* type);
// "<opcode> <shape> <types>": how counts name an instruction.
std::string mma_count_name(Statement const& statement);

}  // namespace ptxsim

#endif
