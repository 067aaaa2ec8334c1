// nvfp4_global_scale, swizzle_scales, unswizzle_scales and their _out forms.
#include <string>

#include "fp4aot/formats.h"
#include "torch/call.h"

namespace fp4aot::torch_binding {

namespace {

// Schema order: [global_scale,] input, pdl.
template <bool kOut>
void global_scale(StableIValue* values, uint64_t, uint64_t) {
  constexpr char const* kName = "nvfp4_global_scale";
  Stack stack(values, kName);
  Tensor output;
  if (kOut) output = stack.tensor("global_scale (out)");
  Tensor input = stack.tensor("input");
  bool const pdl = stack.boolean();
  read({&output, &input});

  Matrix const matrix = input.matrix();
  auto params = make_params<fp4aot_global_scale_params>(input, pdl);
  params.input_dtype = input.float_dtype();
  params.rows = matrix.rows;
  params.k = matrix.columns;
  params.input = input.data();
  params.input_stride = matrix.stride;
  if (kOut) {
    output.check_device(params.device);
    output.check_float_scalar();
  } else {
    output = Tensor::empty(aoti_torch_dtype_float32(), nullptr, 0, params.device, kName, "global_scale");
  }
  params.global_scale = output.data<float>();
  Tensor const workspace = make_workspace(params, fp4aot_nvfp4_global_scale_workspace_size, kName);
  check_status(fp4aot_nvfp4_global_scale(&params));
  if (!kOut) stack.give(0, std::move(output));
}

// Schema order: [swizzled,] scales, pdl.
template <bool kOut>
void swizzle(StableIValue* values, uint64_t, uint64_t) {
  constexpr char const* kName = "swizzle_scales";
  Stack stack(values, kName);
  Tensor output;
  if (kOut) output = stack.tensor("swizzled (out)");
  Tensor scales = stack.tensor("scales");
  bool const pdl = stack.boolean();
  read({&output, &scales});

  Matrix const matrix = scales.matrix();
  auto params = make_params<fp4aot_scale_layout_params>(scales, pdl);
  params.rows = matrix.rows;
  params.columns = matrix.columns;
  params.linear = scales.data<uint8_t>();
  params.linear_stride = matrix.stride;
  scales.check_scale_dtype(ScaleType::kAny);
  if (kOut) {
    output.check_device(params.device);
    output.check_scales(ScaleType::kAny);
  } else {
    int64_t const sizes[2] = {round_up(matrix.rows, kScaleAtomRows), round_up(matrix.columns, kScaleAtomColumns)};
    output = Tensor::empty(scales.dtype(), sizes, 2, params.device, kName, "swizzled");
  }
  params.swizzled = output.data<uint8_t>();
  params.swizzled_bytes = output.numel();
  check_status(fp4aot_swizzle_scales(&params));
  if (!kOut) stack.give(0, std::move(output));
}

// Schema order: [scales,] swizzled, [rows, columns,] pdl.
template <bool kOut>
void unswizzle(StableIValue* values, uint64_t, uint64_t) {
  constexpr char const* kName = "unswizzle_scales";
  Stack stack(values, kName);
  Tensor output;
  if (kOut) output = stack.tensor("scales (out)");
  Tensor swizzled = stack.tensor("swizzled");
  int64_t const rows = kOut ? 0 : stack.integer();
  int64_t const columns = kOut ? 0 : stack.integer();
  bool const pdl = stack.boolean();
  read({&output, &swizzled});

  swizzled.check_scales(ScaleType::kAny);
  auto params = make_params<fp4aot_scale_layout_params>(swizzled, pdl);
  params.swizzled = swizzled.data<uint8_t>();
  params.swizzled_bytes = swizzled.numel();
  if (kOut) {
    output.check_device(params.device);
    output.check_scale_dtype(ScaleType::kAny);
    Matrix const matrix = output.matrix();
    params.rows = matrix.rows;
    params.columns = matrix.columns;
    params.linear_stride = matrix.stride;
  } else {
    params.rows = rows;
    params.columns = columns;
    params.linear_stride = columns;
    // Refused by the C ABI, but a tensor cannot be allocated with such sizes before it is asked.
    if (rows >= 0 && columns >= 1) {
      int64_t needed = 0;
      bool const measurable =
          rows <= kMaxExtent && columns <= kMaxExtent &&
          !__builtin_mul_overflow(round_up(rows, kScaleAtomRows), round_up(columns, kScaleAtomColumns), &needed);
      if (!measurable || needed > params.swizzled_bytes) {
        swizzled.fail("has " + std::to_string(params.swizzled_bytes) + " bytes; " + std::to_string(rows) + " rows of " +
                      std::to_string(columns) + " scales take roundup(rows, 128) * roundup(columns, 4)" +
                      (measurable ? " = " + std::to_string(needed) : std::string()) +
                      ". Give the rows and columns that were swizzled.");
      }
      int64_t const sizes[2] = {rows, columns};
      output = Tensor::empty(swizzled.dtype(), sizes, 2, params.device, kName, "scales");
    }
  }
  params.linear = output.data<uint8_t>();
  check_status(fp4aot_unswizzle_scales(&params));
  if (!kOut) stack.give(0, std::move(output));
}

}  // namespace

void define_scales(torch::stable::detail::StableLibrary& library) {
  library.def("nvfp4_global_scale(Tensor input, bool pdl=False) -> Tensor");
  library.def("nvfp4_global_scale_out(Tensor(a!) global_scale, Tensor input, bool pdl=False) -> ()");
  library.def("swizzle_scales(Tensor scales, bool pdl=False) -> Tensor");
  library.def("swizzle_scales_out(Tensor(a!) swizzled, Tensor scales, bool pdl=False) -> ()");
  library.def("unswizzle_scales(Tensor swizzled, SymInt rows, SymInt columns, bool pdl=False) -> Tensor");
  library.def("unswizzle_scales_out(Tensor(a!) scales, Tensor swizzled, bool pdl=False) -> ()");
}

void implement_scales(torch::stable::detail::StableLibrary& library) {
  library.impl("nvfp4_global_scale", global_scale<false>);
  library.impl("nvfp4_global_scale_out", global_scale<true>);
  library.impl("swizzle_scales", swizzle<false>);
  library.impl("swizzle_scales_out", swizzle<true>);
  library.impl("unswizzle_scales", unswizzle<false>);
  library.impl("unswizzle_scales_out", unswizzle<true>);
}

}  // namespace fp4aot::torch_binding
