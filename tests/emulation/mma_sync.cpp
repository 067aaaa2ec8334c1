// Runs the W4A4 kernel for few rows (kernels/gemm/mma_sync.cuh) on the emulated machine.
#include "kernels/gemm/mma_sync.cuh"

#include "problem.h"

namespace {

using fp4aot::Format;

// As mma_sync_launch.cuh launches it.
template <Format kFormat, int kUnits, int kTokenTiles>
void run(Problem const& problem, int warps) {
  using Config = fp4aot::MmaSyncConfig<kFormat, kUnits, kTokenTiles>;
  Output output(problem, machine::random_below(2) * 3, machine::random_below(2));
  fp4aot::GemmArgs const args = output.arguments();
  int const steps = (problem.k + Config::kStep - 1) / Config::kStep,
            most = warps < Config::kMaxWarps ? warps : Config::kMaxWarps;
  int const turns = (steps + most - 1) / most, used = (steps + turns - 1) / turns;
  int const units = (problem.n + fp4aot::kScaleAtomRows - 1) / fp4aot::kScaleAtomRows * (fp4aot::kScaleAtomRows / 8);
  machine::block_dim = dim3(32 * used);
  machine::grid_dim = dim3((units + kUnits - 1) / kUnits, (problem.m + Config::kTokens - 1) / Config::kTokens);
  int const blocks = static_cast<int>(machine::grid_dim.x * machine::grid_dim.y);
  for (int block = 0; block < blocks; ++block) {
    machine::run_cluster(1, block, Config::shared_bytes(used), [&] { fp4aot::mma_sync_gemm_kernel<Config>(args); });
  }
  char name[64];
  std::snprintf(name, sizeof name, "mma_sync, %s, %d x %d, %d warps", kFormat == Format::kNvfp4 ? "nvfp4" : "mxfp4",
                Config::kRows, Config::kTokens, used);
  output.check(name);
}

template <Format kFormat>
void run_all() {
  {
    Problem const problem(kFormat, 3, 72, 96);
    run<kFormat, 4, 1>(problem, 8);
    run<kFormat, 7, 4>(problem, 16);
  }
  {
    Problem const problem(kFormat, 20, 264, 416);
    run<kFormat, 7, 1>(problem, 2);
    run<kFormat, 4, 2>(problem, 16);
    run<kFormat, 4, 4>(problem, 8);
  }
  {
    Problem const problem(kFormat, 37, 136, 1056);
    run<kFormat, 4, 1>(problem, 2);
    run<kFormat, 7, 2>(problem, 2);
    run<kFormat, 4, 4>(problem, 16);
    run<kFormat, 7, 4>(problem, 16);
  }
}

// Scales of MXFP4 for which fp16 operands just do, and rows of scales below and above.
void run_scales() {
  for (std::pair<int, int> const scales : {std::pair<int, int>(105, 25), {100, 30}, {105, 26}}) {
    Problem const problem(Format::kMxfp4, 29, 96, 288, 0, scales);
    run<Format::kMxfp4, 4, 1>(problem, 2);
    run<Format::kMxfp4, 7, 4>(problem, 16);
  }
}

}  // namespace

int main(int count, char** arguments) {
  start_program(count, arguments);
  run_all<Format::kNvfp4>();
  run_all<Format::kMxfp4>();
  run_scales();
}
