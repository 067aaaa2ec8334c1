// gemm_nvfp4, gemm_mxfp4 and their _out forms. Argument order: src/cpp/torch/gemm.cpp.
#include "python/fast_product.h"

namespace fp4aot::python {

namespace {

struct Gemm {
  Type scales;
  Product<fp4aot_gemm_params> product;
};

constexpr Gemm kNvfp4 = {Type::kE4m3, {fp4aot_gemm_nvfp4, fp4aot_gemm_nvfp4_workspace_size}};
constexpr Gemm kMxfp4 = {Type::kUe8m0, {fp4aot_gemm_mxfp4, fp4aot_gemm_mxfp4_workspace_size}};

bool is_scales(Operand const& operand, Type type, fp4aot_device device) {
  return (operand.type == type || operand.type == Type::kUint8) && operand.is_on(device) && operand.is_contiguous();
}

bool gemm(Gemm const& op, bool out, Arguments& arguments, PyObject** result) {
  Operand a, b, a_scales, b_scales;
  Epilogue rest;
  if ((out && !arguments.tensor(&rest.d)) || !arguments.tensor(&a) || !arguments.tensor(&b) ||
      !arguments.tensor(&a_scales) || !arguments.tensor(&b_scales) || !rest.read(out, arguments)) {
    return false;
  }
  Rows a_rows, b_rows;
  if (a.type != Type::kUint8 || b.type != Type::kUint8 || b.dimensions != 2 || !b.is_on(a.device) ||
      !read_rows(a, &a_rows) || !read_rows(b, &b_rows) || a_rows.columns != b_rows.columns ||
      !is_scales(a_scales, op.scales, a.device) || !is_scales(b_scales, op.scales, a.device)) {
    return false;
  }
  fp4aot_gemm_params params;
  if (!make_params(a.device, rest.pdl, &params)) return false;
  params.m = a_rows.rows;
  params.n = b_rows.rows;
  params.k = a_rows.columns * 2;
  params.a_codes = static_cast<uint8_t const*>(a.data);
  params.a_stride = a_rows.stride;
  params.a_scales = static_cast<uint8_t const*>(a_scales.data);
  params.a_scales_bytes = a_scales.numel;
  params.b_codes = static_cast<uint8_t const*>(b.data);
  params.b_stride = b_rows.stride;
  params.b_scales = static_cast<uint8_t const*>(b_scales.data);
  params.b_scales_bytes = b_scales.numel;
  return multiply(op.product, out, rest, a, params, result);
}

template <Gemm const& kOp, bool kOut>
bool fast(Arguments& arguments, PyObject** result) {
  return gemm(kOp, kOut, arguments, result);
}

}  // namespace

int32_t float_dtype(int32_t torch_dtype) {
  if (torch_dtype == aoti_torch_dtype_bfloat16()) return FP4AOT_BF16;
  if (torch_dtype == aoti_torch_dtype_float16()) return FP4AOT_FP16;
  if (torch_dtype == aoti_torch_dtype_float32()) return FP4AOT_FP32;
  return 0;
}

NamedOp const kGemmOps[4] = {
    {"gemm_nvfp4", fast<kNvfp4, false>},
    {"gemm_nvfp4_out", fast<kNvfp4, true>},
    {"gemm_mxfp4", fast<kMxfp4, false>},
    {"gemm_mxfp4_out", fast<kMxfp4, true>},
};

}  // namespace fp4aot::python
