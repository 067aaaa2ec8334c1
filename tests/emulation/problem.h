// W4A4 problems, their results in fp64, and the comparison.
#ifndef FP4AOT_TESTS_EMULATION_PROBLEM_H_
#define FP4AOT_TESTS_EMULATION_PROBLEM_H_

#include "cuda_language.h"
// Not first: it takes the keywords of the CUDA compiler.
#include <cmath>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "kernels/gemm/args.h"

// Random codes [rows, k/2], stride a multiple of 16 bytes, and swizzled scales whose padding is NaN.
struct Operand {
  int64_t stride;
  std::vector<uint8_t> codes, scales;
  std::vector<double> values;  // [rows, k]

  // scales_of_rows: MXFP4's scale bytes, each row's one of so many from the first on; else random ones.
  Operand(fp4aot::Format format, int rows, int k, std::pair<int, int> scales_of_rows = {})
      : stride(k / 2 + 16 * machine::random_below(3)) {
    bool const nvfp4 = format == fp4aot::Format::kNvfp4;
    int const vector = nvfp4 ? fp4aot::kNvfp4Vector : fp4aot::kMxfp4Vector, columns = k / vector;
    codes.resize(rows * stride);
    for (uint8_t& code : codes) code = static_cast<uint8_t>(machine::random_below(256));
    scales.assign(fp4aot::swizzled_scale_bytes(rows, columns), nvfp4 ? fp4aot::kE4m3Nan : fp4aot::kUe8m0Nan);
    values.resize(int64_t{rows} * k);
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        uint8_t scale =
            static_cast<uint8_t>(nvfp4 ? 0x20 + machine::random_below(0x30) : 120 + machine::random_below(14));
        if (!nvfp4 && scales_of_rows.second > 0)
          scale = static_cast<uint8_t>(scales_of_rows.first + row * 7 % scales_of_rows.second);
        scales[fp4aot::scale_offset(row, column, columns)] = scale;
        double const factor = nvfp4 ? fp4aot::e4m3_to_float(scale) : fp4aot::ue8m0_to_float(scale);
        for (int i = column * vector; i < (column + 1) * vector; ++i) {
          uint8_t const byte = codes[row * stride + i / 2];
          values[int64_t{row} * k + i] = fp4aot::e2m1_to_float(i % 2 == 0 ? byte & 15 : byte >> 4) * factor;
        }
      }
    }
  }
};

struct Problem {
  int m, n, k;
  Operand a, b;
  float alpha = 1.0f / 16384;
  std::vector<float> bias;
  std::vector<double> expected, magnitude;  // magnitude: sums of the absolute products, which bound the rounding

  // more_bits: values of a that FP4 does not have, with so many more significant bits. b_scales: see Operand; those of a are
  // two more.
  Problem(fp4aot::Format format, int rows, int columns, int depth, int more_bits = 0, std::pair<int, int> b_scales = {})
      : m(rows),
        n(columns),
        k(depth),
        a(format, m, k, {b_scales.first + 2, b_scales.second}),
        b(format, n, k, b_scales),
        bias(n),
        expected(m * n),
        magnitude(m * n) {
    if (more_bits > 0) {
      for (double& x : a.values) x *= 1 + std::ldexp(machine::random_below(1 << more_bits), -more_bits);
    }
    for (float& x : bias) x = static_cast<float>(machine::random_below(5));
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double const *x = a.values.data() + int64_t{i} * k, *y = b.values.data() + int64_t{j} * k;
        double sum = 0, absolute = 0;
        for (int c = 0; c < k; ++c) {
          sum += x[c] * y[c];
          absolute += std::fabs(x[c] * y[c]);
        }
        expected[i * n + j] = sum * alpha + bias[j];
        magnitude[i * n + j] = absolute * alpha;
      }
    }
    machine::operands.clear();
    for (auto const* bytes : {&a.codes, &b.codes, &a.scales, &b.scales})
      machine::operands.emplace_back(bytes->data(), bytes->data() + bytes->size());
    auto const* const scale = reinterpret_cast<uint8_t const*>(&alpha);
    machine::operands.emplace_back(scale, scale + sizeof alpha);
  }
};

