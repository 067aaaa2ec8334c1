// Runs the W4A4 kernels for few rows (kernels/gemm/wgmma_stream.cuh, wgmma_stream_cut.cuh), and the one before them that
// expands activations (kernels/gemm/stream_operands.cuh), on the emulated machine.
#include "kernels/gemm/wgmma_stream_cut.cuh"

#include "problem.h"

namespace {

using fp4aot::Format;

template <class Config>
struct Run {
  Problem const& problem;
  Output output;
  int steps;
  std::vector<uint8_t> operands;
  std::vector<float> partials;
  std::vector<uint32_t> counters;

  // As wgmma_stream_launch.cuh lays the workspace out. partial_floats, counts: in it.
  Run(Problem const& problem, int64_t partial_floats, int64_t counts)
      : problem(problem),
        output(problem, machine::random_below(2) * 3, machine::random_below(2)),
        steps(fp4aot::round_up(problem.k, Config::kStep * Config::kDepthGroups) / Config::kStep),
        operands((problem.m + Config::kTokens - 1) / Config::kTokens * int64_t{steps} * Config::kOperandBytes, 0xFF),
        partials(partial_floats, NAN),
        counters(counts, ~0u) {}

  template <class Args>
  Args arguments() {
    Args args = {};
    args.gemm = output.arguments();
    int64_t const columns = problem.k / fp4aot::kVector<Config::kFormat>;
    args.scale_block = fp4aot::round_up(columns, fp4aot::kScaleAtomColumns) * fp4aot::kScaleAtomRows;
    args.operands = operands.data();
    return args;
  }

  void expand(fp4aot::StreamArgs const& product) {
    fp4aot::StreamExpandArgs args = {};
    args.codes = product.gemm.a_codes;
    args.stride = product.gemm.a_stride;
    args.scales = product.gemm.a_scales;
    args.scale_block = product.scale_block;
    args.m = problem.m;
    args.k = problem.k;
    args.steps = steps;
    args.block_tiles = Config::kTokenTiles;
    args.out = operands.data();
    args.counters = counters.data();
    args.counter_count = static_cast<int32_t>(counters.size());
    int const tiles = (problem.m + Config::kTokens - 1) / Config::kTokens * Config::kTokenTiles;
    machine::block_dim = dim3(32 * fp4aot::kStreamExpandWarps);
    machine::grid_dim = dim3((steps + fp4aot::kStreamExpandWarps - 1) / fp4aot::kStreamExpandWarps, tiles);
    for (unsigned cta = 0; cta < machine::grid_dim.x * machine::grid_dim.y; ++cta) {
      machine::run_cluster(1, static_cast<int>(cta), 16,
                           [&] { fp4aot::expand_stream_operands_kernel<Config::kFormat>(args); });
    }
  }

  // Clusters of `size`, in a random order: none waits for another.
  void launch(dim3 grid, int size, size_t shared_bytes, std::function<void()> const& kernel, char const* how) {
    size_t const before = machine::operands.size();
    auto const add = [&](auto& values) {
      auto* const bytes = reinterpret_cast<uint8_t const*>(values.data());
      machine::operands.emplace_back(bytes, bytes + values.size() * sizeof values[0]);
    };
    add(operands), add(partials), add(counters);
    machine::block_dim = dim3(Config::kThreads);
    machine::grid_dim = grid;
    int const clusters = static_cast<int>(grid.x * grid.y * grid.z) / size;
    std::vector<int> order;
    for (int cluster = 0; cluster < clusters; ++cluster)
      order.insert(order.begin() + machine::random_below(cluster + 1), cluster);
    for (int cluster : order) machine::run_cluster(size, cluster * size, shared_bytes, kernel);
    machine::operands.resize(before);
    char name[96];
    std::snprintf(name, sizeof name, "wgmma_stream, %s, %d x %d, %s, %d CTAs",
                  Config::kFormat == Format::kNvfp4 ? "nvfp4" : "mxfp4", Config::kRows, Config::kTokens, how,
                  clusters * size);
    output.check(name);
  }
};

template <Format kFormat, int kRows, int kTokens, int kSlots = 3>
void run(Problem const& problem, int slices) {
  using Config = fp4aot::WgmmaStreamConfig<kFormat, kRows, kTokens, kSlots>;
  Run<Config> run(problem, 0, 0);
  auto args = run.template arguments<fp4aot::WgmmaStreamArgs>();
  args.steps = run.steps;
  args.slice_steps = (args.steps + slices - 1) / slices;
  run.expand(args);
  int64_t const rows = fp4aot::round_up(problem.n, fp4aot::kScaleAtomRows);
  dim3 const grid(slices, static_cast<unsigned>((rows + kRows - 1) / kRows), (problem.m + kTokens - 1) / kTokens);
  run.launch(
      grid, slices, Config::shared_bytes(slices), [&] { fp4aot::wgmma_stream_gemm_kernel<Config>(args); }, "slices");
}

// sms: of the machine.
template <Format kFormat, int kRows, int kTokens, int kSlots = 3>
void run_cut(Problem const& problem, int sms) {
  using Config = fp4aot::WgmmaStreamConfig<kFormat, kRows, kTokens, kSlots>;
  using Cut = fp4aot::StreamCut<Config>;
  auto const schedule = fp4aot::stream_schedule(problem.m, problem.n, problem.k, kRows, kTokens, sms);
  Run<Config> run(problem, int64_t{fp4aot::kStreamMaxParts} * schedule.ctas() * Config::kWarps * Cut::kShare * 128,
                  schedule.tiles * Config::kWarps);
  auto args = run.template arguments<fp4aot::WgmmaStreamCutArgs>();
  args.schedule = schedule;
  args.rounds = fp4aot::Divisor(schedule.rounds);
  args.range = fp4aot::Divisor(schedule.range);
  args.token_blocks = fp4aot::Divisor(schedule.token_blocks);
  args.partials = run.partials.data();
  args.counters = run.counters.data();
  run.expand(args);
  run.launch(
      dim3(schedule.ctas()), 1, Cut::kSharedBytes, [&] { fp4aot::wgmma_stream_cut_gemm_kernel<Config>(args); }, "cut");
}

template <Format kFormat>
void run_all() {
  {
    Problem const problem(kFormat, 3, 72, 96);
    run<kFormat, 64, 16>(problem, 1);
    run<kFormat, 256, 64>(problem, 3);  // slices without any steps
  }
  {
    Problem const problem(kFormat, 20, 264, 416);
    run<kFormat, 128, 16>(problem, 2);
    run<kFormat, 256, 32>(problem, 1);
    run_cut<kFormat, 128, 32>(problem, 5);
  }
  {
    Problem const problem(kFormat, 37, 136, 1056);  // more steps than the rings have
    run<kFormat, 128, 64, 4>(problem, 1);
    run<kFormat, 64, 32>(problem, 3);
    run_cut<kFormat, 128, 16>(problem, 4);  // more than a tile a CTA, and several blocks of tokens
    run_cut<kFormat, 128, 32>(problem, 3);
  }
}

}  // namespace

int main(int count, char** arguments) {
  start_program(count, arguments);
  run_all<Format::kNvfp4>();
  run_all<Format::kMxfp4>();
}
