// Times the quantise family of the sm90a image on the current GPU, each op beside a device copy that moves as many
// bytes and beside an empty kernel. Build and run:
//   nvcc -std=c++17 -O3 --expt-relaxed-constexpr -gencode arch=compute_90a,code=sm_90a -Isrc/cpp/include -Isrc/cpp
//     benchmarks/quantize_bench.cu src/cpp/images/sm90a/quantize.cu src/cpp/images/sm90a/scales.cu -o quantize_bench
// `quantize_bench small` times the small matrices alone. How it times is in graph_timing.cuh. The percentage is the copy's time over the op's: the fraction of copy bandwidth
// (bytes read plus written) that the op reaches. Times contain the empty kernel's.
#include <cstring>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "graph_timing.cuh"
#include "images/image.h"

namespace fp4aot::ops {
extern Slot const quantize_nvfp4, quantize_mxfp4, silu_mul_quantize_nvfp4, silu_mul_quantize_mxfp4,
    rmsnorm_quantize_nvfp4, dequantize_nvfp4, dequantize_mxfp4, nvfp4_global_scale, swizzle_scales, unswizzle_scales;
}

namespace {

__global__ void fill_kernel(uint16_t* data,
                            size_t count) {  // 16-bit floats of both signs, around 1; fp32 pairs of them
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    uint32_t h = static_cast<uint32_t>(i * 2654435761u) ^ static_cast<uint32_t>(i >> 13) * 2246822519u;
    h = (h ^ h >> 15) * 3266489917u;
    data[i] = static_cast<uint16_t>((h & 0x81FFu) + 0x3E80u);
  }
}

cudaStream_t stream;
constexpr size_t kBytes = size_t{1} << 31;
uint8_t *input, *output, *scales;  // kBytes each
float *global_scale, *workspace;

void launch(fp4aot::Slot const& slot, void const* params) {
  fp4aot::Message message = {};
  if (slot.launch(params, &message) != FP4AOT_OK) {
    std::printf("%s\n", message.text);
    std::exit(1);
  }
}

void report(char const* name, int64_t rows, int64_t k, int64_t bytes, int repeats, std::function<void()> const& op) {
  size_t const half = bytes / 2;
  auto const t =
      bench::medians(stream,
                     {op, [half] { CHECK(cudaMemcpyAsync(output, input, half, cudaMemcpyDeviceToDevice, stream)); },
                      [] { bench::empty_kernel<<<1, 32, 0, stream>>>(); }},
                     repeats);
  std::printf("%-34s %6lld x %-6lld %9.2f us %7.2f TB/s  copy %8.2f us (%.1f %%)  empty %5.2f us (+%.2f)\n", name,
              static_cast<long long>(rows), static_cast<long long>(k), t[0], bytes / t[0] * 1e-6, t[1],
              100 * t[1] / t[0], t[2], t[0] - t[2]);
}

struct Kind {
  char const* name;
  fp4aot::Slot const* slot;
  int vector;
  int inputs;  // row lengths read
  int32_t dtype, layout;
  bool norm;
};

void quantize(Kind const& kind, int64_t rows, int64_t k, int repeats) {
  int64_t const element_bytes = kind.dtype == FP4AOT_FP32 ? 4 : 2;
  fp4aot_quantize_params p = {};
  p.struct_size = sizeof p;
  p.stream = stream;
  p.input_dtype = kind.dtype;
  p.rows = rows;
  p.k = k;
  p.input = input;
  p.input_stride = k * kind.inputs;
  p.global_scale = kind.vector == 16 ? global_scale : nullptr;
  p.codes = output;
  p.codes_stride = k / 2;
  p.scales = scales;
  p.scales_bytes = kBytes;
  p.scale_layout = kind.layout;
  p.weight = kind.norm ? input : nullptr;
  p.epsilon = 1e-5f;
  int64_t const scale_bytes = kind.layout == FP4AOT_SCALES_SWIZZLED
                                  ? fp4aot::swizzled_scale_bytes(rows, k / kind.vector)
                                  : rows * (k / kind.vector);
  report(kind.name, rows, k, rows * k * element_bytes * kind.inputs + rows * k / 2 + scale_bytes, repeats,
         [&] { launch(*kind.slot, &p); });
}

