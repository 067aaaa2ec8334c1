#include "core/switches.h"

#include <cstdlib>
#include <cstring>

namespace fp4aot::core {

namespace {

bool is_on(char const* name, std::string* complaint) {
  char const* const value = std::getenv(name);
  if (value == nullptr || *value == '\0' || std::strcmp(value, "0") == 0) return false;
  if (std::strcmp(value, "1") == 0) return true;
  *complaint +=
      (complaint->empty() ? "" : " ") + std::string(name) + " is '" + value + "'; it must be 1 or 0, or not set.";
  return false;
}

Switches read() {
  Switches result{};
  result.check_pointers = is_on("FP4AOT_CHECK_POINTERS", &result.complaint);
  result.check_scales = is_on("FP4AOT_CHECK_SCALES", &result.complaint);
  return result;
}

}  // namespace

Switches const switches = read();

}  // namespace fp4aot::core
