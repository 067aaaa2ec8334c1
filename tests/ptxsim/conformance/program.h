// One program, two machines: linked with the CUDA runtime it runs on a GPU of capability 9.0, with libptxsim on the
// simulator. What it prints must be the same.
#ifndef PTXSIM_CONFORMANCE_PROGRAM_H_
#define PTXSIM_CONFORMANCE_PROGRAM_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

inline void check(cudaError_t error, char const* what) {
  if (error == cudaSuccess) return;
  std::printf("%s failed: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::vector<T> const& values) : size_(values.size()) {
    check(cudaMalloc(&data_, size_ * sizeof(T)), "cudaMalloc");
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceArray() { (void)cudaFree(data_); }
  DeviceArray(DeviceArray const&) = delete;
  T* data() { return data_; }
  std::vector<T> values() {
    std::vector<T> result(size_);
    check(cudaMemcpy(result.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return result;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

// Prints "name word word ...".
inline void print(char const* name, std::vector<uint32_t> const& words) {
  std::printf("%s", name);
  for (uint32_t word : words) std::printf(" %x", word);
  std::printf("\n");
}

// Runs kernel(out, arguments...) over words that were 0xDEADBEEF before, and prints them.
template <class... Parameters, class... Arguments>
void run(char const* name, void (*kernel)(uint32_t*, Parameters...), dim3 grid, dim3 block, size_t words,
         Arguments... arguments) {
  DeviceArray<uint32_t> out(std::vector<uint32_t>(words, 0xDEADBEEFu));
  kernel<<<grid, block>>>(out.data(), arguments...);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::printf("%s failed: %s\n", name, cudaGetErrorString(error));
    return;
  }
  print(name, out.values());
}

// A sequence that is the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33) ^ static_cast<uint32_t>(state_ >> 20 & 0x80000000u);
  }

 private:
  uint64_t state_;
};

void elementwise_cases();
void warp_cases();
void matrix_cases();
void copy_cases();

#endif
