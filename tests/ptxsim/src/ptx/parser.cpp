#include "ptx/parser.h"

#include <algorithm>

namespace ptxsim {

std::unique_ptr<Module> parse_module(std::string const& path, std::string text, std::string* error) {
  auto module = std::make_unique<Module>();
  module->path = path;
  module->text = std::move(text);
  try {
    Parser(*module).parse();
  } catch (Parser::SyntaxError const& fault) {
    *error = path + ":" + fault.what();
    return nullptr;
  }
  return module;
}

bool parse_literal(std::string_view text, Node* node) {
  node->text = text;
  auto digits = [&](size_t from, int base) {
    uint64_t value = 0;
    bool any = false;
    for (size_t i = from; i < text.size(); ++i) {
      char c = text[i];
      int d = c >= '0' && c <= '9'   ? c - '0'
              : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                     : 99;
      if (d >= base) {
        if (any && c == 'U' && i + 1 == text.size()) break;
        return false;
      }
      value = value * static_cast<uint64_t>(base) + static_cast<uint64_t>(d);
      any = true;
    }
    node->integer = static_cast<int64_t>(value);
    return any;
  };
  node->kind = Node::Kind::kInteger;
  if (text.size() > 2 && text[0] == '0') {
    char second = text[1];
    if (second == 'x' || second == 'X') return digits(2, 16);
    if (second == 'f' || second == 'F') {
      node->kind = Node::Kind::kFloat;
      return text.size() == 10 && digits(2, 16);
    }
    if (second == 'd' || second == 'D') {
      node->kind = Node::Kind::kDouble;
      return text.size() == 18 && digits(2, 16);
    }
    if (second == 'b' || second == 'B') return digits(2, 2);
  }
  return text[0] == '0' && text.size() > 1 && text[1] != 'U' ? digits(1, 8) : digits(0, 10);
}

void Parser::fail(std::string const& what, Token const& at) {
  std::string found = at.kind == Token::Kind::kEnd ? "the end of the file" : "\"" + std::string(at.text) + "\"";
  throw SyntaxError(std::to_string(at.line) + ": " + what + ", found " + found);
}

Token Parser::expect(std::string_view text) {
  if (!lexer_.peek().is(text)) fail("expected \"" + std::string(text) + "\"", lexer_.peek());
  return lexer_.next();
}

bool Parser::accept(std::string_view text) {
  if (!lexer_.peek().is(text)) return false;
  lexer_.next();
  return true;
}

Token Parser::expect_name(char const* what) {
  if (lexer_.peek().kind != Token::Kind::kName) fail(std::string("expected ") + what, lexer_.peek());
  return lexer_.next();
}

uint64_t Parser::expect_integer() {
  Node node;
  Token token = lexer_.peek();
  if (token.kind != Token::Kind::kNumber || !parse_literal(token.text, &node)) fail("expected a number", token);
  lexer_.next();
  return static_cast<uint64_t>(node.integer);
}

void Parser::parse() {
  while (lexer_.peek().kind != Token::Kind::kEnd) {
    expect(".");
    parse_directive();
  }
}

void Parser::parse_directive() {
  bool is_extern = false;
  while (true) {
    Token name = expect_name("a directive");
    if (name.is("version")) {
      expect_integer();
      if (accept(".")) expect_integer();
    } else if (name.is("target")) {
      module_.target = std::string(expect_name("a target").text);
      while (accept(",")) expect_name("a target option");
    } else if (name.is("address_size")) {
      if (expect_integer() != 64) fail("only 64-bit addresses are simulated", name);
    } else if (name.is("file")) {
      parse_file();
    } else if (name.is("section")) {
      while (!lexer_.peek().is("{")) lexer_.next();
      lexer_.skip_block();
    } else if (name.is("pragma")) {
      while (!accept(";")) lexer_.next();
    } else if (name.is("visible") || name.is("weak") || name.is("common") || name.is("extern")) {
      is_extern |= name.is("extern");
      expect(".");
      continue;
    } else if (name.is("entry") || name.is("func")) {
      parse_function(name.is("entry"));
    } else if (name.is("global") || name.is("const") || name.is("shared")) {
      Space space = name.is("global") ? Space::kGlobal : name.is("const") ? Space::kConst : Space::kShared;
      Variable* variable = parse_variable(space, is_extern);
      module_.variables.push_back(variable);
      globals_[variable->name] = variable;
      expect(";");
    } else {
      fail("unknown directive", name);
    }
    return;
  }
}

void Parser::parse_file() {
  uint64_t number = expect_integer();
  Token name = lexer_.next();
  if (name.kind != Token::Kind::kString) fail("expected a file name", name);
  module_.files[static_cast<uint32_t>(number)] = std::string(name.text);
  while (accept(",")) expect_integer();
}

Type Parser::parse_type(std::string_view name, Token const& at) {
  static std::unordered_map<std::string_view, Type> const kTypes = {
      {"b8", {'b', 1}},  {"b16", {'b', 2}},   {"b32", {'b', 4}},  {"b64", {'b', 8}},    {"b128", {'b', 16}},
      {"u8", {'u', 1}},  {"u16", {'u', 2}},   {"u32", {'u', 4}},  {"u64", {'u', 8}},    {"s8", {'s', 1}},
      {"s16", {'s', 2}}, {"s32", {'s', 4}},   {"s64", {'s', 8}},  {"f16", {'f', 2}},    {"f32", {'f', 4}},
      {"f64", {'f', 8}}, {"f16x2", {'f', 4}}, {"bf16", {'f', 2}}, {"bf16x2", {'f', 4}}, {"pred", {'p', 0}}};
  auto found = kTypes.find(name);
  if (found == kTypes.end()) fail("unknown type \"" + std::string(name) + "\"", at);
  return found->second;
}

Variable* Parser::parse_variable(Space space, bool is_extern) {
  module_.storage.emplace_back();
  Variable& variable = module_.storage.back();
  variable.space = space;
  uint64_t vector = 1;
  bool typed = false;
  while (accept(".")) {
    Token name = expect_name("a type");
    if (name.is("align")) {
      variable.align = static_cast<uint32_t>(expect_integer());
    } else if (name.is("v2") || name.is("v4")) {
      vector = name.is("v2") ? 2 : 4;
    } else if (name.is("ptr") || name.is("global") || name.is("const") || name.is("shared") || name.is("local") ||
               name.is("managed")) {
      continue;  // what a pointer parameter points to
    } else {
      variable.type = parse_type(name.text, name);
      typed = true;
    }
  }
  if (!typed) fail("expected a type", lexer_.peek());
  variable.name = expect_name("a variable's name").text;
  uint64_t elements = vector;
  bool open = false;
  while (accept("[")) {
    if (accept("]")) {
      open = true;
      continue;
    }
    elements *= expect_integer();
    expect("]");
  }
  uint64_t size = std::max<uint64_t>(variable.type.bytes, 1);
  variable.bytes = open ? 0 : elements * size;
  variable.is_extern = is_extern || open;
  variable.align = std::max<uint32_t>(variable.align, static_cast<uint32_t>(size * vector));
  if (accept("=")) {
    parse_initialiser(variable);
    if (open) {
      for (auto const& value : variable.initialisers)
        variable.bytes = std::max(variable.bytes, value.offset + value.bytes);
      variable.is_extern = false;
    }
  }
  return &variable;
}

void Parser::parse_initialiser(Variable& variable) {
  uint64_t offset = 0;
  if (!lexer_.peek().is("{")) {
    parse_initialiser_value(variable, offset);
    return;
  }
  int depth = 0;
  do {
    if (accept("{")) {
      ++depth;
    } else if (accept("}")) {
      --depth;
    } else if (!accept(",")) {
      parse_initialiser_value(variable, offset);
    }
  } while (depth > 0);
}

void Parser::parse_initialiser_value(Variable& variable, uint64_t& offset) {
  Variable::Initialiser value{offset, 0, variable.type.bytes, {}, false};
  offset += variable.type.bytes;
  bool negative = false;
  while (true) {
    Token token = lexer_.peek();
    Node node;
    if (token.is("-") || token.is("+")) {
      negative = token.is("-");
      lexer_.next();
    } else if (token.kind == Token::Kind::kNumber && parse_literal(token.text, &node)) {
      value.value += static_cast<uint64_t>(negative ? -node.integer : node.integer);
      lexer_.next();
    } else if (token.is("generic")) {
      lexer_.next();
      expect("(");
      value.symbol = expect_name("a variable").text;
      value.generic_address = true;
      expect(")");
    } else if (token.kind == Token::Kind::kName) {
      value.symbol = lexer_.next().text;
    } else {
      break;
    }
  }
  variable.initialisers.push_back(value);
}

void Parser::parse_dimensions(uint32_t out[3]) {
  out[0] = static_cast<uint32_t>(expect_integer());
  out[1] = out[2] = 1;
  for (int i = 1; i < 3 && accept(","); ++i) out[i] = static_cast<uint32_t>(expect_integer());
}

void Parser::parse_function_attribute(Function& function) {
  Token name = expect_name("an attribute of a function");
  if (name.is("maxntid")) {
    parse_dimensions(function.maxntid);
  } else if (name.is("reqntid")) {
    parse_dimensions(function.reqntid);
  } else if (name.is("reqnctapercluster")) {
    parse_dimensions(function.cluster);
  } else if (name.is("explicitcluster")) {
    function.explicit_cluster = true;
  } else if (name.is("minnctapersm") || name.is("maxnctapersm") || name.is("maxnreg") || name.is("maxclusterrank")) {
    expect_integer();
  } else if (name.is("pragma")) {
    while (!accept(";")) lexer_.next();
  } else if (!name.is("noreturn") && !name.is("blocksareclusters")) {
    fail("unknown attribute of a function", name);
  }
}

bool Parser::parse_parameter_list(Function& function, std::vector<Variable*>& into, Scope& scope) {
  if (!accept("(")) return false;
  uint64_t offset = 0;
  while (!accept(")")) {
    expect(".");
    Token kind = expect_name("a parameter");
    if (kind.is("reg")) {
      fail("functions with register parameters are not simulated", kind);
    }
    Variable* variable = parse_variable(Space::kParam, false);
    offset = (offset + variable->align - 1) / variable->align * variable->align;
    variable->address = offset;
    offset += variable->bytes;
    into.push_back(variable);
    scope.variables[variable->name] = variable;
    if (!accept(",") && !lexer_.peek().is(")")) fail("expected \",\" or \")\"", lexer_.peek());
  }
  if (&into == &function.parameters) function.parameter_bytes = static_cast<uint32_t>(offset);
  return true;
}

void Parser::parse_function(bool is_entry) {
  module_.functions.emplace_back();
  Function& function = module_.functions.back();
  function.is_entry = is_entry;
  scopes_.assign(1, Scope());
  parse_parameter_list(function, function.results, scopes_.back());
  function.name = expect_name("a function's name").text;
  parse_parameter_list(function, function.parameters, scopes_.back());
  while (accept(".")) parse_function_attribute(function);
  if (!accept(";")) parse_body(function);
}

}  // namespace ptxsim
