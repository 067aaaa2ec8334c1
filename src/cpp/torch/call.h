// The frame of one op call: arguments off torch's boxed stack, device and stream, outputs, workspace, and a status of
// the C ABI turned into an exception.
#ifndef FP4AOT_TORCH_CALL_H_
#define FP4AOT_TORCH_CALL_H_

#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "fp4aot/fp4aot.h"
#include "torch/tensor.h"

namespace fp4aot::torch_binding {

// Takes the arguments in the order of the schema. Tensors are owned by what is returned; nothing here throws, for an
// exception between two arguments would leak the rest. When all are taken, read() them.
class Stack {
 public:
  Stack(StableIValue* values, char const* op) : values_(values), op_(op) {}

  Tensor tensor(char const* name) { return Tensor(take<AtenTensorHandle>(), op_, name); }

  Tensor optional_tensor(char const* name) {
    std::optional<AtenTensorHandle> const handle = take<std::optional<AtenTensorHandle>>();
    return handle.has_value() ? Tensor(*handle, op_, name) : Tensor();
  }

  int64_t integer() { return take<int64_t>(); }
  // A number of the C ABI, which has 32 bits; one beyond them becomes the nearest, which does not exist either.
  int32_t option() {
    return static_cast<int32_t>(
        std::clamp<int64_t>(integer(), std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
  }
  double real() { return take<double>(); }
  bool boolean() { return take<bool>(); }
  int32_t dtype() { return take<int32_t>(); }

  // Results, after all arguments were read.
  void give(int64_t index, Tensor&& tensor) {
    values_[index] = torch::stable::detail::from<AtenTensorHandle>(tensor.release());
  }

 private:
  template <typename T>
  T take() {
    return torch::stable::detail::to<T>(values_[next_++]);
  }

  StableIValue* values_;
  char const* op_;
  int next_ = 0;
};

void* current_stream(fp4aot_device device);

void throw_status(fp4aot_status status);

inline void check_status(fp4aot_status status) {
  if (status != FP4AOT_OK) throw_status(status);
}

// Reads the tensors that were given. A null handle is an optional argument that is None, or an output still to come.
inline void read(std::initializer_list<Tensor*> tensors) {
  for (Tensor* tensor : tensors) {
    if (*tensor) tensor->read();
  }
}

// Sets struct_size, device, stream and flags.
template <typename Params>
Params make_params(Tensor const& first, bool pdl) {
  Params params = {};
  params.struct_size = sizeof params;
  params.device = first.device();
  params.stream = current_stream(params.device);
  if (pdl) params.flags = FP4AOT_FLAG_PDL;
  return params;
}

// Sets what a product applies to its sums; n and d_dtype are set.
template <typename Params>
void set_alpha_and_bias(Params& params, Tensor const& alpha, Tensor const& bias) {
  params.bias_dtype = params.d_dtype;
  if (alpha) {
    alpha.check_device(params.device);
    alpha.check_float_scalar();
    params.alpha = alpha.data<float>();
  }
  if (bias) {
    bias.check_device(params.device);
    bias.check_shape(&params.n, 1);
    bias.check_contiguous();
    params.bias = bias.data();
    params.bias_dtype = bias.float_dtype();
  }
}

// The workspace an op asks for; freed when the call returns, which torch's allocator orders after the queued work.
template <typename Params>
Tensor make_workspace(Params& params, fp4aot_status (*workspace_size)(Params const*, size_t*), char const* op) {
  size_t bytes = 0;
  check_status(workspace_size(&params, &bytes));
  if (bytes == 0) return Tensor();
  int64_t const size = static_cast<int64_t>(bytes);
  Tensor workspace = Tensor::empty(aoti_torch_dtype_uint8(), &size, 1, params.device, op, "workspace");
  params.workspace = workspace.data();
  params.workspace_bytes = bytes;
  return workspace;
}

// Registrations, one a file.
void define_quantize(torch::stable::detail::StableLibrary& library);
void define_scales(torch::stable::detail::StableLibrary& library);
void define_gemm(torch::stable::detail::StableLibrary& library);
void define_w4a16(torch::stable::detail::StableLibrary& library);
void implement_quantize(torch::stable::detail::StableLibrary& library);
void implement_scales(torch::stable::detail::StableLibrary& library);
void implement_gemm(torch::stable::detail::StableLibrary& library);
void implement_w4a16(torch::stable::detail::StableLibrary& library);

}  // namespace fp4aot::torch_binding

#endif
