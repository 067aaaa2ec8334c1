// Attributes of kernels, and how many CTAs of one are resident.
#include <algorithm>
#include <string>

#include "runtime/state.h"

using ptxsim::Device;
using ptxsim::Dim3;
using ptxsim::kDefaultSharedBytes;
using ptxsim::Kernel;
using ptxsim::kReservedSharedBytes;
using ptxsim::Properties;
using ptxsim::State;

namespace {

// The kernel, loaded; null with the error set.
Kernel* loaded(void const* function, cudaError_t* error) {
  State& state = State::get();
  Kernel* const kernel = state.find_kernel(function);
  *error = kernel != nullptr ? state.load(*kernel) : state.fail(cudaErrorInvalidDeviceFunction);
  return *error == cudaSuccess ? kernel : nullptr;
}

int max_dynamic_shared(Device& device, Kernel const& kernel) {
  if (kernel.max_dynamic_shared >= 0) return kernel.max_dynamic_shared;
  return std::max(0, kDefaultSharedBytes - static_cast<int>(device.static_shared_bytes(kernel.name)));
}

// PTX does not tell how many registers a thread gets: as many as its launch bounds leave is the most.
int registers(Device& device, Kernel const& kernel) {
  int const threads = static_cast<int>(device.max_threads(kernel.name));
  return std::min(255, device.properties().registers_per_multiprocessor / threads / 8 * 8);
}

int resident_blocks(Device& device, Kernel const& kernel, int threads, size_t dynamic_shared) {
  constexpr int kMaxBlocks = 32;
  Properties const& p = device.properties();
  if (threads <= 0 || threads > static_cast<int>(device.max_threads(kernel.name))) return 0;
  size_t const shared = device.static_shared_bytes(kernel.name) + dynamic_shared;
  if (shared > static_cast<size_t>(p.shared_bytes_per_block)) return 0;
  int const by_threads = p.max_threads_per_multiprocessor / ((threads + 31) / 32 * 32);
  int const by_shared =
      p.shared_bytes_per_multiprocessor / static_cast<int>(shared + static_cast<size_t>(kReservedSharedBytes));
  return std::min({kMaxBlocks, by_threads, by_shared});
}

}  // namespace

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void const* function) {
  PTXSIM_LOCKED;
  cudaError_t error = cudaSuccess;
  Kernel* const kernel = loaded(function, &error);
  if (kernel == nullptr) return error;
  Device& device = State::get().device();
  Dim3 const cluster = device.required_cluster(kernel->name);
  *attributes = {};
  attributes->sharedSizeBytes = device.static_shared_bytes(kernel->name);
  attributes->maxThreadsPerBlock = static_cast<int>(device.max_threads(kernel->name));
  attributes->numRegs = registers(device, *kernel);
  attributes->ptxVersion = attributes->binaryVersion = device.properties().major * 10 + device.properties().minor;
  attributes->maxDynamicSharedSizeBytes = max_dynamic_shared(device, *kernel);
  attributes->clusterDimMustBeSet = cluster.x != 0;
  attributes->requiredClusterWidth = static_cast<int>(cluster.x);
  attributes->requiredClusterHeight = static_cast<int>(cluster.y);
  attributes->requiredClusterDepth = static_cast<int>(cluster.z);
  attributes->nonPortableClusterSizeAllowed = kernel->non_portable_cluster;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(void const* function, cudaFuncAttribute attribute, int value) {
  PTXSIM_LOCKED;
  State& state = State::get();
  cudaError_t error = cudaSuccess;
  Kernel* const kernel = loaded(function, &error);
  if (kernel == nullptr) return error;
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize: {
      int const fixed = static_cast<int>(state.device().static_shared_bytes(kernel->name));
      int const most = state.device().properties().shared_bytes_per_block - fixed;
      if (value < 0 || value > most) {
        return state.fail(cudaErrorInvalidValue, kernel->name + ": " + std::to_string(value) +
                                                     " bytes of dynamic shared memory; the chip has " +
                                                     std::to_string(most) + " for it");
      }
      kernel->max_dynamic_shared = value;
      return cudaSuccess;
    }
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      kernel->non_portable_cluster = value != 0;
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
    case cudaFuncAttributeClusterSchedulingPolicyPreference:
      return cudaSuccess;
    default:
      return state.fail(cudaErrorNotSupported,
                        kernel->name + ": function attribute " + std::to_string(attribute) + " is not simulated");
  }
}

cudaError_t cudaFuncSetCacheConfig(void const*, cudaFuncCache) { return cudaSuccess; }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void const* function, int threads,
                                                                   size_t dynamic_shared, unsigned) {
  PTXSIM_LOCKED;
  cudaError_t error = cudaSuccess;
  Kernel* const kernel = loaded(function, &error);
  if (kernel == nullptr) return error;
  *blocks = resident_blocks(State::get().device(), *kernel, threads, dynamic_shared);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void const* function, int threads,
                                                          size_t dynamic_shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic_shared, 0);
}

// As if all multiprocessors were one cluster's neighbours.
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const* function, cudaLaunchConfig_t const* config) {
  PTXSIM_LOCKED;
  cudaError_t error = cudaSuccess;
  Kernel* const kernel = loaded(function, &error);
  if (kernel == nullptr) return error;
  Device& device = State::get().device();
  int size = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
    auto const& d = config->attrs[i].val.clusterDim;
    size = static_cast<int>(d.x * d.y * d.z);
  }
  if (size <= 0) return State::get().fail(cudaErrorInvalidClusterSize);
  int const threads = static_cast<int>(config->blockDim.x * config->blockDim.y * config->blockDim.z);
  *clusters =
      device.properties().multiprocessors * resident_blocks(device, *kernel, threads, config->dynamicSmemBytes) / size;
  return cudaSuccess;
}

}  // extern "C"
