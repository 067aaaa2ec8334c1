// A kernel decoded for the machine: registers and constants laid out, operands resolved, one Instruction a statement.
#ifndef PTXSIM_KERNEL_H_
#define PTXSIM_KERNEL_H_

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "isa.h"

namespace ptxsim {

struct Kernel {
  Module const* module = nullptr;
  Function const* function = nullptr;
  std::string name;  // demangled

  // Registers of a warp: bytes, and masks of poison (number 0 unused).
  struct Register {
    uint32_t slot, poison;
    uint8_t width;
  };
  std::vector<Register> registers;
  uint32_t register_bytes = 64;
  uint32_t poison_masks = 1;
  std::vector<uint8_t> constants;

  // Registers that hold a value from the start: special registers and addresses of shared variables.
  struct Preset {
    std::string_view special;  // empty: shared_offset
    uint64_t shared_offset = 0;
    uint32_t slot = 0;
    uint8_t width = 4;
  };
  std::vector<Preset> presets;

  std::vector<Instruction> code;  // code.size() == statements + 1: an implicit ret at the end
  std::deque<std::vector<Operand>> operand_storage;
  std::deque<std::vector<uint32_t>> poison_storage;
  std::map<Variable const*, uint64_t> shared_offsets;
  uint32_t static_shared = 0;  // bytes of it
  uint32_t dynamic_base = 0;   // offset of dynamic shared memory

  struct Unknown {
    Statement const* statement;
    std::string reason;
  };
  std::vector<Unknown> unknown;  // what could not be decoded
  bool uses_grid_wait = false;
  bool uses_wgmma = false;

  // Lays out and decodes. The module's const and global variables must have their addresses.
  void decode(Module const& module, Function const& function);

  Operand resolve(Node const& node);
  void give_width(Operand& op, uint8_t bytes);  // of an immediate

 private:
  void lay_out_shared();
  void decode_statement(size_t i);
  void list_registers(Instruction& in, int destinations);
  Operand preset(std::string_view special, uint64_t shared_offset, uint8_t width);
  std::map<std::pair<uint64_t, uint8_t>, uint32_t> constant_slots_;
  std::map<std::string_view, size_t> special_presets_;
  std::map<uint64_t, size_t> shared_presets_;
};

std::string demangle(std::string_view name);
std::string opcode_text(Statement const& statement);  // with modifiers
// "file:line" of the last .loc, with where it was inlined; empty without -lineinfo.
std::string source_text(Module const& module, Statement const& statement);

}  // namespace ptxsim

#endif
