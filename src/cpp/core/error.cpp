#include "core/error.h"

#include <cstdarg>
#include <cstdio>

namespace fp4aot::core {

namespace {
thread_local std::string message;
}

fp4aot_status fail(fp4aot_status status, char const* format, ...) {
  char buffer[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  message = buffer;
  return status;
}

std::string const& last_error() { return message; }

}  // namespace fp4aot::core
