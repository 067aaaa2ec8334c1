// quantize_*, silu_mul_quantize_*, rmsnorm_quantize_*, dequantize_*: functional ops allocate, _out ops write into
// tensors given. Leading dimensions of any rank are rows.
#include <stdexcept>
#include <string>

#include "fp4aot/formats.h"
#include "torch/call.h"

namespace fp4aot::torch_binding {

namespace {

enum class Input { kPlain, kGateAndUp, kNormalised };

struct QuantizeOp {
  char const* name;
  Format format;
  Input input;
  fp4aot_status (*run)(fp4aot_quantize_params const*);
};

struct DequantizeOp {
  char const* name;
  Format format;
  fp4aot_status (*run)(fp4aot_dequantize_params const*);
};

constexpr int vector_of(Format format) { return format == Format::kNvfp4 ? kNvfp4Vector : kMxfp4Vector; }

ScaleType scale_type(Format format) { return format == Format::kNvfp4 ? ScaleType::kE4m3 : ScaleType::kUe8m0; }

int32_t scale_dtype(Format format) {
  return format == Format::kNvfp4 ? aoti_torch_dtype_float8_e4m3fn() : torch_dtype_ue8m0();
}

Tensor allocate_scales(QuantizeOp const& op, Tensor const& input, fp4aot_quantize_params const& params) {
  int64_t const columns = params.k / vector_of(op.format);
  if (params.scale_layout == FP4AOT_SCALES_LINEAR) {
    LeadingShape const shape(input, columns);
    return Tensor::empty(scale_dtype(op.format), shape.sizes, shape.dimensions, params.device, op.name, "scales");
  }
  int64_t const sizes[2] = {round_up(params.rows, kScaleAtomRows), round_up(columns, kScaleAtomColumns)};
  return Tensor::empty(scale_dtype(op.format), sizes, 2, params.device, op.name, "scales");
}

// Schema order: [codes, scales,] input, [weight,] [global_scale | rounding], [epsilon, residual,] scale_layout, pdl.
void quantize(QuantizeOp const& op, StableIValue* values, bool out) {
  Stack stack(values, op.name);
  Tensor codes, scales, weight, global_scale, residual;
  int32_t rounding = FP4AOT_ROUND_CEIL;
  double epsilon = 0.0;
  if (out) {
    codes = stack.tensor("codes (out[0])");
    scales = stack.tensor("scales (out[1])");
  }
  Tensor input = stack.tensor("input");
  if (op.input == Input::kNormalised) weight = stack.tensor("weight");
  if (op.format == Format::kNvfp4) {
    global_scale = stack.optional_tensor("global_scale");
  } else {
    rounding = stack.option();
  }
  if (op.input == Input::kNormalised) {
    epsilon = stack.real();
    residual = stack.optional_tensor("residual");
  }
  int32_t const scale_layout = stack.option();
  bool const pdl = stack.boolean();
  read({&codes, &scales, &input, &weight, &global_scale, &residual});

  Matrix const matrix = input.matrix();
  auto params = make_params<fp4aot_quantize_params>(input, pdl);
  params.input_dtype = input.float_dtype();
  params.rows = matrix.rows;
  params.k = op.input == Input::kGateAndUp ? matrix.columns / 2 : matrix.columns;
  params.input = input.data();
  params.input_stride = matrix.stride;
  params.scale_layout = scale_layout;
  params.rounding = rounding;
  if (op.input == Input::kGateAndUp && matrix.columns % 2 != 0) {
    input.fail("has " + std::to_string(matrix.columns) +
               " columns; it must have 2 * K, the gate and then the up half.");
  }
  if (global_scale) {
    global_scale.check_device(params.device);
    global_scale.check_float_scalar();
    params.global_scale = global_scale.data<float>();
  }
  if (weight) {
    weight.check_device(params.device);
    weight.check_shape(&params.k, 1);
    weight.check_contiguous();
    if (weight.dtype() != input.dtype()) {
      weight.fail("is " + dtype_text(weight.dtype()) + "; it must have the input's dtype, " +
                  dtype_text(input.dtype()) + ".");
    }
    params.weight = weight.data();
    params.epsilon = static_cast<float>(epsilon);
  }
  if (residual) {
    residual.check_device(params.device);
    residual.check_shape(input.sizes(), input.dimensions());
    if (residual.dtype() != input.dtype()) {
      residual.fail("is " + dtype_text(residual.dtype()) + "; it must have the input's dtype, " +
                    dtype_text(input.dtype()) + ".");
    }
    params.residual = residual.data();
    params.residual_stride = residual.matrix().stride;
  }

  LeadingShape const codes_shape(input, params.k / 2);
  if (out) {
    codes.check_device(params.device);
    codes.check_codes();
    codes.check_shape(codes_shape.sizes, codes_shape.dimensions);
    scales.check_device(params.device);
    scales.check_scales(scale_type(op.format));
    if (scale_layout == FP4AOT_SCALES_LINEAR && params.k % vector_of(op.format) == 0) {
      scales.check_linear_scales(params.rows, params.k / vector_of(op.format));
    }
    params.codes_stride = codes.matrix().stride;
  } else {
    codes = Tensor::empty(aoti_torch_dtype_uint8(), codes_shape.sizes, codes_shape.dimensions, params.device, op.name,
                          "codes");
    scales = allocate_scales(op, input, params);
    params.codes_stride = params.k / 2;
  }
  params.codes = codes.data<uint8_t>();
  params.scales = scales.data<uint8_t>();
  params.scales_bytes = scales.numel();
  check_status(op.run(&params));
  if (!out) {
    stack.give(0, std::move(codes));
    stack.give(1, std::move(scales));
  }
}

// Schema order: [output,] codes, scales, [global_scale,] [dtype,] scale_layout, pdl.
void dequantize(DequantizeOp const& op, StableIValue* values, bool out) {
  Stack stack(values, op.name);
  Tensor output, global_scale;
  if (out) output = stack.tensor("output (out)");
  Tensor codes = stack.tensor("codes");
  Tensor scales = stack.tensor("scales");
  if (op.format == Format::kNvfp4) global_scale = stack.optional_tensor("global_scale");
  int32_t dtype = out ? 0 : stack.dtype();
  int32_t const scale_layout = stack.option();
  bool const pdl = stack.boolean();
  read({&output, &codes, &scales, &global_scale});
  if (out) dtype = output.dtype();

  codes.check_codes();
  Matrix const matrix = codes.matrix();
  auto params = make_params<fp4aot_dequantize_params>(codes, pdl);
  scales.check_device(params.device);
  scales.check_scales(scale_type(op.format));
  params.output_dtype = float_dtype(dtype, op.name, out ? "output (out)" : "dtype");
  params.rows = matrix.rows;
  params.k = matrix.columns * 2;
  params.codes = codes.data<uint8_t>();
  params.codes_stride = matrix.stride;
  params.scales = scales.data<uint8_t>();
  params.scales_bytes = scales.numel();
  params.scale_layout = scale_layout;
  if (scale_layout == FP4AOT_SCALES_LINEAR && params.k % vector_of(op.format) == 0) {
    scales.check_linear_scales(params.rows, params.k / vector_of(op.format));
  }
  if (global_scale) {
    global_scale.check_device(params.device);
    global_scale.check_float_scalar();
    params.global_scale = global_scale.data<float>();
  }
  LeadingShape const shape(codes, params.k);
  if (out) {
    output.check_device(params.device);
    output.check_shape(shape.sizes, shape.dimensions);
    params.output_stride = output.matrix().stride;
  } else {
    output = Tensor::empty(dtype, shape.sizes, shape.dimensions, params.device, op.name, "output");
    params.output_stride = params.k;
  }
  params.output = output.data();
  check_status(op.run(&params));
  if (!out) stack.give(0, std::move(output));
}

constexpr QuantizeOp kQuantizeNvfp4 = {"quantize_nvfp4", Format::kNvfp4, Input::kPlain, fp4aot_quantize_nvfp4};
constexpr QuantizeOp kQuantizeMxfp4 = {"quantize_mxfp4", Format::kMxfp4, Input::kPlain, fp4aot_quantize_mxfp4};
constexpr QuantizeOp kSiluNvfp4 = {"silu_mul_quantize_nvfp4", Format::kNvfp4, Input::kGateAndUp,
                                   fp4aot_silu_mul_quantize_nvfp4};
constexpr QuantizeOp kSiluMxfp4 = {"silu_mul_quantize_mxfp4", Format::kMxfp4, Input::kGateAndUp,
                                   fp4aot_silu_mul_quantize_mxfp4};
constexpr QuantizeOp kRmsnormNvfp4 = {"rmsnorm_quantize_nvfp4", Format::kNvfp4, Input::kNormalised,
                                      fp4aot_rmsnorm_quantize_nvfp4};
constexpr DequantizeOp kDequantizeNvfp4 = {"dequantize_nvfp4", Format::kNvfp4, fp4aot_dequantize_nvfp4};
constexpr DequantizeOp kDequantizeMxfp4 = {"dequantize_mxfp4", Format::kMxfp4, fp4aot_dequantize_mxfp4};

template <QuantizeOp const& kOp, bool kOut>
void boxed(StableIValue* values, uint64_t, uint64_t) {
  quantize(kOp, values, kOut);
}

template <DequantizeOp const& kOp, bool kOut>
void boxed(StableIValue* values, uint64_t, uint64_t) {
  dequantize(kOp, values, kOut);
}

}  // namespace

void define_quantize(torch::stable::detail::StableLibrary& library) {
  std::string const outputs = "(Tensor(a!) codes, Tensor(b!) scales, ";
  std::string const nvfp4 = "Tensor input, Tensor? global_scale=None, int scale_layout=0, bool pdl=False)";
  std::string const mxfp4 = "Tensor input, int rounding=0, int scale_layout=0, bool pdl=False)";
  std::string const rmsnorm =
      "Tensor input, Tensor weight, Tensor? global_scale=None, float epsilon=1e-06, Tensor(c!)? residual=None, "
      "int scale_layout=0, bool pdl=False)";
  auto const define = [&](std::string const& name, std::string const& arguments) {
    library.def((name + "(" + arguments + " -> (Tensor, Tensor)").c_str());
    library.def((name + "_out" + outputs + arguments + " -> ()").c_str());
  };
  define("quantize_nvfp4", nvfp4);
  define("quantize_mxfp4", mxfp4);
  define("silu_mul_quantize_nvfp4", nvfp4);
  define("silu_mul_quantize_mxfp4", mxfp4);
  define("rmsnorm_quantize_nvfp4", rmsnorm);
  library.def(
      "dequantize_nvfp4(Tensor codes, Tensor scales, Tensor? global_scale, ScalarType dtype, int scale_layout=0, "
      "bool pdl=False) -> Tensor");
  library.def(
      "dequantize_nvfp4_out(Tensor(a!) output, Tensor codes, Tensor scales, Tensor? global_scale=None, "
      "int scale_layout=0, bool pdl=False) -> ()");
  library.def(
      "dequantize_mxfp4(Tensor codes, Tensor scales, ScalarType dtype, int scale_layout=0, bool pdl=False) -> Tensor");
  library.def(
      "dequantize_mxfp4_out(Tensor(a!) output, Tensor codes, Tensor scales, int scale_layout=0, bool pdl=False) -> ()");
}

void implement_quantize(torch::stable::detail::StableLibrary& library) {
  library.impl("quantize_nvfp4", boxed<kQuantizeNvfp4, false>);
  library.impl("quantize_nvfp4_out", boxed<kQuantizeNvfp4, true>);
  library.impl("quantize_mxfp4", boxed<kQuantizeMxfp4, false>);
  library.impl("quantize_mxfp4_out", boxed<kQuantizeMxfp4, true>);
  library.impl("silu_mul_quantize_nvfp4", boxed<kSiluNvfp4, false>);
  library.impl("silu_mul_quantize_nvfp4_out", boxed<kSiluNvfp4, true>);
  library.impl("silu_mul_quantize_mxfp4", boxed<kSiluMxfp4, false>);
  library.impl("silu_mul_quantize_mxfp4_out", boxed<kSiluMxfp4, true>);
  library.impl("rmsnorm_quantize_nvfp4", boxed<kRmsnormNvfp4, false>);
  library.impl("rmsnorm_quantize_nvfp4_out", boxed<kRmsnormNvfp4, true>);
  library.impl("dequantize_nvfp4", boxed<kDequantizeNvfp4, false>);
  library.impl("dequantize_nvfp4_out", boxed<kDequantizeNvfp4, true>);
  library.impl("dequantize_mxfp4", boxed<kDequantizeMxfp4, false>);
  library.impl("dequantize_mxfp4_out", boxed<kDequantizeMxfp4, true>);
}

}  // namespace fp4aot::torch_binding
