#include "ptx/lexer.h"

namespace ptxsim {
namespace {

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool continues_name(char c) { return starts_name(c) || is_digit(c); }

}  // namespace

void Lexer::skip_blank() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (text_.compare(at_, 2, "//") == 0) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (text_.compare(at_, 2, "/*") == 0) {
      size_t end = text_.find("*/", at_ + 2);
      end = end == std::string_view::npos ? text_.size() : end + 2;
      for (; at_ < end; ++at_) line_ += text_[at_] == '\n';
    } else {
      return;
    }
  }
}

Token Lexer::next() {
  Token before = current_;
  skip_blank();
  current_ = Token();
  current_.line = line_;
  if (at_ >= text_.size()) return before;
  size_t start = at_;
  char c = text_[at_];
  if (starts_name(c)) {
    current_.kind = Token::Kind::kName;
    while (at_ < text_.size()) {
      if (continues_name(text_[at_])) {
        ++at_;
      } else if (at_ + 2 < text_.size() && text_.compare(at_, 2, "::") == 0 && continues_name(text_[at_ + 2])) {
        at_ += 2;
      } else {
        break;
      }
    }
  } else if (is_digit(c)) {
    current_.kind = Token::Kind::kNumber;
    while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
  } else if (c == '"') {
    current_.kind = Token::Kind::kString;
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') ++at_;
    current_.text = text_.substr(start + 1, at_ - start - 1);
    if (at_ < text_.size()) ++at_;
    return before;
  } else {
    current_.kind = Token::Kind::kPunctuation;
    ++at_;
  }
  current_.text = text_.substr(start, at_ - start);
  return before;
}

void Lexer::skip_block() {
  // The cursor stands behind the brace already.
  int depth = 1;
  while (at_ < text_.size() && depth > 0) {
    char c = text_[at_];
    if (c == '"') {
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) line_ += text_[at_] == '\n';
    }
    line_ += c == '\n';
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    ++at_;
  }
  next();
}

}  // namespace ptxsim
