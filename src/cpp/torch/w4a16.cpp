// prepare_w4a16_*, restore_w4a16_*, gemm_w4a16_* and their _out forms.
#include <string>

#include "fp4aot/w4a16_layout.h"
#include "torch/call.h"

namespace fp4aot::torch_binding {

namespace {

struct WeightsOp {
  char const* name;
  fp4aot_op number;
  Format format;
  fp4aot_status (*run)(fp4aot_w4a16_weights_params const*);
};

constexpr WeightsOp kPrepareNvfp4 = {"prepare_w4a16_nvfp4", FP4AOT_OP_prepare_w4a16_nvfp4, Format::kNvfp4,
                                     fp4aot_prepare_w4a16_nvfp4};
constexpr WeightsOp kPrepareMxfp4 = {"prepare_w4a16_mxfp4", FP4AOT_OP_prepare_w4a16_mxfp4, Format::kMxfp4,
                                     fp4aot_prepare_w4a16_mxfp4};
constexpr WeightsOp kRestoreNvfp4 = {"restore_w4a16_nvfp4", FP4AOT_OP_restore_w4a16_nvfp4, Format::kNvfp4,
                                     fp4aot_restore_w4a16_nvfp4};
constexpr WeightsOp kRestoreMxfp4 = {"restore_w4a16_mxfp4", FP4AOT_OP_restore_w4a16_mxfp4, Format::kMxfp4,
                                     fp4aot_restore_w4a16_mxfp4};

struct GemmOp {
  char const* name;
  fp4aot_op number;
  Format format;
  fp4aot_status (*run)(fp4aot_gemm_w4a16_params const*);
  fp4aot_status (*workspace_size)(fp4aot_gemm_w4a16_params const*, size_t*);
};

constexpr GemmOp kNvfp4 = {"gemm_w4a16_nvfp4", FP4AOT_OP_gemm_w4a16_nvfp4, Format::kNvfp4, fp4aot_gemm_w4a16_nvfp4,
                           fp4aot_gemm_w4a16_nvfp4_workspace_size};
constexpr GemmOp kMxfp4 = {"gemm_w4a16_mxfp4", FP4AOT_OP_gemm_w4a16_mxfp4, Format::kMxfp4, fp4aot_gemm_w4a16_mxfp4,
                           fp4aot_gemm_w4a16_mxfp4_workspace_size};

// Bytes of prepared weights; throws for sizes that the C ABI refuses, before anything is allocated for them.
int64_t prepared_bytes(fp4aot_op op, int64_t n, int64_t k) {
  int64_t bytes = 0;
  check_status(fp4aot_w4a16_prepared_bytes(op, n, k, &bytes));
  return bytes;
}

// Throws if a tensor of prepared weights is smaller than these sizes need.
void check_prepared(Tensor const& prepared, fp4aot_op op, int64_t n, int64_t k) {
  int64_t const needed = prepared_bytes(op, n, k);
  if (prepared.numel() >= needed) return;
  prepared.fail("has " + std::to_string(prepared.numel()) + " bytes; weights of N = " + std::to_string(n) +
                ", K = " + std::to_string(k) + " have " + std::to_string(needed) +
                ". Give the N, K and format that were prepared.");
}

void set_prepared(fp4aot_w4a16_weights_params& params, Tensor const& prepared) {
  prepared.check_device(params.device);
  prepared.check_bytes();
  params.prepared = prepared.data<uint8_t>();
  params.prepared_bytes = prepared.numel();
}

// n and k are set already. Linear scales: [rows >= n, k/vec], rows may be strided, or a flat buffer.
void set_scales(fp4aot_w4a16_weights_params& params, Format format, Tensor const& scales, int32_t layout) {
  scales.check_device(params.device);
  scales.check_scale_dtype(format == Format::kNvfp4 ? ScaleType::kE4m3 : ScaleType::kUe8m0);
  int64_t const columns = params.k / w4a16_vector(format);
  params.scale_layout = layout;
  params.scales = scales.data<uint8_t>();
  params.scales_bytes = scales.numel();
  if (layout != FP4AOT_SCALES_LINEAR || scales.dimensions() == 1) {
    scales.check_contiguous();
    if (layout == FP4AOT_SCALES_LINEAR) params.scales_stride = columns;
    return;
  }
  Matrix const matrix = scales.matrix();
  if (matrix.columns != columns || matrix.rows < params.n) {
    scales.fail("has " + std::to_string(matrix.rows) + " rows of " + std::to_string(matrix.columns) +
                "; linear scales are [N, K/block], here at least " + std::to_string(params.n) + " rows of " +
                std::to_string(columns) + ", or a flat buffer. For scales in the tensor cores' order pass " +
                "scale_layout=\"swizzled\".");
  }
  params.scales_stride = matrix.stride;
  params.scales_bytes = (matrix.rows - 1) * matrix.stride + columns;
}

void set_codes(fp4aot_w4a16_weights_params& params, Tensor const& codes) {
  codes.check_codes();
  if (codes.dimensions() != 2) {
    codes.fail("(weights) must have two dimensions, [N, K/2]; it has " + std::to_string(codes.dimensions()) + ".");
  }
  Matrix const matrix = codes.matrix();
  params.n = matrix.rows;
  params.k = matrix.columns * 2;
  params.codes = codes.data<uint8_t>();
  params.codes_stride = matrix.stride;
}

// Schema order: [prepared,] codes, scales, scale_layout, pdl.
void prepare(WeightsOp const& op, StableIValue* values, bool out) {
  Stack stack(values, op.name);
  Tensor prepared;
  if (out) prepared = stack.tensor("prepared (out)");
  Tensor codes = stack.tensor("codes");
  Tensor scales = stack.tensor("scales");
  int32_t const layout = stack.option();
  bool const pdl = stack.boolean();
  read({&prepared, &codes, &scales});

  auto params = make_params<fp4aot_w4a16_weights_params>(codes, pdl);
  set_codes(params, codes);
  set_scales(params, op.format, scales, layout);
  if (!out) {
    int64_t const size = prepared_bytes(op.number, params.n, params.k);
    prepared = Tensor::empty(aoti_torch_dtype_uint8(), &size, 1, params.device, op.name, "prepared");
    params.prepared = prepared.data<uint8_t>();
    params.prepared_bytes = size;
  } else {
    set_prepared(params, prepared);
  }
  check_status(op.run(&params));
  if (!out) stack.give(0, std::move(prepared));
}

// Schema order: [codes, scales,] prepared, n, k, scale_layout, pdl.
void restore(WeightsOp const& op, StableIValue* values, bool out) {
  Stack stack(values, op.name);
  Tensor codes, scales;
  if (out) {
    codes = stack.tensor("codes (out)");
    scales = stack.tensor("scales (out)");
  }
  Tensor prepared = stack.tensor("prepared");
  int64_t const n = stack.integer(), k = stack.integer();
  int32_t const layout = stack.option();
  bool const pdl = stack.boolean();
  read({&codes, &scales, &prepared});

  auto params = make_params<fp4aot_w4a16_weights_params>(prepared, pdl);
  set_prepared(params, prepared);
  if (out) {
    codes.check_device(params.device);
    int64_t const shape[2] = {n, k / 2};
    codes.check_shape(shape, 2);
    set_codes(params, codes);
    params.k = k;
    set_scales(params, op.format, scales, layout);
  } else {
    int64_t const columns = k / w4a16_vector(op.format);
    bool const linear = layout == FP4AOT_SCALES_LINEAR;
    params.n = n;
    params.k = k;
    params.scale_layout = layout;
    params.codes_stride = k / 2;
    params.scales_stride = linear ? columns : 0;
    check_prepared(prepared, op.number, n, k);
    int64_t const codes_shape[2] = {n, k / 2};
    int64_t const scales_shape[2] = {linear ? n : round_up(n, kScaleAtomRows),
                                     linear ? columns : round_up(columns, kScaleAtomColumns)};
    codes = Tensor::empty(aoti_torch_dtype_uint8(), codes_shape, 2, params.device, op.name, "codes");
    int32_t const scale_dtype = op.format == Format::kNvfp4 ? aoti_torch_dtype_float8_e4m3fn() : torch_dtype_ue8m0();
    scales = Tensor::empty(scale_dtype, scales_shape, 2, params.device, op.name, "scales");
    params.codes = codes.data<uint8_t>();
    params.scales = scales.data<uint8_t>();
    params.scales_bytes = scales_shape[0] * scales_shape[1];
  }
  check_status(op.run(&params));
  if (!out) {
    stack.give(0, std::move(codes));
    stack.give(1, std::move(scales));
  }
}

// Schema order: [d,] a, b, n, k, [out_dtype,] alpha, bias, tactic, pdl.
void gemm(GemmOp const& op, StableIValue* values, bool out) {
  Stack stack(values, op.name);
  Tensor d;
  if (out) d = stack.tensor("d (out)");
  Tensor a = stack.tensor("a");
  Tensor b = stack.tensor("b");
  int64_t const n = stack.integer(), k = stack.integer();
  int32_t dtype = out ? 0 : stack.dtype();
  Tensor alpha = stack.optional_tensor("alpha");
  Tensor bias = stack.optional_tensor("bias");
  int32_t const tactic = stack.option();
  bool const pdl = stack.boolean();
  read({&d, &a, &b, &alpha, &bias});
  if (out) dtype = d.dtype();

  auto params = make_params<fp4aot_gemm_w4a16_params>(a, pdl);
  params.a_dtype = a.half_dtype();
  Matrix const a_matrix = a.matrix();
  if (a_matrix.columns != k) {
    a.fail("has " + std::to_string(a_matrix.columns) + " columns and b (weights) K = " + std::to_string(k) +
           "; a must be [*, K].");
  }
  b.check_device(params.device);
  b.check_bytes();
  params.tactic = tactic;
  params.m = a_matrix.rows;
  params.n = n;
  params.k = k;
  params.a = a.data();
  params.a_stride = a_matrix.stride;
  params.prepared = b.data<uint8_t>();
  params.prepared_bytes = b.numel();
  params.d_dtype = float_dtype(dtype, op.name, out ? "d (out)" : "out_dtype");
  set_alpha_and_bias(params, alpha, bias);
  LeadingShape const shape(a, n);
  if (out) {
    d.check_device(params.device);
    d.check_shape(shape.sizes, shape.dimensions);
    params.d_stride = d.matrix().stride;
  } else {
    check_prepared(b, op.number, n, k);
    d = Tensor::empty(dtype, shape.sizes, shape.dimensions, params.device, op.name, "d");
    params.d_stride = n;
  }
  params.d = d.data();
  Tensor const workspace = make_workspace(params, op.workspace_size, op.name);
  check_status(op.run(&params));
  if (!out) stack.give(0, std::move(d));
}

template <WeightsOp const& kOp, bool kOut>
void boxed_prepare(StableIValue* values, uint64_t, uint64_t) {
  prepare(kOp, values, kOut);
}

template <WeightsOp const& kOp, bool kOut>
void boxed_restore(StableIValue* values, uint64_t, uint64_t) {
  restore(kOp, values, kOut);
}

template <GemmOp const& kOp, bool kOut>
void boxed_gemm(StableIValue* values, uint64_t, uint64_t) {
  gemm(kOp, values, kOut);
}

}  // namespace

void define_w4a16(torch::stable::detail::StableLibrary& library) {
  std::string const layout = ", int scale_layout=" + std::to_string(FP4AOT_SCALES_SWIZZLED) + ", bool pdl=False)";
  std::string const options =
      "Tensor? alpha=None, Tensor? bias=None, int tactic=" + std::to_string(FP4AOT_TACTIC_DEFAULT) +
      ", bool pdl=False)";
  std::string const operands = "Tensor a, Tensor b, SymInt n, SymInt k, ";
  for (std::string const format : {"nvfp4", "mxfp4"}) {
    std::string const prepare = "prepare_w4a16_" + format, restore = "restore_w4a16_" + format;
    std::string const gemm = "gemm_w4a16_" + format;
    library.def((prepare + "(Tensor codes, Tensor scales" + layout + " -> Tensor").c_str());
    library.def((prepare + "_out(Tensor(a!) prepared, Tensor codes, Tensor scales" + layout + " -> ()").c_str());
    std::string const sizes = "Tensor prepared, SymInt n, SymInt k" + layout;
    library.def((restore + "(" + sizes + " -> (Tensor, Tensor)").c_str());
    library.def((restore + "_out(Tensor(a!) codes, Tensor(b!) scales, " + sizes + " -> ()").c_str());
    library.def((gemm + "(" + operands + "ScalarType out_dtype, " + options + " -> Tensor").c_str());
    library.def((gemm + "_out(Tensor(a!) d, " + operands + options + " -> ()").c_str());
  }
}

void implement_w4a16(torch::stable::detail::StableLibrary& library) {
  library.impl("prepare_w4a16_nvfp4", boxed_prepare<kPrepareNvfp4, false>);
  library.impl("prepare_w4a16_nvfp4_out", boxed_prepare<kPrepareNvfp4, true>);
  library.impl("prepare_w4a16_mxfp4", boxed_prepare<kPrepareMxfp4, false>);
  library.impl("prepare_w4a16_mxfp4_out", boxed_prepare<kPrepareMxfp4, true>);
  library.impl("restore_w4a16_nvfp4", boxed_restore<kRestoreNvfp4, false>);
  library.impl("restore_w4a16_nvfp4_out", boxed_restore<kRestoreNvfp4, true>);
  library.impl("restore_w4a16_mxfp4", boxed_restore<kRestoreMxfp4, false>);
  library.impl("restore_w4a16_mxfp4_out", boxed_restore<kRestoreMxfp4, true>);
  library.impl("gemm_w4a16_nvfp4", boxed_gemm<kNvfp4, false>);
  library.impl("gemm_w4a16_nvfp4_out", boxed_gemm<kNvfp4, true>);
  library.impl("gemm_w4a16_mxfp4", boxed_gemm<kMxfp4, false>);
  library.impl("gemm_w4a16_mxfp4_out", boxed_gemm<kMxfp4, true>);
}

}  // namespace fp4aot::torch_binding
