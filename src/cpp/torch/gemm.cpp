// gemm_nvfp4, gemm_mxfp4 and their _out forms.
#include <string>

#include "fp4aot/formats.h"
#include "torch/call.h"

namespace fp4aot::torch_binding {

namespace {

struct GemmOp {
  char const* name;
  Format format;
  fp4aot_status (*run)(fp4aot_gemm_params const*);
  fp4aot_status (*workspace_size)(fp4aot_gemm_params const*, size_t*);
};

constexpr GemmOp kNvfp4 = {"gemm_nvfp4", Format::kNvfp4, fp4aot_gemm_nvfp4, fp4aot_gemm_nvfp4_workspace_size};
constexpr GemmOp kMxfp4 = {"gemm_mxfp4", Format::kMxfp4, fp4aot_gemm_mxfp4, fp4aot_gemm_mxfp4_workspace_size};

// Schema order: [d,] a, b, a_scales, b_scales, [out_dtype,] alpha, bias, tactic, pdl.
void gemm(GemmOp const& op, StableIValue* values, bool out) {
  Stack stack(values, op.name);
  Tensor d;
  if (out) d = stack.tensor("d (out)");
  Tensor a = stack.tensor("a");
  Tensor b = stack.tensor("b");
  Tensor a_scales = stack.tensor("a_scales");
  Tensor b_scales = stack.tensor("b_scales");
  int32_t dtype = out ? 0 : stack.dtype();
  Tensor alpha = stack.optional_tensor("alpha");
  Tensor bias = stack.optional_tensor("bias");
  int32_t const tactic = stack.option();
  bool const pdl = stack.boolean();
  read({&d, &a, &b, &a_scales, &b_scales, &alpha, &bias});
  if (out) dtype = d.dtype();

  a.check_codes();
  b.check_codes();
  Matrix const a_matrix = a.matrix(), b_matrix = b.matrix();
  auto params = make_params<fp4aot_gemm_params>(a, pdl);
  if (b.dimensions() != 2)
    b.fail("(weights) must have two dimensions, [N, K/2]; it has " + std::to_string(b.dimensions()) + ".");
  if (a_matrix.columns != b_matrix.columns) {
    a.fail("has " + std::to_string(a_matrix.columns) + " bytes (two codes each) a row and b has " +
           std::to_string(b_matrix.columns) + "; both must be K/2: a [M, K/2], b [N, K/2].");
  }
  ScaleType const scale_type = op.format == Format::kNvfp4 ? ScaleType::kE4m3 : ScaleType::kUe8m0;
  for (Tensor const* scales : {&a_scales, &b_scales}) {
    scales->check_device(params.device);
    scales->check_scales(scale_type);
  }
  b.check_device(params.device);
  params.tactic = tactic;
  params.m = a_matrix.rows;
  params.n = b_matrix.rows;
  params.k = a_matrix.columns * 2;
  params.a_codes = a.data<uint8_t>();
  params.a_stride = a_matrix.stride;
  params.a_scales = a_scales.data<uint8_t>();
  params.a_scales_bytes = a_scales.numel();
  params.b_codes = b.data<uint8_t>();
  params.b_stride = b_matrix.stride;
  params.b_scales = b_scales.data<uint8_t>();
  params.b_scales_bytes = b_scales.numel();
  params.d_dtype = float_dtype(dtype, op.name, out ? "d (out)" : "out_dtype");
  set_alpha_and_bias(params, alpha, bias);
  LeadingShape const shape(a, params.n);
  if (out) {
    d.check_device(params.device);
    d.check_shape(shape.sizes, shape.dimensions);
    params.d_stride = d.matrix().stride;
  } else {
    d = Tensor::empty(dtype, shape.sizes, shape.dimensions, params.device, op.name, "d");
    params.d_stride = params.n;
  }
  params.d = d.data();
  Tensor const workspace = make_workspace(params, op.workspace_size, op.name);
  check_status(op.run(&params));
  if (!out) stack.give(0, std::move(d));
}

template <GemmOp const& kOp, bool kOut>
void boxed(StableIValue* values, uint64_t, uint64_t) {
  gemm(kOp, values, kOut);
}

}  // namespace

void define_gemm(torch::stable::detail::StableLibrary& library) {
  std::string const operands = "Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, ";
  std::string const options =
      "Tensor? alpha=None, Tensor? bias=None, int tactic=" + std::to_string(FP4AOT_TACTIC_DEFAULT) +
      ", bool pdl=False)";
  for (std::string const name : {"gemm_nvfp4", "gemm_mxfp4"}) {
    library.def((name + "(" + operands + "ScalarType out_dtype, " + options + " -> Tensor").c_str());
    library.def((name + "_out(Tensor(a!) d, " + operands + options + " -> ()").c_str());
  }
}

void implement_gemm(torch::stable::detail::StableLibrary& library) {
  library.impl("gemm_nvfp4", boxed<kNvfp4, false>);
  library.impl("gemm_nvfp4_out", boxed<kNvfp4, true>);
  library.impl("gemm_mxfp4", boxed<kMxfp4, false>);
  library.impl("gemm_mxfp4_out", boxed<kMxfp4, true>);
}

}  // namespace fp4aot::torch_binding
