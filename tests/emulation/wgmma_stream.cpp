// Runs the W4A4 kernel for few rows (kernels/gemm/wgmma_stream.cuh) on the emulated machine.
#include "kernels/gemm/wgmma_stream.cuh"

#include "problem.h"

namespace {

using fp4aot::Format;

// As wgmma_stream_launch.cuh launches it.
template <Format kFormat, int kRows, int kTokens, int kSlots = 3>
void run(Problem const& problem, int slices) {
  using Config = fp4aot::WgmmaStreamConfig<kFormat, kRows, kTokens, kSlots>;
  Output output(problem, machine::random_below(2) * 3, machine::random_below(2));
  fp4aot::WgmmaStreamArgs args = {};
  args.gemm = output.arguments();
  int64_t const columns = problem.k / fp4aot::kVector<kFormat>;
  args.scale_block = fp4aot::round_up(columns, fp4aot::kScaleAtomColumns) * fp4aot::kScaleAtomRows;
  args.steps = (problem.k + Config::kStep - 1) / Config::kStep;
  args.slice_steps = (args.steps + slices - 1) / slices;
  int64_t const rows = fp4aot::round_up(problem.n, fp4aot::kScaleAtomRows);
  machine::block_dim = dim3(Config::kThreads);
  machine::grid_dim =
      dim3(slices, static_cast<unsigned>((rows + kRows - 1) / kRows), (problem.m + kTokens - 1) / kTokens);
  int const clusters = static_cast<int>(machine::grid_dim.y * machine::grid_dim.z);
  for (int cluster = 0; cluster < clusters; ++cluster) {
    machine::run_cluster(slices, cluster * slices, Config::shared_bytes(slices),
                         [&] { fp4aot::wgmma_stream_gemm_kernel<Config>(args); });
  }
  char name[64];
  std::snprintf(name, sizeof name, "wgmma_stream, %s, %d x %d, %d slices",
                kFormat == Format::kNvfp4 ? "nvfp4" : "mxfp4", kRows, kTokens, slices);
  output.check(name);
}

template <Format kFormat>
void run_all() {
  {
    Problem const problem(kFormat, 3, 72, 96);
    run<kFormat, 64, 16>(problem, 1);
    run<kFormat, 256, 64>(problem, 3);
  }
  {
    Problem const problem(kFormat, 20, 264, 416);
    run<kFormat, 128, 16>(problem, 2);
    run<kFormat, 256, 32>(problem, 1);
  }
  {
    Problem const problem(kFormat, 37, 136, 1056);  // more steps than the rings have
    run<kFormat, 128, 64, 4>(problem, 1);
    run<kFormat, 64, 32>(problem, 3);
  }
}

}  // namespace

int main(int count, char** arguments) {
  start_program(count, arguments);
  run_all<Format::kNvfp4>();
  run_all<Format::kMxfp4>();
}
