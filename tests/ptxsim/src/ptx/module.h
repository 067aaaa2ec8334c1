// What a PTX file says: declarations, and bodies as statements whose names are resolved (registers, variables, labels)
// but whose instructions are not yet interpreted. All string_views point into Module::text.
#ifndef PTXSIM_PTX_MODULE_H_
#define PTXSIM_PTX_MODULE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ptxsim {

enum class Space : uint8_t { kNone, kRegister, kConst, kGlobal, kLocal, kParam, kShared, kSharedCluster, kGeneric };

// A declared scalar type: bytes 0 stands for .pred.
struct Type {
  char letter = 'b';  // b u s f p
  uint8_t bytes = 0;
};

struct Variable {
  std::string_view name;
  Space space = Space::kNone;
  Type type;
  uint32_t align = 1;
  uint64_t bytes = 0;  // of the whole variable; 0 with is_extern: its size is the launch's dynamic shared memory
  bool is_extern = false;
  uint64_t address = 0;  // in its space: assigned by layout (shared, local, param) or by the device (const, global)
  struct Initialiser {
    uint64_t offset, value;
    uint8_t bytes;
    std::string_view symbol;  // of the address that the value is added to; empty if none
    bool generic_address = false;
  };
  std::vector<Initialiser> initialisers;
};

struct RegisterDeclaration {
  std::string_view name;  // without the number of a range
  Type type;
  int32_t number = -1;  // of a range %r<n>
};

// One operand as written. Children: elements of {...}; the parts inside [...], the first of which is the base; d and p
// of d|p; the arguments inside (...).
struct Node {
  enum class Kind : uint8_t {
    kRegister,
    kVariable,
    kLabel,
    kInteger,
    kFloat,
    kDouble,
    kVector,
    kAddress,
    kPair,
    kSink,
    kSpecial,
    kList,
    kName
  };
  Kind kind = Kind::kSink;
  bool negated = false;  // !p
  int32_t index = -1;    // register: number in the function; label: statement it stands before
  int64_t integer = 0;   // immediate (float: its bits), or the displacement added to a register or variable
  Variable const* variable = nullptr;
  std::string_view text;  // as written; a special register with its .x
  std::vector<Node> children;
};

struct Statement {
  std::string_view opcode;                  // up to the first dot
  std::vector<std::string_view> modifiers;  // between dots; "shared::cta" is one
  int32_t guard = -1;                       // predicate register
  bool guard_negated = false;
  uint32_t line = 0;                          // of the PTX file, from 1
  uint32_t source_file = 0, source_line = 0;  // last .loc: where the instruction stands (0: none)
  uint32_t caller_file = 0, caller_line = 0;  // outermost inlined_at of it (0: not inlined)
  std::vector<Node> operands;
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  std::vector<Variable*> parameters, results;
  std::vector<RegisterDeclaration> registers;
  std::vector<Variable*> variables;                    // shared, local and param variables declared inside
  std::vector<Statement> body;                         // empty for a declaration
  std::vector<bool> is_target;                         // a label stands before this statement
  std::map<std::string_view, int32_t> branch_targets;  // a list's label: the statement "branchtargets" with its labels
  uint32_t maxntid[3] = {0, 0, 0};                     // 0: not given
  uint32_t reqntid[3] = {0, 0, 0};
  uint32_t cluster[3] = {0, 0, 0};  // .reqnctapercluster
  bool explicit_cluster = false;
  uint32_t parameter_bytes = 0, shared_bytes = 0, local_bytes = 0;  // by layout; shared: static, from offset 0
  uint32_t shared_align = 1;
};

struct Module {
  std::string path, text;
  std::string target;  // sm_90a
  std::map<uint32_t, std::string> files;
  std::deque<Variable> storage;      // every variable, at a stable address
  std::vector<Variable*> variables;  // of the module's scope
  std::deque<Function> functions;
};

// Parses a whole file; on a fault returns null and says in error what and where ("file:line: ...").
std::unique_ptr<Module> parse_module(std::string const& path, std::string text, std::string* error);

}  // namespace ptxsim

#endif
