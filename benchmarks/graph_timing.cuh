// Times work on the GPU for the benchmarks here. Every timing is one replay of a CUDA graph between two events, after
// 256 MB have been read to empty the L2 cache; the things compared take turns, and medians are returned.
#ifndef FP4AOT_BENCHMARKS_GRAPH_TIMING_CUH_
#define FP4AOT_BENCHMARKS_GRAPH_TIMING_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace bench {

inline void check(cudaError_t error, int line) {
  if (error == cudaSuccess) return;
  std::printf("line %d: %s\n", line, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) bench::check(call, __LINE__)

static __global__ void empty_kernel() {}

static __global__ void flush_kernel(uint4 const* data, size_t count, uint32_t* sink) {
  uint32_t sum = 0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    uint4 const v = data[i];
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678u) *sink = sum;
}

inline cudaGraphExec_t capture(cudaStream_t stream, std::function<void()> const& queue) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  queue();
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return executable;
}

// Microseconds of each piece of work, which queues on `stream`.
inline std::vector<double> medians(cudaStream_t stream, std::vector<std::function<void()>> const& work, int repeats) {
  constexpr size_t kFlushBytes = size_t{256} << 20;
  static uint8_t* flush = nullptr;
  if (flush == nullptr) {
    CHECK(cudaMalloc(&flush, kFlushBytes + 4));
    CHECK(cudaMemset(flush, 0, kFlushBytes + 4));
  }
  std::vector<cudaGraphExec_t> graphs;
  for (auto const& queue : work) graphs.push_back(capture(stream, queue));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<std::vector<float>> times(work.size());
  for (int i = -3; i < repeats; ++i) {
    for (size_t j = 0; j < graphs.size(); ++j) {
      flush_kernel<<<1056, 256, 0, stream>>>(reinterpret_cast<uint4*>(flush), kFlushBytes / 16,
                                             reinterpret_cast<uint32_t*>(flush + kFlushBytes));
      CHECK(cudaEventRecord(begin, stream));
      CHECK(cudaGraphLaunch(graphs[j], stream));
      CHECK(cudaEventRecord(end, stream));
      CHECK(cudaStreamSynchronize(stream));
      float milliseconds;
      CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
      if (i >= 0) times[j].push_back(milliseconds * 1e3f);
    }
  }
  std::vector<double> result;
  for (auto& t : times) {
    std::nth_element(t.begin(), t.begin() + t.size() / 2, t.end());
    result.push_back(t[t.size() / 2]);
  }
  for (auto graph : graphs) CHECK(cudaGraphExecDestroy(graph));
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  return result;
}

}  // namespace bench

#endif
