// gemm_w4a16_nvfp4, gemm_w4a16_mxfp4 and their _out forms. Argument order: src/cpp/torch/w4a16.cpp.
#include "python/fast_product.h"

namespace fp4aot::python {

namespace {

constexpr Product<fp4aot_gemm_w4a16_params> kNvfp4 = {fp4aot_gemm_w4a16_nvfp4, fp4aot_gemm_w4a16_nvfp4_workspace_size};
constexpr Product<fp4aot_gemm_w4a16_params> kMxfp4 = {fp4aot_gemm_w4a16_mxfp4, fp4aot_gemm_w4a16_mxfp4_workspace_size};

bool gemm(Product<fp4aot_gemm_w4a16_params> const& product, bool out, Arguments& arguments, PyObject** result) {
  Operand a, b;
  int64_t n = 0, k = 0;
  Epilogue rest;
  if ((out && !arguments.tensor(&rest.d)) || !arguments.tensor(&a) || !arguments.tensor(&b) || !arguments.integer(&n) ||
      !arguments.integer(&k) || !rest.read(out, arguments)) {
    return false;
  }
  Rows rows;
  bool const half = a.type == Type::kBf16 || a.type == Type::kFp16;
  if (!half || !read_rows(a, &rows) || rows.columns != k || b.type != Type::kUint8 || !b.is_on(a.device) ||
      !b.is_contiguous()) {
    return false;
  }
  if (n <= 0 || n > b.numel / k * 2) return false;  // more than the weights: nothing is allocated for it
  fp4aot_gemm_w4a16_params params;
  if (!make_params(a.device, rest.pdl, &params)) return false;
  params.a_dtype = a.float_dtype();
  params.m = rows.rows;
  params.n = n;
  params.k = k;
  params.a = a.data;
  params.a_stride = rows.stride;
  params.prepared = static_cast<uint8_t const*>(b.data);
  params.prepared_bytes = b.numel;
  return multiply(product, out, rest, a, params, result);
}

template <Product<fp4aot_gemm_w4a16_params> const& kProduct, bool kOut>
bool fast(Arguments& arguments, PyObject** result) {
  return gemm(kProduct, kOut, arguments, result);
}

}  // namespace

NamedOp const kW4a16Ops[4] = {
    {"gemm_w4a16_nvfp4", fast<kNvfp4, false>},
    {"gemm_w4a16_nvfp4_out", fast<kNvfp4, true>},
    {"gemm_w4a16_mxfp4", fast<kMxfp4, false>},
    {"gemm_w4a16_mxfp4_out", fast<kMxfp4, true>},
};

}  // namespace fp4aot::python
