#include "kernel.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "isa/register_watch.h"
#include "machine.h"

namespace ptxsim {

std::string demangle(std::string_view name) {
  std::string text(name);
  int status = 0;
  char* plain = abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status);
  if (status == 0 && plain != nullptr) text = plain;
  std::free(plain);
  return text;
}

std::string opcode_text(Statement const& statement) {
  std::string text(statement.opcode);
  for (std::string_view m : statement.modifiers) text += "." + std::string(m);
  return text;
}

std::string source_text(Module const& module, Statement const& statement) {
  auto place = [&](uint32_t file, uint32_t line) {
    auto found = module.files.find(file);
    return (found == module.files.end() ? "file " + std::to_string(file) : found->second) + ":" + std::to_string(line);
  };
  if (statement.source_file == 0) return "";
  std::string text = place(statement.source_file, statement.source_line);
  if (statement.caller_file != 0) text += " (inlined at " + place(statement.caller_file, statement.caller_line) + ")";
  return text;
}

void Kernel::lay_out_shared() {
  uint64_t end = kSharedReserved;
  auto add = [&](Variable const* variable) {
    end = (end + variable->align - 1) / variable->align * variable->align;
    shared_offsets[variable] = end;
    end += variable->bytes;
  };
  std::vector<Variable const*> dynamic;
  for (auto const* list : {&module->variables, &function->variables}) {
    for (Variable const* variable : *list) {
      if (variable->space != Space::kShared) continue;
      variable->is_extern ? dynamic.push_back(variable) : add(variable);
    }
  }
  static_shared = static_cast<uint32_t>(end - kSharedReserved);
  uint64_t align = 16;
  for (Variable const* variable : dynamic) align = std::max<uint64_t>(align, variable->align);
  end = (end + align - 1) / align * align;
  dynamic_base = static_cast<uint32_t>(end);
  for (Variable const* variable : dynamic) shared_offsets[variable] = end;
}

void Kernel::decode(Module const& the_module, Function const& the_function) {
  module = &the_module;
  function = &the_function;
  name = demangle(function->name);
  lay_out_shared();
  for (RegisterDeclaration const& declared : function->registers) {
    uint8_t width = declared.type.letter == 'p' ? 0 : std::max<uint8_t>(declared.type.bytes, 2);
    registers.push_back({register_bytes, poison_masks++, width});
    register_bytes += width == 0 ? 64 : width * static_cast<uint32_t>(kWarpSize);
  }
  code.resize(function->body.size() + 1);
  for (size_t i = 0; i < function->body.size(); ++i) decode_statement(i);
  for (size_t i = 0; uses_wgmma && i < function->body.size(); ++i) {
    // wgmma's own operands are looked at where it runs.
    if (!code[i].propagate && code[i].statement->opcode != "wgmma") list_registers(code[i], written_operands(code[i]));
  }
  static Statement const kEnd = [] {
    Statement s;
    s.opcode = "ret";
    return s;
  }();
  operand_storage.emplace_back();
  Instruction& last = code.back();
  last.statement = &kEnd;
  last.pc = static_cast<uint32_t>(code.size() - 1);
  last.category = Class::kControl;
  Decoder decoder(*this, kEnd, last, operand_storage.back());
  last.handler = find_opcode("ret")->decode(decoder);
}

namespace {

void add_poisons(Operand const& op, std::vector<uint32_t>* into) {
  if (op.poison != 0) into->push_back(op.poison);
  for (Operand const& element : op.elements) add_poisons(element, into);
}

}  // namespace

