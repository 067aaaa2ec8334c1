// Runs the warp-specialised W4A4 kernel (kernels/gemm/wgmma.cuh), and the one before it that expands activations
// (kernels/gemm/expand.cuh), on the emulated machine.
#include "kernels/gemm/wgmma.cuh"
// Not first: the kernels' headers take their language from the device/ beside this file.
#include "kernels/gemm/expand.cuh"
#include "problem.h"
#include "wgmma_launch.h"

namespace {

using fp4aot::Format;

CUtensorMap map_of_scales(Operand const& operand, int rows, int atoms, int box_atoms) {
  int const row_blocks = (rows + fp4aot::kScaleAtomRows - 1) / fp4aot::kScaleAtomRows;
  return encoded({operand.scales.data(),
                  4,
                  {fp4aot::kScaleAtomBytes / 4, atoms, row_blocks},
                  {fp4aot::kScaleAtomBytes, int64_t{atoms} * fp4aot::kScaleAtomBytes},
                  {fp4aot::kScaleAtomBytes / 4, box_atoms, 1},
                  false});
}

template <Format kFormat>
void run_expansion(Problem const& problem, Workspace& workspace, bool few) {
  fp4aot::ExpandArgs args = {};
  args.codes = problem.a.codes.data();
  args.stride = problem.a.stride;
  args.scales = problem.a.scales.data();
  args.m = problem.m;
  args.rows = workspace.sizes.padded_rows;
  args.row_mask = few ? 3 : 0;
  args.k = problem.k;
  args.blocks = (problem.k + fp4aot::kExpandBlock - 1) / fp4aot::kExpandBlock;
  args.out = workspace.begin();
  args.counters = workspace.counters();
  args.counter_count = static_cast<int32_t>(workspace.sizes.counter_bytes / 4);
  int const warps = fp4aot::kExpandThreads / 32, strips = static_cast<int>(fp4aot::expand_strips(args.rows));
  machine::block_dim = dim3(fp4aot::kExpandThreads);
  machine::grid_dim = dim3((args.blocks + fp4aot::kExpandWarpBlocks - 1) / fp4aot::kExpandWarpBlocks,
                           (strips + warps - 1) / warps, few ? 4 : 1);
  int const blocks = static_cast<int>(machine::grid_dim.x * machine::grid_dim.y * machine::grid_dim.z);
  for (int block = 0; block < blocks; ++block) {
    machine::run_cluster(1, block, warps * fp4aot::kExpandWarpBytes,
                         [&] { fp4aot::expand_activations_kernel<kFormat>(args); });
  }
}

// sms: of the machine. aligned: results of 16 bits go through shared memory.
template <Format kFormat, int kTokens>
void run(Problem const& problem, bool cut, int sms, int32_t dtype, bool aligned = false, bool along_n = false) {
  using Config = fp4aot::WgmmaConfig<kFormat, kTokens>;
  int const m = problem.m, n = problem.n, k = problem.k;
  int const atoms = (k / fp4aot::kVector<kFormat> + fp4aot::kScaleAtomColumns - 1) / fp4aot::kScaleAtomColumns;
  Workspace workspace(fp4aot::wgmma_workspace<Config>(m, k, cut, sms));
  run_expansion<kFormat>(problem, workspace, cut);

  Output output(problem, aligned ? machine::random_below(2) * 8 : 3, aligned ? 0 : machine::random_below(2), dtype);
  fp4aot::WgmmaGemmArgs args = {};
  static_cast<fp4aot::GemmArgs&>(args) = output.arguments();
  args.schedule = fp4aot::schedule_tiles(m, n, k, kTokens,
                                         {cut ? fp4aot::TileSharing::kCut : fp4aot::TileSharing::kNone, along_n}, sms);
  args.divisors = fp4aot::TileDivisors(args.schedule, kTokens);
  args.partials = workspace.partials();
  args.counters = workspace.counters();
  args.staged = dtype != FP4AOT_FP32 && reinterpret_cast<uintptr_t>(args.d) % 16 == 0 && args.d_stride % 8 == 0;
  int64_t const values = int64_t{args.schedule.steps} * Config::kStepValues;
  args.a_map = map_of_rows(workspace.begin(), 2, workspace.sizes.padded_rows, values, values * 2,
                           kTokens / args.schedule.pair, 64, true);
  args.b_map = map_of_rows(problem.b.codes.data(), 1, n, k / 2, problem.b.stride, Config::kRows,
                           Config::Weights::kStepBytes, false);
  args.b_scale_map = map_of_scales(problem.b, n, atoms, Config::Weights::kAtoms);
  if (args.staged) args.d_map = map_of_rows(args.d, 2, m, n, args.d_stride * 2, kTokens, 64, true);

  if (cut) {
    run_clusters<fp4aot::CutTiles<Config>>(args, workspace);
  } else {
    run_clusters<Config>(args, workspace);
  }
  char name[96];
  std::snprintf(name, sizeof name, "wgmma, %s, %d tokens, %s%s, %d clusters of %d, %s",
                kFormat == Format::kNvfp4 ? "nvfp4" : "mxfp4", kTokens,
                args.schedule.whole < args.schedule.tiles ? "cut" : "whole", along_n ? ", along n" : "",
                args.schedule.clusters, args.schedule.pair, args.staged ? "staged" : "direct");
  output.check(name);
}

template <Format kFormat>
void run_all() {
  {
    Problem const problem(kFormat, 3, 72, 96);
    run<kFormat, 64>(problem, false, 1, FP4AOT_FP32);
    run<kFormat, 256>(problem, true, 3, FP4AOT_BF16, true);
  }
  {  // several tiles, for pairs of CTAs, some for the same pair
    Problem const problem(kFormat, 150, 264, 416);
    run<kFormat, 64>(problem, false, 4, FP4AOT_BF16, true);
    run<kFormat, 128>(problem, false, 1, FP4AOT_FP16);
    run<kFormat, 64>(problem, true, 5, FP4AOT_FP32);
  }
  {  // whole and shared tiles; an odd column of tiles
    Problem const problem(kFormat, 300, 136, 544);
    run<kFormat, 128>(problem, true, 4, FP4AOT_FP32, false, true);
    run<kFormat, 64>(problem, true, 6, FP4AOT_BF16, true);
    run<kFormat, 192>(problem, true, 2, FP4AOT_BF16);
    run<kFormat, 256>(problem, false, 2, FP4AOT_FP16, true, true);
  }
  {  // clusters that help with one tile, have whole ones, and own another
    Problem const problem(kFormat, 300, 136, 2080);
    run<kFormat, 128>(problem, true, 4, FP4AOT_BF16, true, true);
    run<kFormat, 64>(problem, true, 6, FP4AOT_FP32);
  }
  {  // the rings turn over; one tile for many clusters
    Problem const problem(kFormat, 40, 136, 2080);
    run<kFormat, 64>(problem, true, 10, FP4AOT_FP16);
    run<kFormat, 128>(problem, true, 6, FP4AOT_BF16, true);
    run<kFormat, 192>(problem, false, 2, FP4AOT_FP16, true);
    run<kFormat, 256>(problem, true, 7, FP4AOT_BF16);
  }
}

}  // namespace

int main(int count, char** arguments) {
  start_program(count, arguments);
  run_all<Format::kNvfp4>();
  run_all<Format::kMxfp4>();
}
