// Instructions as the machine runs them, and how a file of isa/ adds some.
//
// To add an instruction family, write isa/<family>.cpp with one function per opcode (the text before the first dot) and
// list them in isa/opcodes.cpp:
//
//   Handler decode_foo(Decoder& d);                       // registered as {"foo", decode_foo}
//
// It must take *every* modifier that stands in the statement with d.take()/d.take_type()/d.take_one_of() (what is left
// over makes the instruction unknown, an error finding), check the number of operands with d.operands(), store what the
// handler needs to know in d.instruction() (variant, aux, data), set the class it counts as, and return the handler, or
// nullptr for "not known". The handler runs for one group of lanes that stand at the same place:
//
//   Step run_foo(Warp& w, Instruction const& in);         // lanes: w.active(), a mask; never 0
//
// reads operands with w.value(op, lane) / w.lanes<uint32_t>(op, scratch) / w.predicate(op), writes with w.set(op,
// lane, v) / w.set_predicate(op, mask), touches memory only through the functions of machine.h, and returns kNext, or
// kWait to be called again later, having changed nothing (waiting is free; a launch in which everything waits is a
// deadlock). Guards (@p) are already applied. Results of poisoned operands must be poisoned: w.poison(op) and
// w.set_poison(op, mask) (w.set() clears a lane's poison; d.instruction().propagate = true lets the machine do the
// usual thing: every register destination becomes poisoned in the lanes in which any register source is).
#ifndef PTXSIM_ISA_H_
#define PTXSIM_ISA_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/module.h"

namespace ptxsim {

constexpr int kWarpSize = 32;
constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

class Warp;
struct Instruction;
struct Kernel;

enum class Step : uint8_t {
  kNext,    // done: go to the next instruction
  kWait,    // nothing done: run again when something may have changed
  kPlaced,  // done, and the lanes' next instructions are set (branches, exit)
};
using Handler = Step (*)(Warp&, Instruction const&);

struct Operand {
  // kAddress: elements[0] is the base (register or constant), offset the displacement, elements[1..] what else stands
  // in the brackets (e.g. a kVector of coordinates). kPair: elements are d and p of d|p. kVector: its elements.
  enum class Kind : uint8_t { kNone, kRegister, kPredicate, kConstant, kSink, kVector, kAddress, kPair, kLabel, kName };
  Kind kind = Kind::kNone;
  uint8_t width = 0;     // bytes a lane: 2 (also for 8-bit types), 4, 8 or 16; predicates 0
  bool negated = false;  // !p
  uint32_t slot = 0;     // byte offset in the warp's registers or the kernel's constants
  uint32_t poison = 0;   // number of its poison mask; 0 is that of constants and never set
  int32_t label = -1;    // kLabel: index of the statement
  int64_t offset = 0;
  Space space = Space::kNone;  // kAddress: the space of the variable, if the base is one
  Variable const* variable = nullptr;
  Type type;  // kRegister: as declared
  std::string_view text;
  std::vector<Operand> elements;

  bool is_register() const { return kind == Kind::kRegister; }
};

// What an instruction counts as.
enum class Class : uint8_t {
  kMove,
  kInteger,
  kLogic,
  kFloat,
  kHalf,
  kConvert,
  kCompare,
  kControl,
  kVote,
  kBarrier,
  kMbarrier,
  kFence,
  kGlobalMemory,
  kSharedMemory,
  kOtherMemory,
  kAtomic,
  kAsyncCopy,
  kTensorCopy,
  kMma,
  kTensorMemory,
  kOther,
  kCount
};

struct Instruction {
  Handler handler = nullptr;
  Operand const* operands = nullptr;
  uint8_t operand_count = 0;
  uint8_t destinations = 1;  // how many of the first operands are written (for propagate)
  bool propagate = false;
  bool pure = false;         // changes registers only, though it looks after poison itself
  bool side_effect = false;  // an undefined guard is a finding: everything that does not propagate
  bool aligned = false;      // all lanes of the warp that have not exited must be here: the machine sees to it
  bool guard_negated = false;
  Class category = Class::kOther;
  uint32_t guard = 0;  // slot of the predicate; 0: none
  uint32_t guard_poison = 0;
  uint32_t pc = 0;
  uint32_t variant = 0;              // for the handler alone
  int64_t aux = 0;                   // for the handler alone
  std::shared_ptr<void const> data;  // for the handler alone
  Statement const* statement = nullptr;
  // With propagate: numbers of the poison masks of the register sources, followed by those of the destinations.
  uint32_t const* source_poisons = nullptr;
  uint32_t const* destination_poisons = nullptr;
  uint32_t const* poisons_end = nullptr;

  Operand const& operand(int i) const { return operands[i]; }
  template <class T>
  T const& decoded() const {
    return *static_cast<T const*>(data.get());
  }
};

// A decode function's view of one statement.
class Decoder {
 public:
  Decoder(Kernel& kernel, Statement const& statement, Instruction& instruction, std::vector<Operand>& operands);

  Instruction& instruction() { return instruction_; }
  Statement const& statement() const { return statement_; }
  Kernel& kernel() { return kernel_; }

  // Modifiers still there. take() removes the first that equals name. take_one_of() gives the index of the one taken,
  // or -1.
  bool take(std::string_view name);
  int take_one_of(std::initializer_list<std::string_view> names);
  bool take_type(Type* type);     // the first of u8..u64 s8.. b8..b128 f16 f32 f64 pred bf16 f16x2 bf16x2
  std::string_view take_first();  // whatever stands first; empty if none
  bool has(std::string_view name) const;
  std::vector<std::string_view> const& left() const { return left_; }

  // Operands, in order as written. vector operands stay one operand. fail() if the count is outside [least, most].
  bool operands(int least, int most);
  int operand_count() const { return static_cast<int>(operands_.size()); }
  Operand const& operand(int i) const { return operands_[static_cast<size_t>(i)]; }
  // An immediate operand as a number; false if it is not one.
  bool immediate(int i, int64_t* value) const;
  // Gives an immediate operand (or the immediates among a vector's elements) the width of its type in bytes, so that
  // lanes<T>() needs no conversion. Immediates without one are 8 bytes wide.
  void constant_width(int i, uint8_t bytes);
  // The first register operand's propagation: see Instruction::propagate.
  void propagate(int destinations = 1) {
    instruction_.propagate = true;
    instruction_.destinations = static_cast<uint8_t>(destinations);
  }

  // Marks the instruction as unknown with a reason.
  Handler fail(std::string reason);
  std::string const& reason() const { return reason_; }

 private:
  Kernel& kernel_;
  Statement const& statement_;
  Instruction& instruction_;
  std::vector<Operand>& operands_;
  std::vector<std::string_view> left_;
  std::string reason_;
};

struct Opcode {
  std::string_view name;
  Handler (*decode)(Decoder&);
};
// Every opcode's decode function: isa/opcodes.cpp.
Opcode const* find_opcode(std::string_view name);

}  // namespace ptxsim

#endif