void Kernel::decode_statement(size_t i) {
  Statement const& statement = function->body[i];
  Instruction& in = code[i];
  in.statement = &statement;
  in.pc = static_cast<uint32_t>(i);
  in.guard_negated = statement.guard_negated;
  if (statement.guard >= 0) {
    in.guard = registers[static_cast<size_t>(statement.guard)].slot;
    in.guard_poison = registers[static_cast<size_t>(statement.guard)].poison;
  }
  operand_storage.emplace_back();
  std::vector<Operand>& operands = operand_storage.back();
  for (Node const& node : statement.operands) operands.push_back(resolve(node));
  Decoder decoder(*this, statement, in, operands);
  Opcode const* opcode = find_opcode(statement.opcode);
  in.handler = opcode == nullptr ? decoder.fail("no such opcode") : opcode->decode(decoder);
  if (in.handler != nullptr && !decoder.left().empty()) {
    std::string rest;
    for (std::string_view m : decoder.left()) rest += " ." + std::string(m);
    in.handler = decoder.fail("modifiers not known:" + rest);
  }
  if (in.handler == nullptr) unknown.push_back({&statement, decoder.reason()});
  for (Operand& op : operands) {
    give_width(op, 8);
    for (Operand& element : op.elements) {
      give_width(element, 8);
      for (Operand& inner : element.elements) give_width(inner, 8);
    }
  }
  in.operands = operands.data();
  in.operand_count = static_cast<uint8_t>(operands.size());
  in.side_effect = !in.propagate && !in.pure;
  if (in.propagate) list_registers(in, in.destinations);
}

void Kernel::list_registers(Instruction& in, int destinations) {
  poison_storage.emplace_back();
  std::vector<uint32_t>& poisons = poison_storage.back();
  for (int k = destinations; k < in.operand_count; ++k) add_poisons(in.operand(k), &poisons);
  size_t sources = poisons.size();
  for (int k = 0; k < destinations && k < in.operand_count; ++k) add_poisons(in.operand(k), &poisons);
  in.source_poisons = poisons.data();
  in.destination_poisons = poisons.data() + sources;
  in.poisons_end = poisons.data() + poisons.size();
}

void Kernel::give_width(Operand& op, uint8_t bytes) {
  if (op.kind != Operand::Kind::kConstant || op.width != 0) return;
  auto [found, is_new] = constant_slots_.try_emplace({static_cast<uint64_t>(op.offset), bytes}, constants.size());
  if (is_new) {
    size_t at = constants.size();
    constants.resize(at + static_cast<size_t>(bytes) * kWarpSize, 0);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      std::memcpy(&constants[at + static_cast<size_t>(lane * bytes)], &op.offset, std::min<size_t>(bytes, 8));
    }
  }
  op.slot = found->second;
  op.width = bytes;
}

Operand Kernel::preset(std::string_view special, uint64_t shared_offset, uint8_t width) {
  size_t number = presets.size();
  bool is_new = special.empty() ? shared_presets_.try_emplace(shared_offset, number).second
                                : special_presets_.try_emplace(special, number).second;
  if (is_new) {
    presets.push_back({special, shared_offset, register_bytes, width});
    register_bytes += static_cast<uint32_t>(width) * kWarpSize;
  } else {
    number = special.empty() ? shared_presets_[shared_offset] : special_presets_[special];
  }
  Operand op;
  op.kind = Operand::Kind::kRegister;
  op.width = presets[number].width;
  op.slot = presets[number].slot;
  op.type = {'u', op.width};
  return op;
}

Operand Kernel::resolve(Node const& node) {
  Operand op;
  op.text = node.text;
  op.negated = node.negated;
  switch (node.kind) {
    case Node::Kind::kSink:
      op.kind = Operand::Kind::kSink;
      break;
    case Node::Kind::kRegister: {
      Register const& r = registers[static_cast<size_t>(node.index)];
      op.kind = r.width == 0 ? Operand::Kind::kPredicate : Operand::Kind::kRegister;
      op.width = r.width;
      op.slot = r.slot;
      op.poison = r.poison;
      op.type = function->registers[static_cast<size_t>(node.index)].type;
      op.offset = node.integer;
      break;
    }
    case Node::Kind::kInteger:
    case Node::Kind::kFloat:
    case Node::Kind::kDouble:
      op.kind = Operand::Kind::kConstant;
      op.offset = node.integer;
      op.type = {node.kind == Node::Kind::kInteger ? 's' : 'f',
                 static_cast<uint8_t>(node.kind == Node::Kind::kFloat ? 4 : 8)};
      break;
    case Node::Kind::kVariable: {
      Variable const* variable = node.variable;
      if (variable->space == Space::kShared) {
        op = preset({}, shared_offsets.at(variable) + static_cast<uint64_t>(node.integer), 8);
      } else {
        op.kind = Operand::Kind::kConstant;
        op.offset = static_cast<int64_t>(variable->address) + node.integer;
        op.type = {'u', 8};
      }
      op.text = node.text;
      op.variable = variable;
      op.space = variable->space;
      break;
    }
    case Node::Kind::kSpecial:
      if (node.text == "%clock" || node.text == "%clock64" || node.text == "%clock_hi" || node.text == "%globaltimer" ||
          node.text == "%globaltimer_lo") {
        op.kind = Operand::Kind::kName;
      } else if (node.text == "%is_explicit_cluster") {
        op.kind = Operand::Kind::kName;
      } else {
        bool wide = node.text == "%gridid";
        op = preset(node.text, 0, wide ? 8 : 4);
        op.text = node.text;
      }
      break;
    case Node::Kind::kLabel:
      op.kind = Operand::Kind::kLabel;
      op.label = node.index;
      break;
    case Node::Kind::kName:
      op.kind = Operand::Kind::kName;
      break;
    case Node::Kind::kVector:
    case Node::Kind::kList:
    case Node::Kind::kPair:
      op.kind = node.kind == Node::Kind::kPair ? Operand::Kind::kPair : Operand::Kind::kVector;
      for (Node const& child : node.children) op.elements.push_back(resolve(child));
      break;
    case Node::Kind::kAddress:
      op.kind = Operand::Kind::kAddress;
      for (Node const& child : node.children) op.elements.push_back(resolve(child));
      if (!op.elements.empty()) {
        Operand& base = op.elements[0];
        op.space = base.space;
        op.variable = base.variable;
        if (base.kind == Operand::Kind::kRegister && base.variable == nullptr) op.offset = base.offset;
      }
      break;
  }
  return op;
}

