// FP4 weights as a checkpoint holds them, prepared, multiplied with bf16 activations on the CPU and restored, through the
// C++ header alone, in both formats. Exits 1 if a product or a restored byte is wrong, or if a bad call does not throw.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.hpp"

namespace {

constexpr fp4aot_device kCpu = {FP4AOT_CPU, 0};

struct Format {
  fp4aot_op prepare, gemm;
  void (*run_prepare)(fp4aot_w4a16_weights_params const&);
  void (*run_restore)(fp4aot_w4a16_weights_params const&);
  void (*run_gemm)(fp4aot_gemm_w4a16_params const&);
  size_t (*workspace_size)(fp4aot_gemm_w4a16_params const&);
  int64_t k, vector;
  uint8_t least_scale;
  float (*scale_value)(uint8_t);
};

constexpr Format kFormats[] = {
    {FP4AOT_OP_prepare_w4a16_nvfp4, FP4AOT_OP_gemm_w4a16_nvfp4, fp4aot::prepare_w4a16_nvfp4,
     fp4aot::restore_w4a16_nvfp4, fp4aot::gemm_w4a16_nvfp4, fp4aot::gemm_w4a16_nvfp4_workspace_size, 80,
     fp4aot::kNvfp4Vector, 0x30, fp4aot::e4m3_to_float},
    {FP4AOT_OP_prepare_w4a16_mxfp4, FP4AOT_OP_gemm_w4a16_mxfp4, fp4aot::prepare_w4a16_mxfp4,
     fp4aot::restore_w4a16_mxfp4, fp4aot::gemm_w4a16_mxfp4, fp4aot::gemm_w4a16_mxfp4_workspace_size, 96,
     fp4aot::kMxfp4Vector, 120, [](uint8_t byte) { return std::ldexp(1.0f, byte - 127); }},
};

class Random {
 public:
  explicit Random(uint32_t seed) : state_(seed) {}
  uint8_t byte() { return static_cast<uint8_t>((state_ = state_ * 1664525u + 1013904223u) >> 24); }

 private:
  uint32_t state_;
};

float bf16_value(uint16_t bits) {
  uint32_t const wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Memory at a multiple of 64 bytes, filled with a byte.
std::unique_ptr<uint8_t, Free> aligned(int64_t bytes, int filling) {
  size_t const size = static_cast<size_t>(fp4aot::round_up(bytes + 1, 64));
  auto* const memory = static_cast<uint8_t*>(std::aligned_alloc(64, size));
  std::memset(memory, filling, size);
  return std::unique_ptr<uint8_t, Free>(memory);
}

bool all_right(Format const& format) {
  int64_t const m = 5, n = 24, k = format.k, columns = k / format.vector;
  Random random(7);
  std::vector<uint8_t> codes(static_cast<size_t>(n * k / 2)), scales(static_cast<size_t>(n * columns));
  for (uint8_t& pair : codes) pair = random.byte();
  for (uint8_t& scale : scales) scale = static_cast<uint8_t>(format.least_scale + random.byte() % 16);

  int64_t const bytes = fp4aot::w4a16_prepared_bytes(format.prepare, n, k);
  auto const prepared = aligned(bytes, 0xFF);
  auto weights = fp4aot::params<fp4aot_w4a16_weights_params>(kCpu);
  weights.scale_layout = FP4AOT_SCALES_LINEAR;
  weights.n = n;
  weights.k = k;
  weights.codes = codes.data();
  weights.codes_stride = k / 2;
  weights.scales = scales.data();
  weights.scales_stride = columns;
  weights.scales_bytes = static_cast<int64_t>(scales.size());
  weights.prepared = prepared.get();
  weights.prepared_bytes = bytes;
  format.run_prepare(weights);

  std::vector<uint8_t> codes_back(codes.size()), scales_back(scales.size());
  auto restored = weights;
  restored.codes = codes_back.data();
  restored.scales = scales_back.data();
  format.run_restore(restored);
  bool right = codes_back == codes && scales_back == scales;

  auto const a = aligned(m * k * 2, 0);
  auto* const a_bits = reinterpret_cast<uint16_t*>(a.get());
  for (int64_t i = 0; i < m * k; i++) {  // +-[1, 2)
    a_bits[i] = static_cast<uint16_t>(0x3F80 | (random.byte() & 0x7F) | (random.byte() & 1) << 15);
  }
  float const alpha = 0.25f;
  std::vector<float> bias(static_cast<size_t>(n)), d(static_cast<size_t>(m * n), NAN);
  for (float& value : bias) value = static_cast<float>(random.byte());
  auto gemm = fp4aot::params<fp4aot_gemm_w4a16_params>(kCpu);
  gemm.m = m;
  gemm.n = n;
  gemm.k = gemm.a_stride = k;
  gemm.a = a.get();
  gemm.a_dtype = FP4AOT_BF16;
  gemm.prepared = prepared.get();
  gemm.prepared_bytes = bytes;
  gemm.alpha = &alpha;
  gemm.bias = bias.data();
  gemm.d = d.data();
  gemm.d_stride = n;
  gemm.d_dtype = gemm.bias_dtype = FP4AOT_FP32;
  size_t const workspace_bytes = format.workspace_size(gemm);
  auto const workspace = aligned(static_cast<int64_t>(workspace_bytes), 0);
  gemm.workspace = workspace.get();
  gemm.workspace_bytes = workspace_bytes;
  format.run_gemm(gemm);

  double worst = 0;
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) {
      double sum = 0, magnitude = 0;
      for (int64_t l = 0; l < k; l++) {
        uint8_t const pair = codes[static_cast<size_t>((j * k + l) / 2)];
        double const weight = static_cast<double>(fp4aot::e2m1_to_float(l % 2 == 0 ? pair & 15 : pair >> 4)) *
                              format.scale_value(scales[static_cast<size_t>(j * columns + l / format.vector)]);
        double const product = alpha * bf16_value(a_bits[i * k + l]) * weight;
        sum += product;
        magnitude += std::abs(product);
      }
      double const wanted = sum + bias[static_cast<size_t>(j)];
      double const error = std::abs(d[static_cast<size_t>(i * n + j)] - wanted) / (magnitude + std::abs(wanted));
      worst = std::isnan(error) ? error : std::max(worst, error);
    }
  }
  right = right && worst < 1e-6;
  std::printf("%s: %lld bytes, error %.2g, tactics %zu\n", fp4aot_op_name(format.gemm), static_cast<long long>(bytes),
              worst, fp4aot::list_tactics(format.gemm, gemm).size());

  gemm.prepared_bytes = bytes - 1;
  try {
    format.run_gemm(gemm);
  } catch (fp4aot::Error const& error) {
    return right && error.status() == FP4AOT_INVALID_ARGUMENT &&
           std::string(error.what()).find("prepared has " + std::to_string(bytes - 1) + " bytes") != std::string::npos;
  }
  return false;
}

}  // namespace

int main() {
  bool const nvfp4 = all_right(kFormats[0]), mxfp4 = all_right(kFormats[1]);
  return nvfp4 && mxfp4 ? 0 : 1;
}
