// Statuses and the thread's last error message.
#ifndef FP4AOT_CORE_ERROR_H_
#define FP4AOT_CORE_ERROR_H_

#include <string>

#include "fp4aot/fp4aot.h"

namespace fp4aot::core {

// Stores the formatted message as this thread's last error and returns `status`.
[[gnu::format(printf, 2, 3)]] fp4aot_status fail(fp4aot_status status, char const* format, ...);

std::string const& last_error();

}  // namespace fp4aot::core

#define FP4AOT_RETURN_IF_ERROR(expression)                                  \
  do {                                                                      \
    if (fp4aot_status const status_ = (expression); status_ != FP4AOT_OK) { \
      return status_;                                                       \
    }                                                                       \
  } while (0)

#endif
