// quantize_*, silu_mul_quantize_*, rmsnorm_quantize_nvfp4 and their _out forms. Argument order: src/cpp/torch/quantize.cpp.
#include <torch/headeronly/core/ScalarType.h>

#include "fp4aot/formats.h"
#include "python/fast_call.h"

namespace fp4aot::python {

namespace {

enum class Input { kPlain, kGateAndUp, kNormalised };

struct Quantize {
  Format format;
  Input input;
  fp4aot_status (*run)(fp4aot_quantize_params const*);
};

constexpr Quantize kNvfp4 = {Format::kNvfp4, Input::kPlain, fp4aot_quantize_nvfp4};
constexpr Quantize kMxfp4 = {Format::kMxfp4, Input::kPlain, fp4aot_quantize_mxfp4};
constexpr Quantize kSiluNvfp4 = {Format::kNvfp4, Input::kGateAndUp, fp4aot_silu_mul_quantize_nvfp4};
constexpr Quantize kSiluMxfp4 = {Format::kMxfp4, Input::kGateAndUp, fp4aot_silu_mul_quantize_mxfp4};
constexpr Quantize kRmsnormNvfp4 = {Format::kNvfp4, Input::kNormalised, fp4aot_rmsnorm_quantize_nvfp4};

struct Given {
  Operand codes, scales, input, weight, global_scale, residual;
  int32_t rounding = FP4AOT_ROUND_CEIL, scale_layout = FP4AOT_SCALES_SWIZZLED;
  double epsilon = 1e-6;
  bool pdl = false;
};

bool read(Quantize const& op, bool out, Arguments& from, Given* given) {
  bool const normalised = op.input == Input::kNormalised;
  if (out && (!from.tensor(&given->codes) || !from.tensor(&given->scales))) return false;
  if (!from.tensor(&given->input) || (normalised && !from.tensor(&given->weight))) return false;
  if (op.format == Format::kNvfp4 ? !from.optional_tensor(&given->global_scale) : !from.integer(&given->rounding)) {
    return false;
  }
  if (normalised && (!from.real(&given->epsilon) || !from.optional_tensor(&given->residual))) return false;
  return from.integer(&given->scale_layout) && from.boolean(&given->pdl) && from.at_end();
}

bool allocate(Quantize const& op, Operand const& input, fp4aot_quantize_params& params, NewTensor& codes,
              NewTensor& scales) {
  using torch::headeronly::ScalarType;
  bool const nvfp4 = op.format == Format::kNvfp4;
  int32_t const dtype = static_cast<int32_t>(nvfp4 ? ScalarType::Float8_e4m3fn : ScalarType::Float8_e8m0fnu);
  int64_t const columns = params.k / (nvfp4 ? kNvfp4Vector : kMxfp4Vector);
  if (!codes.allocate_like(aoti_torch_dtype_uint8(), input, params.k / 2)) return false;
  if (params.scale_layout == FP4AOT_SCALES_LINEAR) {
    params.scales_bytes = params.rows * columns;
    if (!scales.allocate_like(dtype, input, columns)) return false;
  } else {
    int64_t const sizes[2] = {round_up(params.rows, kScaleAtomRows), round_up(columns, kScaleAtomColumns)};
    params.scales_bytes = sizes[0] * sizes[1];
    if (!scales.allocate(dtype, sizes, 2, params.device)) return false;
  }
  params.codes = static_cast<uint8_t*>(codes.data());
  params.codes_stride = params.k / 2;
  params.scales = static_cast<uint8_t*>(scales.data());
  return true;
}

// Outputs that were given. Linear scales may have several shapes: the dispatcher's part.
bool read_outputs(Quantize const& op, Given const& given, fp4aot_quantize_params& params) {
  Type const type = op.format == Format::kNvfp4 ? Type::kE4m3 : Type::kUe8m0;
  Operand const &codes = given.codes, &scales = given.scales;
  Rows rows;
  if (params.scale_layout != FP4AOT_SCALES_SWIZZLED || !codes.is_on(params.device) || codes.type != Type::kUint8 ||
      !codes.has_leading_shape(given.input, params.k / 2) || !read_rows(codes, &rows) || !scales.is_on(params.device) ||
      (scales.type != type && scales.type != Type::kUint8) || !scales.is_contiguous()) {
    return false;
  }
  params.codes = static_cast<uint8_t*>(codes.data);
  params.codes_stride = rows.stride;
  params.scales = static_cast<uint8_t*>(scales.data);
  params.scales_bytes = scales.numel;
  return true;
}

bool quantize(Quantize const& op, bool out, Arguments& arguments, PyObject** result) {
  Given given;
  if (!read(op, out, arguments, &given)) return false;
  Operand const &input = given.input, &weight = given.weight, &residual = given.residual;
  Rows rows, residual_rows;
  fp4aot_quantize_params params;
  if (!read_rows(input, &rows) || input.float_dtype() == 0 || !make_params(input.device, given.pdl, &params))
    return false;
  bool const halves = op.input == Input::kGateAndUp;
  if (halves && rows.columns % 2 != 0) return false;
  params.input_dtype = input.float_dtype();
  params.rows = rows.rows;
  params.k = halves ? rows.columns / 2 : rows.columns;
  params.input = input.data;
  params.input_stride = rows.stride;
  params.scale_layout = given.scale_layout;
  params.rounding = given.rounding;
  if (given.global_scale) {
    if (!given.global_scale.is_scalar(params.device)) return false;
    params.global_scale = static_cast<float const*>(given.global_scale.data);
  }
  if (weight) {
    if (!weight.is_on(params.device) || weight.type != input.type || weight.dimensions != 1 ||
        weight.sizes[0] != params.k || !weight.is_contiguous()) {
      return false;
    }
    params.weight = weight.data;
    params.epsilon = static_cast<float>(given.epsilon);
  }
  if (residual) {
    if (!residual.is_on(params.device) || residual.type != input.type ||
        !residual.has_leading_shape(input, rows.columns) || !read_rows(residual, &residual_rows)) {
      return false;
    }
    params.residual = residual.data;
    params.residual_stride = residual_rows.stride;
  }
  if (out) {
    if (!read_outputs(op, given, params)) return false;
    {
      WithoutLock const unlocked;
      if (op.run(&params) != FP4AOT_OK) return false;
    }
    if (increment_versions({&given.codes, &given.scales, &residual})) {
      *result = Py_NewRef(Py_None);
    }
    return true;
  }
  NewTensor codes, scales;
  {
    WithoutLock const unlocked;
    if (!allocate(op, input, params, codes, scales) || op.run(&params) != FP4AOT_OK) return false;
  }
  if (residual && !increment_versions({&residual})) return true;
  PyObject* const pair = PyTuple_New(2);
  PyObject* const objects[2] = {codes.to_python(), scales.to_python()};
  if (pair == nullptr || objects[0] == nullptr || objects[1] == nullptr) {
    PyErr_Clear();
    Py_XDECREF(pair);
    Py_XDECREF(objects[0]);
    Py_XDECREF(objects[1]);
    PyErr_SetString(PyExc_MemoryError, "fp4aot: torch made no Python object of a new tensor.");
    return true;  // not again: the residual is written
  }
  PyTuple_SetItem(pair, 0, objects[0]);
  PyTuple_SetItem(pair, 1, objects[1]);
  *result = pair;
  return true;
}

template <Quantize const& kOp, bool kOut>
bool fast(Arguments& arguments, PyObject** result) {
  return quantize(kOp, kOut, arguments, result);
}

}  // namespace

NamedOp const kQuantizeOps[10] = {
    {"quantize_nvfp4", fast<kNvfp4, false>},
    {"quantize_nvfp4_out", fast<kNvfp4, true>},
    {"quantize_mxfp4", fast<kMxfp4, false>},
    {"quantize_mxfp4_out", fast<kMxfp4, true>},
    {"silu_mul_quantize_nvfp4", fast<kSiluNvfp4, false>},
    {"silu_mul_quantize_nvfp4_out", fast<kSiluNvfp4, true>},
    {"silu_mul_quantize_mxfp4", fast<kSiluMxfp4, false>},
    {"silu_mul_quantize_mxfp4_out", fast<kSiluMxfp4, true>},
    {"rmsnorm_quantize_nvfp4", fast<kRmsnormNvfp4, false>},
    {"rmsnorm_quantize_nvfp4_out", fast<kRmsnormNvfp4, true>},
};

}  // namespace fp4aot::python
