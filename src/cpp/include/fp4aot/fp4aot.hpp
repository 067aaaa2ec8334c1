// Thin C++ over the C ABI: parameter structs that start out valid, and exceptions for statuses. Header only.
//
//   auto p = fp4aot::params<fp4aot_gemm_params>({FP4AOT_CUDA, 0}, stream);
//   p.m = m; ...
//   fp4aot::gemm_nvfp4(p);                                   // throws fp4aot::Error
//   size_t bytes = fp4aot::gemm_nvfp4_workspace_size(p);
#ifndef FP4AOT_FP4AOT_HPP_
#define FP4AOT_FP4AOT_HPP_

#include <stdexcept>
#include <vector>

#include "fp4aot/fp4aot.h"

namespace fp4aot {

class Error : public std::runtime_error {
 public:
  Error(fp4aot_status status, char const* message) : std::runtime_error(message), status_(status) {}
  fp4aot_status status() const { return status_; }

 private:
  fp4aot_status status_;
};

inline void check(fp4aot_status status) {
  if (status != FP4AOT_OK) throw Error(status, fp4aot_last_error());
}

// A parameter struct with struct_size, device and stream set and all else zero, which is every optional field's default.
template <typename Params>
Params params(fp4aot_device device, void* stream = nullptr) {
  Params p{};
  p.struct_size = sizeof(Params);
  p.device = device;
  p.stream = stream;
  return p;
}

#define FP4AOT_OP(name, Params)                                   \
  inline void name(Params const& p) { check(fp4aot_##name(&p)); } \
  inline size_t name##_workspace_size(Params const& p) {          \
    size_t bytes = 0;                                             \
    check(fp4aot_##name##_workspace_size(&p, &bytes));            \
    return bytes;                                                 \
  }
#include "fp4aot/ops.def"
#undef FP4AOT_OP

// Bytes of prepared weights [n, k]; op is any op with w4a16 in its name and says the format.
inline int64_t w4a16_prepared_bytes(fp4aot_op op, int64_t n, int64_t k) {
  int64_t bytes = 0;
  check(fp4aot_w4a16_prepared_bytes(op, n, k, &bytes));
  return bytes;
}

// The tactics that can run these params (fp4aot_list_tactics).
template <typename Params>
std::vector<int32_t> list_tactics(fp4aot_op op, Params const& p) {
  size_t count = 0;
  check(fp4aot_list_tactics(op, &p, nullptr, &count));
  std::vector<int32_t> tactics(count);
  check(fp4aot_list_tactics(op, &p, tactics.data(), &count));
  return tactics;
}

}  // namespace fp4aot

#endif
