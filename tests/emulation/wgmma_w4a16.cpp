// Runs the W4A16 products on the warp-specialised kernel (kernels/gemm/wgmma.cuh with kernels/w4a16/wgmma_weights.cuh), and
// the kernels before it, on the emulated machine.
#include "kernels/gemm/wgmma.cuh"
// Not first: the kernels' headers take their language from the device/ beside this file.
#include "kernels/w4a16/split_activations.cuh"
#include "kernels/w4a16/wgmma_weights.cuh"
#include "wgmma_launch.h"

namespace {

using fp4aot::Format;
using fp4aot::TileSharing;

// Canonical weights in the prepared layout.
std::vector<uint8_t> prepare(Format format, Operand const& weights, int n, int k) {
  int const vector = fp4aot::w4a16_vector(format), columns = k / vector;
  std::vector<uint8_t> prepared(fp4aot::w4a16_prepared_bytes(format, n, k));
  for (int row = 0; row < n; ++row) {
    for (int column = 0; column < k; ++column) {
      uint8_t* const tile = prepared.data() + fp4aot::w4a16_tile_offset(format, row / 16, column / 64, k);
      int const r = row % 16, c = column % 64;
      uint32_t const code = weights.codes[row * weights.stride + column / 2] >> column % 2 * 4 & 15;
      uint32_t* const word = reinterpret_cast<uint32_t*>(tile) + fp4aot::w4a16_code_word(r, c);
      for (int bit = 0; bit < 4; ++bit) {
        uint8_t const to = fp4aot::kW4a16CodeBit[fp4aot::w4a16_code_register(r, c)][column % 2 * 4 + bit];
        *word |= (code >> bit & 1) << to;
      }
      uint8_t const scale = weights.scales[fp4aot::scale_offset(row, column / vector, columns)];
      tile[fp4aot::kW4a16CodeBytes + fp4aot::w4a16_scale_byte(format, r, c / vector)] =
          fp4aot::w4a16_encode_scale(format, scale);
    }
  }
  return prepared;
}

// Activations in 16 bits, whose rows are 8 values more than k apart.
std::vector<uint16_t> activations(Problem const& problem, bool bf16) {
  std::vector<uint16_t> values((problem.m - 1) * (problem.k + 8) + problem.k, 0xFFFF);
  for (int row = 0; row < problem.m; ++row) {
    for (int column = 0; column < problem.k; ++column) {
      float const x = static_cast<float>(problem.a.values[row * problem.k + column]);
      uint32_t bits;
      std::memcpy(&bits, &x, sizeof bits);
      values[row * (problem.k + 8) + column] =
          static_cast<uint16_t>(bf16 ? bits >> 16 : __half_raw(__float2half_rn(x)).x);
    }
  }
  return values;
}

void run_before(fp4aot::SplitArgs const& split, fp4aot::Counters const& counters) {
  machine::block_dim = dim3(split.rows > 0 ? fp4aot::kSplitThreads : fp4aot::kClearThreads);
  machine::grid_dim = dim3(
      split.rows > 0 ? static_cast<unsigned>(split.rows / fp4aot::kSplitRows) * fp4aot::split_ctas(split.steps) : 3);
  for (unsigned block = 0; block < machine::grid_dim.x; ++block) {
    machine::run_cluster(1, static_cast<int>(block), 0, [&] {
      if (split.rows > 0) {
        fp4aot::split_activations_kernel<Format::kMxfp4>(split);
      } else {
        fp4aot::clear_counters_kernel<Format::kNvfp4, true>(counters);
      }
    });
  }
}

// kBf16: the operands' type; a_bf16: that of activations. sms: of the machine. aligned: results of 16 bits go through
// shared memory. As kernels/w4a16/wgmma_launch.cuh launches it.
template <Format kFormat, bool kBf16, int kTokens>
void run(Problem const& problem, bool a_bf16, TileSharing sharing, int sms, int32_t dtype, bool aligned = false,
         bool along_n = false) {
  using Weights = fp4aot::PreparedWeights<kFormat, kBf16>;
  using Config = fp4aot::WgmmaTile<Weights, kTokens, false>;
  int const m = problem.m, n = problem.n, k = problem.k, shift = kBf16 && !a_bf16;
  bool const cut = sharing == TileSharing::kCut;
  int64_t const values = fp4aot::round_up(k, fp4aot::kWgmmaStep) << shift;
  auto const sizes =
      shift ? fp4aot::wgmma_workspace<Config>(m, values, cut, sms) : fp4aot::wgmma_parts_workspace<Config>(cut, sms);
  Workspace workspace(sizes);
  std::vector<uint16_t> const a = activations(problem, a_bf16);
  std::vector<uint8_t> const prepared = prepare(kFormat, problem.b, n, k);
  auto const add_operand = [](auto const& data) {
    auto const* const begin = reinterpret_cast<uint8_t const*>(data.data());
    machine::operands.emplace_back(begin, begin + data.size() * sizeof data[0]);
  };
  add_operand(a), add_operand(prepared);

  fp4aot::Counters const counters = {workspace.counters(), static_cast<int32_t>(sizes.counter_bytes / 4)};
  fp4aot::SplitArgs split = {};
  if (shift) {
    split = {reinterpret_cast<uint8_t const*>(a.data()),        (k + 8) * 2,       m,       sizes.padded_rows, k,
             (k + fp4aot::kWgmmaStep - 1) / fp4aot::kWgmmaStep, workspace.begin(), counters};
  }
  if (shift || cut) run_before(split, counters);

  Output output(problem, aligned ? machine::random_below(2) * 8 : 3, aligned ? 0 : machine::random_below(2), dtype);
  fp4aot::WgmmaGemmArgs args = {};
  static_cast<fp4aot::GemmArgs&>(args) = output.arguments();
  args.schedule = fp4aot::schedule_tiles(m, n, values, kTokens, {sharing, along_n}, sms);
  args.divisors = fp4aot::TileDivisors(args.schedule, kTokens);
  args.partials = workspace.partials();
  args.counters = workspace.counters();
  args.weight_shift = shift;
  args.staged = dtype != FP4AOT_FP32 && reinterpret_cast<uintptr_t>(args.d) % 16 == 0 && args.d_stride % 8 == 0;
  int const box_rows = kTokens / args.schedule.pair;
  args.a_map = shift ? map_of_rows(workspace.begin(), 2, sizes.padded_rows, values, values * 2, box_rows, 64, true)
                     : map_of_rows(a.data(), 2, m, k, (k + 8) * 2, box_rows, 64, true);
  int64_t const row_tile_bytes = fp4aot::w4a16_k_tiles(k) * Weights::kTileBytes;
  args.b_map = map_of_rows(prepared.data(), Weights::kElementBytes, fp4aot::w4a16_row_tiles(n),
                           row_tile_bytes / Weights::kElementBytes, row_tile_bytes, Weights::kRowTiles,
                           Weights::kBoxColumns, false);
  if (args.staged)
    args.d_map = map_of_rows(args.d, 2, m, n, args.d_stride * 2, kTokens / args.schedule.split, 64, true);
  if (cut) {
    run_clusters<fp4aot::CutTiles<Config>>(args, workspace);
  } else {
    run_clusters<Config>(args, workspace);
  }
  machine::operands.resize(machine::operands.size() - 2);

  char name[96];
  std::snprintf(name, sizeof name, "w4a16, %s, %s, %d tokens, %s, %d clusters of %d, %s",
                kFormat == Format::kNvfp4 ? "nvfp4" : "mxfp4",
                a_bf16  ? "bf16"
                : kBf16 ? "split fp16"
                        : "fp16",
                kTokens,
                args.schedule.split > 1                     ? "split"
                : args.schedule.whole < args.schedule.tiles ? "cut"
                                                            : "whole",
                args.schedule.clusters, args.schedule.ctas(), args.staged ? "staged" : "direct");
  output.check(name);
}

// fp16 activations have 11 significant bits, so that splitting them leaves a rest.
template <Format kFormat, bool kBf16>
void run_all(bool a_bf16) {
  int const bits = a_bf16 ? 0 : kFormat == Format::kNvfp4 ? 4 : 8;
  {
    Problem const problem(kFormat, 3, 72, 96, bits);
    run<kFormat, kBf16, 64>(problem, a_bf16, TileSharing::kNone, 1, FP4AOT_FP32);
    run<kFormat, kBf16, 256>(problem, a_bf16, TileSharing::kCut, 3, FP4AOT_BF16, true);
  }
  {  // whole and shared tiles; an odd column of tiles
    Problem const problem(kFormat, 150, 264, 416, bits);
    run<kFormat, kBf16, 128>(problem, a_bf16, TileSharing::kNone, 4, FP4AOT_FP16, true);
    run<kFormat, kBf16, 64>(problem, a_bf16, TileSharing::kCut, 5, FP4AOT_FP32, false, true);
    run<kFormat, kBf16, 64>(problem, a_bf16, TileSharing::kSplit, 16,
                            FP4AOT_FP32);  // clusters of two, which are enough
    run<kFormat, kBf16, 128>(problem, a_bf16, TileSharing::kSplit, 32, FP4AOT_FP16, true);  // of four
  }
  {  // the rings turn over; one tile for many clusters
    Problem const problem(kFormat, 40, 136, 1440, bits);
    run<kFormat, kBf16, 64>(problem, a_bf16, TileSharing::kCut, 10, FP4AOT_FP32);
    run<kFormat, kBf16, 192>(problem, a_bf16, TileSharing::kNone, 2, FP4AOT_BF16, true);
    run<kFormat, kBf16, 256>(problem, a_bf16, TileSharing::kSplit, 4, FP4AOT_BF16, true);  // a half without rows
  }
}

}  // namespace

int main(int count, char** arguments) {
  start_program(count, arguments);
  run_all<Format::kNvfp4, true>(true);
  run_all<Format::kNvfp4, false>(false);
  run_all<Format::kMxfp4, true>(true);
  run_all<Format::kMxfp4, true>(false);
}