void others(int64_t rows, int64_t k) {
  using namespace fp4aot;
  fp4aot_dequantize_params d = {};
  d.stream = stream;
  d.output_dtype = FP4AOT_BF16;
  d.rows = rows;
  d.k = k;
  d.codes = input;
  d.codes_stride = k / 2;
  d.scales = scales;
  d.global_scale = global_scale;
  d.output = output;
  d.output_stride = k;
  report("dequantize_nvfp4 bf16 swizzled", rows, k, rows * k / 2 + rows * (k / 16) + rows * k * 2, 31,
         [&] { launch(ops::dequantize_nvfp4, &d); });
  fp4aot_global_scale_params g = {};
  g.stream = stream;
  g.input_dtype = FP4AOT_BF16;
  g.rows = rows;
  g.k = k;
  g.input = input;
  g.input_stride = k;
  g.global_scale = workspace;
  g.workspace = workspace + 16;
  report("nvfp4_global_scale bf16", rows, k, rows * k * 2, 31, [&] { launch(ops::nvfp4_global_scale, &g); });
  fp4aot_scale_layout_params s = {};
  s.stream = stream;
  s.rows = rows * 4;
  s.columns = k / 16;
  s.linear = input;
  s.linear_stride = s.columns;
  s.swizzled = scales;
  report("swizzle_scales", s.rows, s.columns, 2 * s.rows * s.columns, 31, [&] { launch(ops::swizzle_scales, &s); });
  s.linear = output;
  report("unswizzle_scales", s.rows, s.columns, 2 * s.rows * s.columns, 31, [&] { launch(ops::unswizzle_scales, &s); });
}

}  // namespace

int main(int count, char** arguments) {
  using namespace fp4aot;
  bool const small = count > 1 && std::strcmp(arguments[1], "small") == 0;
  CHECK(cudaStreamCreate(&stream));
  for (uint8_t** buffer : {&input, &output, &scales}) CHECK(cudaMalloc(buffer, kBytes));
  CHECK(cudaMalloc(&global_scale, 4));
  CHECK(cudaMalloc(&workspace, 65536));
  float const scale = 448.0f * 6 / 8;
  CHECK(cudaMemcpy(global_scale, &scale, 4, cudaMemcpyHostToDevice));
  fill_kernel<<<1056, 256>>>(reinterpret_cast<uint16_t*>(input), kBytes / 2);
  CHECK(cudaDeviceSynchronize());
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  int driver;
  CHECK(cudaDriverGetVersion(&driver));
  std::printf("%s, driver CUDA %d, toolkit %d\n", properties.name, driver, CUDART_VERSION);

  constexpr int32_t kSwizzled = FP4AOT_SCALES_SWIZZLED, kLinear = FP4AOT_SCALES_LINEAR;
  Kind const nvfp4 = {"quantize_nvfp4 bf16 swizzled", &ops::quantize_nvfp4, 16, 1, FP4AOT_BF16, kSwizzled, false};
  Kind const mxfp4 = {"quantize_mxfp4 bf16 swizzled", &ops::quantize_mxfp4, 32, 1, FP4AOT_BF16, kSwizzled, false};
  Kind const silu = {
      "silu_mul_quantize_nvfp4 bf16", &ops::silu_mul_quantize_nvfp4, 16, 2, FP4AOT_BF16, kSwizzled, false};
  Kind const norm = {"rmsnorm_quantize_nvfp4 bf16", &ops::rmsnorm_quantize_nvfp4, 16, 1, FP4AOT_BF16, kSwizzled, true};
  Kind const more[] = {
      {"quantize_nvfp4 bf16 linear", &ops::quantize_nvfp4, 16, 1, FP4AOT_BF16, kLinear, false},
      {"quantize_mxfp4 bf16 linear", &ops::quantize_mxfp4, 32, 1, FP4AOT_BF16, kLinear, false},
      {"quantize_nvfp4 fp16 swizzled", &ops::quantize_nvfp4, 16, 1, FP4AOT_FP16, kSwizzled, false},
      {"quantize_nvfp4 fp32 swizzled", &ops::quantize_nvfp4, 16, 1, FP4AOT_FP32, kSwizzled, false},
      {"quantize_mxfp4 fp32 swizzled", &ops::quantize_mxfp4, 32, 1, FP4AOT_FP32, kSwizzled, false},
      {"silu_mul_quantize_mxfp4 bf16", &ops::silu_mul_quantize_mxfp4, 32, 2, FP4AOT_BF16, kSwizzled, false},
  };
  for (int64_t rows : {8192, 32768}) {
    if (small) break;
    for (Kind const& kind : {nvfp4, mxfp4, silu, norm}) quantize(kind, rows, 8192, 31);
    for (Kind const& kind : more) quantize(kind, rows, 8192, 31);
    others(rows, 8192);
  }
  for (int64_t rows : {1, 8, 16}) {
    for (Kind const& kind : {nvfp4, mxfp4, silu, norm}) quantize(kind, rows, 4096, 201);
    for (Kind const& kind : more) quantize(kind, rows, 4096, 201);
  }
  quantize(nvfp4, 64, 1024, 201);
  for (Kind const& kind : {nvfp4, mxfp4}) quantize(kind, 4, 16384, 201);
  return 0;
}
