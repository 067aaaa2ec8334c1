// The parser's state, shared by the file of declarations (parser.cpp) and that of function bodies (body.cpp).
#ifndef PTXSIM_PTX_PARSER_H_
#define PTXSIM_PTX_PARSER_H_

#include <stdexcept>
#include <unordered_map>

#include "ptx/lexer.h"
#include "ptx/module.h"

namespace ptxsim {

class Parser {
 public:
  explicit Parser(Module& module) : module_(module), lexer_(module.text) {}
  void parse();  // throws SyntaxError

  struct SyntaxError : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

 private:
  // Names that a {...} block declares. Labels may be used before they stand, so that uses wait for the end of the
  // block.
  struct Scope {
    std::unordered_map<std::string_view, int32_t> registers;
    std::unordered_map<std::string_view, int32_t> range_counts;  // %r<n>: prefix -> n
    std::unordered_map<std::string_view, int32_t> range_first;   // prefix -> number of %r0 in the function
    std::unordered_map<std::string_view, Variable*> variables;
    std::unordered_map<std::string_view, int32_t> labels;
    struct Use {
      size_t statement, operand;
    };
    std::vector<Use> uses;
  };

  [[noreturn]] void fail(std::string const& what, Token const& at);
  Token expect(std::string_view text);
  bool accept(std::string_view text);
  Token expect_name(char const* what);
  uint64_t expect_integer();

  void parse_directive();  // of the module's scope; the dot is already read
  void parse_file();
  void parse_function(bool is_entry);
  bool parse_parameter_list(Function& function, std::vector<Variable*>& into, Scope& scope);
  void parse_function_attribute(Function& function);
  void parse_dimensions(uint32_t out[3]);
  // ".shared .align 16 .b8 name[...] = {...}" from behind the space's name up to the ";", which it leaves.
  Variable* parse_variable(Space space, bool is_extern);
  void parse_initialiser(Variable& variable);
  void parse_initialiser_value(Variable& variable, uint64_t& offset);
  Type parse_type(std::string_view name, Token const& at);

  void parse_body(Function& function);
  void parse_block(Function& function);
  void parse_body_directive(Function& function);
  void parse_branch_targets(Function& function);
  void parse_registers(Function& function);
  void parse_location();
  void parse_statement(Function& function);
  Node parse_operand(bool is_branch);
  Node parse_name(bool is_branch);
  Node parse_number(bool negative);
  int32_t find_register(std::string_view name) const;
  Variable* find_variable(std::string_view name) const;
  void close_scope(Function& function);

  Module& module_;
  Lexer lexer_;
  std::vector<Scope> scopes_;
  std::unordered_map<std::string_view, Variable*> globals_;
  std::string_view last_label_;
  uint32_t source_file_ = 0, source_line_ = 0, caller_file_ = 0, caller_line_ = 0;
};

// A number token's value: decimal, hexadecimal, octal, binary, with or without U; float by its bits. False if it is
// none.
bool parse_literal(std::string_view text, Node* node);

}  // namespace ptxsim

#endif
