// Quantises two matrices and multiplies them on the CPU, through the C++ header, and checks the product with loops.
// Prints the relative error; exits 1 if it is too large, or if a bad call does not throw.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.hpp"

namespace {

constexpr fp4aot_device kCpu = {FP4AOT_CPU, 0};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Memory at a multiple of 64 bytes.
std::unique_ptr<uint8_t, Free> aligned(int64_t bytes) {
  size_t const size = static_cast<size_t>(fp4aot::round_up(bytes, 64));
  return std::unique_ptr<uint8_t, Free>(static_cast<uint8_t*>(std::aligned_alloc(64, size)));
}

struct Matrix {
  int64_t rows, k;
  std::vector<float> values, back;
  float global_scale = 0;
  std::unique_ptr<uint8_t, Free> codes, scales;
  int64_t scales_bytes;

  Matrix(int64_t rows_, int64_t k_, uint32_t seed)
      : rows(rows_),
        k(k_),
        values(static_cast<size_t>(rows_ * k_)),
        back(values.size()),
        codes(aligned(rows_ * k_ / 2)),
        scales_bytes(fp4aot::swizzled_scale_bytes(rows_, k_ / fp4aot::kNvfp4Vector)) {
    for (float& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-30f;
    }
    scales = aligned(scales_bytes);

    auto amax = fp4aot::params<fp4aot_global_scale_params>(kCpu);
    amax.input_dtype = FP4AOT_FP32;
    amax.rows = rows;
    amax.k = amax.input_stride = k;
    amax.input = values.data();
    amax.global_scale = &global_scale;
    auto const workspace = aligned(static_cast<int64_t>(fp4aot::nvfp4_global_scale_workspace_size(amax)) + 1);
    amax.workspace = workspace.get();
    amax.workspace_bytes = fp4aot::nvfp4_global_scale_workspace_size(amax);
    fp4aot::nvfp4_global_scale(amax);

    auto quantize = fp4aot::params<fp4aot_quantize_params>(kCpu);
    quantize.input_dtype = FP4AOT_FP32;
    quantize.rows = rows;
    quantize.k = quantize.input_stride = k;
    quantize.input = values.data();
    quantize.global_scale = &global_scale;
    quantize.codes = codes.get();
    quantize.codes_stride = k / 2;
    quantize.scales = scales.get();
    quantize.scales_bytes = scales_bytes;
    fp4aot::quantize_nvfp4(quantize);

    // Back by hand, with nothing but formats.h: a user's own reader of the layout.
    for (int64_t row = 0; row < rows; row++) {
      for (int64_t i = 0; i < k; i++) {
        uint8_t const pair = codes.get()[row * (k / 2) + i / 2];
        int64_t const offset = fp4aot::scale_offset(row, i / fp4aot::kNvfp4Vector, k / fp4aot::kNvfp4Vector);
        back[static_cast<size_t>(row * k + i)] = fp4aot::e2m1_to_float(i % 2 == 0 ? pair & 15 : pair >> 4) *
                                                 fp4aot::e4m3_to_float(scales.get()[offset]) / global_scale;
      }
    }
  }
};

double relative_error(std::vector<float> const& got, std::vector<double> const& wanted) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < wanted.size(); i++) {
    error += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    norm += wanted[i] * wanted[i];
  }
  return std::sqrt(error / norm);
}

}  // namespace

int main() {
  int64_t const m = 37, n = 48, k = 160;
  Matrix const a(m, k, 1), b(n, k, 2);
  float const alpha = 1.0f / (a.global_scale * b.global_scale);
  std::vector<float> d(static_cast<size_t>(m * n), NAN);

  auto gemm = fp4aot::params<fp4aot_gemm_params>(kCpu);
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.a_codes = a.codes.get();
  gemm.a_stride = gemm.b_stride = k / 2;
  gemm.a_scales = a.scales.get();
  gemm.a_scales_bytes = a.scales_bytes;
  gemm.b_codes = b.codes.get();
  gemm.b_scales = b.scales.get();
  gemm.b_scales_bytes = b.scales_bytes;
  gemm.alpha = &alpha;
  gemm.d = d.data();
  gemm.d_stride = n;
  gemm.d_dtype = gemm.bias_dtype = FP4AOT_FP32;
  auto const workspace = aligned(static_cast<int64_t>(fp4aot::gemm_nvfp4_workspace_size(gemm)) + 1);
  gemm.workspace = workspace.get();
  gemm.workspace_bytes = fp4aot::gemm_nvfp4_workspace_size(gemm);
  fp4aot::gemm_nvfp4(gemm);

  std::vector<double> quantised(d.size()), exact(d.size());
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) {
      for (int64_t l = 0; l < k; l++) {
        auto const x = static_cast<size_t>(i * k + l), y = static_cast<size_t>(j * k + l);
        quantised[static_cast<size_t>(i * n + j)] += static_cast<double>(a.back[x]) * b.back[y];
        exact[static_cast<size_t>(i * n + j)] += static_cast<double>(a.values[x]) * b.values[y];
      }
    }
  }
  double const of_product = relative_error(d, quantised), of_fp4 = relative_error(d, exact);
  std::printf("error of the product %.2g, with that of FP4 %.2g, tactics %zu\n", of_product, of_fp4,
              fp4aot::list_tactics(FP4AOT_OP_gemm_nvfp4, gemm).size());

  bool threw = false;
  gemm.k = 33;
  try {
    fp4aot::gemm_nvfp4(gemm);
  } catch (fp4aot::Error const& error) {
    threw = error.status() == FP4AOT_INVALID_ARGUMENT && std::string(error.what()).find("k = 33") != std::string::npos;
  }
  return of_product < 1e-6 && of_fp4 > 0.01 && of_fp4 < 0.2 && threw ? 0 : 1;
}