// The output of one run, of a fp4aot_dtype, between guards, with rows of n or more.
class Output {
 public:
  Output(Problem const& problem, int64_t pad, int64_t shift, int32_t dtype = FP4AOT_FP32)
      : problem_(problem),
        dtype_(dtype),
        element_(dtype == FP4AOT_FP32 ? 4 : 2),
        stride_(problem.n + pad),
        begin_(kGuards + shift),
        data_((kGuards + shift + problem.m * stride_ + kGuards) * element_ + 16, kGuard) {
    while (reinterpret_cast<uintptr_t>(data() - shift * element_) % 16 != 0) ++origin_;
  }

  uint8_t* data() { return data_.data() + origin_ + begin_ * element_; }
  int64_t stride() const { return stride_; }

  fp4aot::GemmArgs arguments() {
    fp4aot::GemmArgs args = {};
    args.a_codes = problem_.a.codes.data();
    args.b_codes = problem_.b.codes.data();
    args.a_stride = problem_.a.stride;
    args.b_stride = problem_.b.stride;
    args.a_scales = problem_.a.scales.data();
    args.b_scales = problem_.b.scales.data();
    args.alpha = &problem_.alpha;
    args.bias = problem_.bias.data();
    args.d = data();
    args.d_stride = stride_;
    args.m = problem_.m;
    args.n = problem_.n;
    args.k = problem_.k;
    args.d_dtype = dtype_;
    args.bias_dtype = FP4AOT_FP32;
    args.aligned_stores = reinterpret_cast<uintptr_t>(args.d) % (4 * element_) == 0 && stride_ % 4 == 0;
    return args;
  }

  void check(char const* what) const {
    int64_t const count = (static_cast<int64_t>(data_.size()) - origin_) / element_;
    for (int64_t i = 0; i < count; ++i) {
      int64_t const row = (i - begin_) / stride_, column = (i - begin_) % stride_;
      uint8_t const* const bytes = data_.data() + origin_ + i * element_;
      if (i < begin_ || row >= problem_.m || column >= problem_.n) {
        for (int64_t b = 0; b < element_; ++b)
          if (bytes[b] != kGuard) machine::fail("%s: written outside of the output", what);
        continue;
      }
      double const expected = problem_.expected[row * problem_.n + column];
      double const bound = rounding() * std::fabs(expected) + 1e-5 * problem_.magnitude[row * problem_.n + column];
      double const got = element(bytes);
      if (!(std::fabs(got - expected) <= bound))
        machine::fail("%s, m %d, n %d, k %d: mismatch at (%ld, %ld): %g, expected %g", what, problem_.m, problem_.n,
                      problem_.k, static_cast<long>(row), static_cast<long>(column), got, expected);
    }
    std::printf("%s, m %d, n %d, k %d: equal\n", what, problem_.m, problem_.n, problem_.k);
  }

 private:
  double rounding() const { return dtype_ == FP4AOT_FP32 ? 1e-5 : dtype_ == FP4AOT_BF16 ? 4e-3 : 5e-4; }
  double element(uint8_t const* bytes) const {
    if (dtype_ == FP4AOT_FP32) {
      float x;
      std::memcpy(&x, bytes, 4);
      return x;
    }
    uint16_t bits;
    std::memcpy(&bits, bytes, 2);
    if (dtype_ == FP4AOT_BF16) return machine::bf16_to_float(bits);
    __half half;
    std::memcpy(&half, &bits, 2);
    return __half2float(half);
  }

  static constexpr uint8_t kGuard = 0x44;
  static constexpr int kGuards = 64;
  Problem const& problem_;
  int32_t dtype_;
  int64_t element_, stride_, begin_, origin_ = 0;  // origin_: bytes
  std::vector<uint8_t> data_;
};

// Arguments of a program: seed, and the name of a planted fault or nothing.
inline void start_program(int count, char** arguments) {
  machine::generator.seed(count > 1 ? static_cast<unsigned>(std::atoi(arguments[1])) : 1);
  if (count > 2) machine::planted_fault = arguments[2];
}

#endif
