// What the programs that run kernels/gemm/wgmma.cuh share: tensor maps, the workspace, the launch. They include the kernel
// before this.
#ifndef FP4AOT_TESTS_EMULATION_WGMMA_LAUNCH_H_
#define FP4AOT_TESTS_EMULATION_WGMMA_LAUNCH_H_

#include "problem.h"

inline CUtensorMap encoded(machine::TensorMap const& map) {
  CUtensorMap result = {};
  std::memcpy(&result, &map, sizeof map);
  return result;
}

// As wgmma_queue.cuh encodes them.
inline CUtensorMap map_of_rows(void const* data, int64_t element, int64_t rows, int64_t columns, int64_t stride,
                               int box_rows, int box_columns, bool swizzle128) {
  return encoded({static_cast<uint8_t const*>(data),
                  element,
                  {columns, rows, 1},
                  {stride, 0},
                  {box_columns, box_rows, 1},
                  swizzle128});
}

struct Workspace {
  fp4aot::WgmmaWorkspace sizes;
  std::vector<uint8_t> bytes;

  explicit Workspace(fp4aot::WgmmaWorkspace const& wanted) : sizes(wanted), bytes(wanted.bytes() + 16, 0xFF) {
    machine::operands.emplace_back(begin(), begin() + sizes.bytes());
  }
  ~Workspace() { machine::operands.pop_back(); }
  uint8_t* begin() { return bytes.data() + (16 - reinterpret_cast<uintptr_t>(bytes.data()) % 16) % 16; }
  float* partials() { return reinterpret_cast<float*>(begin() + sizes.activation_bytes); }
  uint32_t* counters() { return reinterpret_cast<uint32_t*>(begin() + sizes.activation_bytes + sizes.partial_bytes); }
};

// Clusters run one after another, in a random order: none waits for another.
template <class Config>
void run_clusters(fp4aot::WgmmaGemmArgs const& args, Workspace& workspace) {
  machine::block_dim = dim3(Config::kThreads);
  machine::grid_dim = dim3(args.schedule.clusters * args.schedule.ctas());
  std::vector<int> order;
  for (int cluster = 0; cluster < args.schedule.clusters; ++cluster) {
    order.insert(order.begin() + machine::random_below(cluster + 1), cluster);
  }
  for (int cluster : order) {
    machine::run_cluster(args.schedule.ctas(), cluster * args.schedule.ctas(), Config::kSharedBytes,
                         [&] { fp4aot::wgmma_gemm_kernel<Config>(args); });
  }
  for (int64_t i = 0; i < workspace.sizes.counter_bytes / 4; ++i) {
    if (workspace.counters()[i] != 0) machine::fail("counter %ld is left at %u", i, workspace.counters()[i]);
  }
}

#endif
