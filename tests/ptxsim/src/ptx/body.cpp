// Function bodies: blocks, registers, labels, statements and their operands.
#include <algorithm>

#include "ptx/parser.h"

namespace ptxsim {

void Parser::parse_body(Function& function) {
  source_file_ = source_line_ = caller_file_ = caller_line_ = 0;
  expect("{");
  parse_block(function);
  close_scope(function);
  function.is_target.resize(function.body.size() + 1, false);
  // Addresses of what was declared inside: shared and local memory have one frame a function.
  for (Variable* variable : function.variables) {
    uint32_t* end = variable->space == Space::kShared ? &function.shared_bytes : &function.local_bytes;
    if (variable->space == Space::kParam) continue;
    if (variable->space == Space::kShared) function.shared_align = std::max(function.shared_align, variable->align);
    if (variable->is_extern) continue;
    variable->address = (*end + variable->align - 1) / variable->align * variable->align;
    *end = static_cast<uint32_t>(variable->address + variable->bytes);
  }
}

void Parser::parse_block(Function& function) {
  while (!accept("}")) {
    Token token = lexer_.peek();
    if (token.kind == Token::Kind::kEnd) fail("expected \"}\"", token);
    if (accept("{")) {
      scopes_.emplace_back();
      parse_block(function);
      close_scope(function);
    } else if (accept(".")) {
      parse_body_directive(function);
    } else if (!accept(";")) {
      parse_statement(function);
    }
  }
}

void Parser::close_scope(Function& function) {
  Scope closed = std::move(scopes_.back());
  scopes_.pop_back();
  for (Scope::Use const& use : closed.uses) {
    Node& node = function.body[use.statement].operands[use.operand];
    auto found = closed.labels.find(node.text);
    if (found != closed.labels.end()) {
      node.index = found->second;
    } else if (scopes_.size() > 0) {
      scopes_.back().uses.push_back(use);
    } else {
      throw SyntaxError(std::to_string(function.body[use.statement].line) + ": no label \"" + std::string(node.text) +
                        "\"");
    }
  }
}

void Parser::parse_body_directive(Function& function) {
  Token name = expect_name("a directive");
  if (name.is("reg")) {
    parse_registers(function);
  } else if (name.is("loc")) {
    parse_location();
  } else if (name.is("pragma")) {
    while (!accept(";")) lexer_.next();
  } else if (name.is("file")) {
    parse_file();
  } else if (name.is("shared") || name.is("local") || name.is("param") || name.is("extern")) {
    bool is_extern = name.is("extern");
    if (is_extern) {
      expect(".");
      name = expect_name("a state space");
    }
    Space space = name.is("shared") ? Space::kShared : name.is("local") ? Space::kLocal : Space::kParam;
    while (true) {
      Variable* variable = parse_variable(space, is_extern);
      function.variables.push_back(variable);
      scopes_.back().variables[variable->name] = variable;
      if (!accept(",")) break;
    }
    expect(";");
  } else if (name.is("branchtargets")) {
    parse_branch_targets(function);
  } else if (name.is("callprototype") || name.is("calltargets")) {
    while (!accept(";")) lexer_.next();
  } else {
    fail("unknown directive in a function", name);
  }
}

// A statement that never runs, so that its labels resolve as a branch's do. Behind a label that names the list.
void Parser::parse_branch_targets(Function& function) {
  Statement statement;
  statement.opcode = "branchtargets";
  statement.line = lexer_.peek().line;
  Node list;
  list.kind = Node::Kind::kName;
  list.text = last_label_;
  statement.operands.push_back(list);
  do {
    scopes_.back().uses.push_back({function.body.size(), statement.operands.size()});
    statement.operands.push_back(parse_name(true));
  } while (accept(","));
  expect(";");
  function.branch_targets[last_label_] = static_cast<int32_t>(function.body.size());
  function.body.push_back(std::move(statement));
}

void Parser::parse_registers(Function& function) {
  expect(".");
  Token name = expect_name("a type");
  if (name.is("v2") || name.is("v4")) fail("vector registers are not simulated", name);
  Type type = parse_type(name.text, name);
  do {
    Token declared = expect_name("a register's name");
    int32_t first = static_cast<int32_t>(function.registers.size());
    if (accept("<")) {
      int32_t count = static_cast<int32_t>(expect_integer());
      expect(">");
      scopes_.back().range_first[declared.text] = first;
      scopes_.back().range_counts[declared.text] = count;
      for (int32_t i = 0; i < count; ++i) function.registers.push_back({declared.text, type, i});
    } else {
      scopes_.back().registers[declared.text] = first;
      function.registers.push_back({declared.text, type, -1});
    }
  } while (accept(","));
  expect(";");
}

void Parser::parse_location() {
  source_file_ = static_cast<uint32_t>(expect_integer());
  source_line_ = static_cast<uint32_t>(expect_integer());
  caller_file_ = caller_line_ = 0;
  expect_integer();
  while (accept(",")) {
    Token name = expect_name("function_name or inlined_at");
    if (name.is("function_name")) {
      expect_name("a label");
      if (accept("+")) expect_integer();
    } else if (name.is("inlined_at")) {
      caller_file_ = static_cast<uint32_t>(expect_integer());
      caller_line_ = static_cast<uint32_t>(expect_integer());
      expect_integer();
    } else {
      fail("unknown part of .loc", name);
    }
  }
}

int32_t Parser::find_register(std::string_view name) const {
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  for (size_t s = scopes_.size(); s-- > 0;) {
    Scope const& scope = scopes_[s];
    auto single = scope.registers.find(name);
    if (single != scope.registers.end()) return single->second;
    if (digits == name.size() || scope.range_first.empty()) continue;
    // A range's prefix may itself end in digits: try every split.
    for (size_t split = digits; split < name.size(); ++split) {
      auto range = scope.range_first.find(name.substr(0, split));
      if (range == scope.range_first.end()) continue;
      int64_t number = 0;
      for (size_t i = split; i < name.size() && number < 1000000000; ++i) number = number * 10 + (name[i] - '0');
      bool canonical = name[split] != '0' || split + 1 == name.size();
      if (canonical && number < scope.range_counts.at(range->first))
        return range->second + static_cast<int32_t>(number);
    }
  }
  return -1;
}

Variable* Parser::find_variable(std::string_view name) const {
  for (size_t s = scopes_.size(); s-- > 0;) {
    auto found = scopes_[s].variables.find(name);
    if (found != scopes_[s].variables.end()) return found->second;
  }
  auto found = globals_.find(name);
  return found == globals_.end() ? nullptr : found->second;
}

Node Parser::parse_number(bool negative) {
  Node node;
  Token token = lexer_.next();
  if (!parse_literal(token.text, &node)) fail("not a number", token);
  if (negative) node.integer = -node.integer;
  return node;
}

Node Parser::parse_name(bool is_branch) {
  Node node;
  Token token = lexer_.next();
  node.text = token.text;
  if (token.is("_")) return node;
  if (is_branch) {
    node.kind = Node::Kind::kLabel;
    return node;
  }
  node.index = find_register(token.text);
  if (node.index >= 0) {
    node.kind = Node::Kind::kRegister;
  } else if (token.text[0] == '%') {
    node.kind = Node::Kind::kSpecial;
    if (accept(".")) {
      Token part = expect_name("x, y, z or w");
      node.text = std::string_view(token.text.data(), static_cast<size_t>(part.text.data() - token.text.data()) + 1);
    }
  } else if (Variable* variable = find_variable(token.text)) {
    node.kind = Node::Kind::kVariable;
    node.variable = variable;
  } else if (token.is("WARP_SZ")) {
    node.kind = Node::Kind::kInteger;
    node.integer = 32;
  } else {
    node.kind = Node::Kind::kName;
  }
  while (lexer_.peek().is("+") || lexer_.peek().is("-")) {
    bool negative = lexer_.next().is("-");
    if (accept("-")) negative = !negative;
    node.integer += parse_number(negative).integer;
  }
  return node;
}

Node Parser::parse_operand(bool is_branch) {
  Node node;
  Token token = lexer_.peek();
  auto list = [&](Node::Kind kind, std::string_view close) {
    lexer_.next();
    node.kind = kind;
    while (!accept(close)) {
      node.children.push_back(parse_operand(false));
      if (!accept(",") && !lexer_.peek().is(close))
        fail("expected \",\" or \"" + std::string(close) + "\"", lexer_.peek());
    }
    return node;
  };
  if (token.is("{")) return list(Node::Kind::kVector, "}");
  if (token.is("[")) return list(Node::Kind::kAddress, "]");
  if (token.is("(")) return list(Node::Kind::kList, ")");
  if (token.is("!")) {
    lexer_.next();
    node = parse_name(false);
    node.negated = true;
  } else if (token.is("-")) {
    lexer_.next();
    if (lexer_.peek().kind == Token::Kind::kName) fail("a register cannot be negated", lexer_.peek());
    node = parse_number(true);
  } else if (token.kind == Token::Kind::kNumber) {
    node = parse_number(false);
  } else if (token.kind == Token::Kind::kName) {
    node = parse_name(is_branch);
  } else {
    fail("expected an operand", token);
  }
  if (accept("|")) {
    Node pair;
    pair.kind = Node::Kind::kPair;
    pair.children.push_back(std::move(node));
    pair.children.push_back(parse_operand(false));
    return pair;
  }
  return node;
}

void Parser::parse_statement(Function& function) {
  Statement statement;
  statement.line = lexer_.peek().line;
  statement.source_file = source_file_;
  statement.source_line = source_line_;
  statement.caller_file = caller_file_;
  statement.caller_line = caller_line_;
  if (accept("@")) {
    statement.guard_negated = accept("!");
    Token name = expect_name("a predicate");
    statement.guard = find_register(name.text);
    if (statement.guard < 0) fail("no such predicate", name);
  }
  Token name = expect_name("an instruction or a label");
  if (statement.guard < 0 && accept(":")) {
    int32_t position = static_cast<int32_t>(function.body.size());
    scopes_.back().labels[name.text] = position;
    function.is_target.resize(function.body.size() + 1, false);
    function.is_target[function.body.size()] = true;
    last_label_ = name.text;
    return;
  }
  statement.opcode = name.text;
  while (accept(".")) {
    Token modifier = lexer_.next();
    if (modifier.kind != Token::Kind::kName && modifier.kind != Token::Kind::kNumber)
      fail("expected a modifier", modifier);
    statement.modifiers.push_back(modifier.text);
  }
  bool is_branch = statement.opcode == "bra";
  while (!accept(";")) {
    statement.operands.push_back(parse_operand(is_branch));
    if (is_branch && statement.operands.back().kind == Node::Kind::kLabel) {
      scopes_.back().uses.push_back({function.body.size(), statement.operands.size() - 1});
    }
    if (!accept(",") && !lexer_.peek().is(";")) fail("expected \",\" or \";\"", lexer_.peek());
  }
  function.body.push_back(std::move(statement));
}

}  // namespace ptxsim
