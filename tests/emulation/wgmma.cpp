// Runs the warp-specialised W4A4 kernel (kernels/gemm/wgmma.cuh) on the emulated machine.
#include "kernels/gemm/wgmma.cuh"

#include "problem.h"

namespace {

using fp4aot::Format;

// As wgmma_launch.cuh encodes them.
CUtensorMap map_of_codes(Operand const& operand, int rows, int k, int box_rows, int box_bytes, bool swizzle64) {
  machine::TensorMap const map = {operand.codes.data(),     1,        {k / 2, rows, 1}, {operand.stride, 0},
                                  {box_bytes, box_rows, 1}, swizzle64};
  CUtensorMap encoded = {};
  std::memcpy(&encoded, &map, sizeof map);
  return encoded;
}

CUtensorMap map_of_scales(Operand const& operand, int rows, int atoms, int box_atoms, int box_row_blocks) {
  int const row_blocks = (rows + fp4aot::kScaleAtomRows - 1) / fp4aot::kScaleAtomRows;
  machine::TensorMap const map = {operand.scales.data(),
                                  4,
                                  {fp4aot::kScaleAtomBytes / 4, atoms, row_blocks},
                                  {fp4aot::kScaleAtomBytes, int64_t{atoms} * fp4aot::kScaleAtomBytes},
                                  {fp4aot::kScaleAtomBytes / 4, box_atoms, box_row_blocks},
                                  false};
  CUtensorMap encoded = {};
  std::memcpy(&encoded, &map, sizeof map);
  return encoded;
}

// ctas: how many take the tiles in turn, if splits is 1; they run one after another, as they share nothing.
template <Format kFormat, int kTokens>
void run(Problem const& problem, int splits, int ctas) {
  using Config = fp4aot::WgmmaConfig<kFormat, kTokens>;
  int const m = problem.m, n = problem.n, k = problem.k;
  int const atoms = (k / fp4aot::kVector<kFormat> + fp4aot::kScaleAtomColumns - 1) / fp4aot::kScaleAtomColumns;
  Output output(problem, machine::random_below(3) * 2, machine::random_below(2));
  fp4aot::WgmmaGemmArgs args = {};
  static_cast<fp4aot::GemmArgs&>(args) = output.arguments();
  args.a_map = map_of_codes(problem.a, m, k, kTokens, Config::kStepBytes, true);
  args.b_map = map_of_codes(problem.b, n, k, Config::kRows, Config::kStepBytes, false);
  args.a_scale_map = map_of_scales(problem.a, m, atoms, Config::kAtoms, 1);
  args.b_scale_map = map_of_scales(problem.b, n, atoms, Config::kAtoms, 2);
  args.m_tiles = (m + kTokens - 1) / kTokens;
  args.n_tiles = (n + Config::kRows - 1) / Config::kRows;
  args.tiles = args.m_tiles * args.n_tiles;
  args.steps = (k + Config::kStepValues - 1) / Config::kStepValues;
  args.splits = splits;
  int const blocks = splits > 1 ? args.tiles * splits : min(args.tiles, ctas);
  machine::block_dim = dim3(Config::kThreads);
  machine::grid_dim = dim3(blocks);
  for (int block = 0; block < blocks; block += splits) {
    machine::run_cluster(splits, block, Config::kSharedBytes, [&] { fp4aot::wgmma_gemm_kernel<Config>(args); });
  }
  char name[64];
  std::snprintf(name, sizeof name, "wgmma, %s, %d tokens, %d splits, %d CTAs",
                kFormat == Format::kNvfp4 ? "nvfp4" : "mxfp4", kTokens, splits, blocks);
  output.check(name);
}

template <Format kFormat>
void run_all() {
  {
    Problem const problem(kFormat, 3, 72, 96);
    run<kFormat, 32>(problem, 1, 1);
    run<kFormat, 64>(problem, 1, 1);
    run<kFormat, 128>(problem, 1, 1);
  }
  {  // several tiles, some for the same CTA; and fewer steps a CTA than slots
    Problem const problem(kFormat, 70, 264, 416);
    run<kFormat, 32>(problem, 1, 2);
    run<kFormat, 32>(problem, 3, 0);
    run<kFormat, 64>(problem, 2, 0);
    run<kFormat, 128>(problem, 3, 0);
  }
  {  // the rings turn over
    Problem const problem(kFormat, 40, 136, 2080);
    run<kFormat, 32>(problem, 1, 1);
    run<kFormat, 64>(problem, 1, 1);
    run<kFormat, 128>(problem, 1, 1);
    run<kFormat, 64>(problem, 5, 0);
  }
  {  // more than a group of tiles
    Problem const problem(kFormat, 260, 280, 672);
    run<kFormat, 32>(problem, 1, 2);
    run<kFormat, 128>(problem, 1, 2);
  }
}

}  // namespace

int main(int count, char** arguments) {
  start_program(count, arguments);
  run_all<Format::kNvfp4>();
  run_all<Format::kMxfp4>();
}
