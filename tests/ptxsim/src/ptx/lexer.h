// Tokens of a PTX file. Names keep "::" (shared::cta); a dot is a token of its own.
#ifndef PTXSIM_PTX_LEXER_H_
#define PTXSIM_PTX_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace ptxsim {

struct Token {
  enum class Kind : uint8_t { kEnd, kName, kNumber, kString, kPunctuation };
  Kind kind = Kind::kEnd;
  std::string_view text;
  uint32_t line = 1;

  bool is(std::string_view what) const { return kind != Kind::kString && text == what; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { next(); }
  Token const& peek() const { return current_; }
  Token next();  // returns the current token and goes to the one after it
  // Skips a {...} block whose "{" is the current token, without looking at what is inside.
  void skip_block();

 private:
  void skip_blank();
  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  Token current_;
};

}  // namespace ptxsim

#endif