Decoder::Decoder(Kernel& kernel, Statement const& statement, Instruction& instruction, std::vector<Operand>& operands)
    : kernel_(kernel),
      statement_(statement),
      instruction_(instruction),
      operands_(operands),
      left_(statement.modifiers) {}

bool Decoder::take(std::string_view name) {
  auto found = std::find(left_.begin(), left_.end(), name);
  if (found == left_.end()) return false;
  left_.erase(found);
  return true;
}

bool Decoder::has(std::string_view name) const { return std::find(left_.begin(), left_.end(), name) != left_.end(); }

int Decoder::take_one_of(std::initializer_list<std::string_view> names) {
  int i = 0;
  for (std::string_view name : names) {
    if (take(name)) return i;
    ++i;
  }
  return -1;
}

std::string_view Decoder::take_first() {
  if (left_.empty()) return {};
  std::string_view first = left_.front();
  left_.erase(left_.begin());
  return first;
}

bool Decoder::take_type(Type* type) {
  static std::map<std::string_view, Type> const kTypes = {
      {"u8", {'u', 1}},  {"u16", {'u', 2}},   {"u32", {'u', 4}},   {"u64", {'u', 8}},    {"s8", {'s', 1}},
      {"s16", {'s', 2}}, {"s32", {'s', 4}},   {"s64", {'s', 8}},   {"b8", {'b', 1}},     {"b16", {'b', 2}},
      {"b32", {'b', 4}}, {"b64", {'b', 8}},   {"b128", {'b', 16}}, {"f32", {'f', 4}},    {"f64", {'f', 8}},
      {"f16", {'h', 2}}, {"f16x2", {'h', 4}}, {"bf16", {'y', 2}},  {"bf16x2", {'y', 4}}, {"pred", {'p', 0}}};
  for (auto it = left_.begin(); it != left_.end(); ++it) {
    auto found = kTypes.find(*it);
    if (found == kTypes.end()) continue;
    *type = found->second;
    left_.erase(it);
    return true;
  }
  return false;
}

bool Decoder::operands(int least, int most) {
  int n = operand_count();
  if (n >= least && n <= most) return true;
  fail("it has " + std::to_string(n) + " operands");
  return false;
}

bool Decoder::immediate(int i, int64_t* value) const {
  Operand const& op = operand(i);
  if (op.kind != Operand::Kind::kConstant) return false;
  *value = op.offset;
  return true;
}

void Decoder::constant_width(int i, uint8_t bytes) {
  Operand& op = operands_[static_cast<size_t>(i)];
  kernel_.give_width(op, bytes);
  for (Operand& element : op.elements) kernel_.give_width(element, bytes);
}

Handler Decoder::fail(std::string reason) {
  if (reason_.empty()) reason_ = std::move(reason);
  return nullptr;
}

}  // namespace ptxsim
