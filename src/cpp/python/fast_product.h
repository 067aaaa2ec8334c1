// What the products have in common: alpha, bias, output, workspace.
#ifndef FP4AOT_PYTHON_FAST_PRODUCT_H_
#define FP4AOT_PYTHON_FAST_PRODUCT_H_

#include "python/fast_call.h"

namespace fp4aot::python {

template <typename Params>
struct Product {
  fp4aot_status (*run)(Params const*);
  fp4aot_status (*workspace_size)(Params const*, size_t*);

  bool run_with_workspace(Params& params) const {
    size_t bytes = 0;
    if (workspace_size(&params, &bytes) != FP4AOT_OK) return false;
    NewTensor workspace;
    if (bytes != 0) {
      int64_t const size = static_cast<int64_t>(bytes);
      if (!workspace.allocate(aoti_torch_dtype_uint8(), &size, 1, params.device)) return false;
      params.workspace = workspace.data();
      params.workspace_bytes = bytes;
    }
    return run(&params) == FP4AOT_OK;
  }
};

int32_t float_dtype(int32_t torch_dtype);  // fp4aot_dtype, or 0

// The arguments behind the operands, and the output where it is given.
struct Epilogue {
  Operand d, alpha, bias;
  int32_t dtype = 0, tactic = FP4AOT_TACTIC_DEFAULT;
  bool pdl = false;

  bool read(bool out, Arguments& from) {
    return (out || from.integer(&dtype)) && from.optional_tensor(&alpha) && from.optional_tensor(&bias) &&
           from.integer(&tactic) && from.boolean(&pdl) && from.at_end();
  }
};

// Runs it with params whose device, sizes and operands are set; the result has the leading dimensions of `a`.
template <typename Params>
bool multiply(Product<Params> const& product, bool out, Epilogue const& given, Operand const& a, Params& params,
              PyObject** result) {
  Operand const &d = given.d, &alpha = given.alpha, &bias = given.bias;
  params.tactic = given.tactic;
  params.d_dtype = out ? d.float_dtype() : float_dtype(given.dtype);
  params.bias_dtype = params.d_dtype;
  if (params.d_dtype == 0) return false;
  if (alpha) {
    if (!alpha.is_scalar(params.device)) return false;
    params.alpha = static_cast<float const*>(alpha.data);
  }
  if (bias) {
    params.bias = bias.data;
    params.bias_dtype = bias.float_dtype();
    if (!bias.is_on(params.device) || bias.dimensions != 1 || bias.sizes[0] != params.n || !bias.is_contiguous() ||
        params.bias_dtype == 0) {
      return false;
    }
  }
  if (out) {
    Rows rows;
    if (!d.is_on(params.device) || !d.has_leading_shape(a, params.n) || !read_rows(d, &rows)) return false;
    params.d = d.data;
    params.d_stride = rows.stride;
    {
      WithoutLock const unlocked;
      if (!product.run_with_workspace(params)) return false;
    }
    if (increment_versions({&d})) *result = Py_NewRef(Py_None);
    return true;
  }
  NewTensor made;
  {
    WithoutLock const unlocked;
    if (!made.allocate_like(given.dtype, a, params.n)) return false;
    params.d = made.data();
    params.d_stride = params.n;
    if (!product.run_with_workspace(params)) return false;
  }
  *result = made.to_python();
  return *result != nullptr;
}

}  // namespace fp4aot::python

#endif
