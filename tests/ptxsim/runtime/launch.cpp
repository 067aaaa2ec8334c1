#include "runtime/launch.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/state.h"

namespace ptxsim {

namespace {

std::string text(dim3 d) { return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z); }

Dim3 device_dim(dim3 d) { return {d.x, d.y, d.z}; }

// Product, as block and cluster dimensions are small once their parts have been checked.
uint64_t volume(Dim3 d) { return uint64_t{d.x} * d.y * d.z; }

struct Attributes {
  Dim3 cluster;
  bool has_cluster = false;
  bool programmatic = false;
};

// False: an attribute that the stand-in does not know. Hints of scheduling have no effect on a result.
bool read_attributes(cudaLaunchConfig_t const& config, Attributes* attributes, int* unknown) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    cudaLaunchAttribute const& attribute = config.attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeClusterDimension:
        attributes->cluster = {attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z};
        attributes->has_cluster = true;
        break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        attributes->programmatic = attribute.val.programmaticStreamSerializationAllowed != 0;
        break;
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributePreferredClusterDimension:  // the regular one is always legal
      case cudaLaunchAttributePreferredSharedMemoryCarveout:
        break;
      default:
        *unknown = static_cast<int>(attribute.id);
        return false;
    }
  }
  return true;
}

cudaError_t check_block(State& state, Kernel const& kernel, cudaLaunchConfig_t const& config) {
  dim3 const grid = config.gridDim, block = config.blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFFu || grid.y > 65535 || grid.z > 65535) {
    return state.fail(cudaErrorInvalidConfiguration, kernel.name + ": a grid of " + text(grid) + " CTAs");
  }
  uint64_t const threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.x > 1024 || block.y > 1024 || block.z > 64) {
    return state.fail(cudaErrorInvalidConfiguration, kernel.name + ": a block of " + text(block) + " threads");
  }
  uint32_t const allowed = state.device().max_threads(kernel.name);
  if (threads > allowed) {
    return state.fail(cudaErrorInvalidValue, kernel.name + ": a block of " + std::to_string(threads) +
                                                 " threads; its launch bounds allow " + std::to_string(allowed));
  }
  size_t const fixed = state.device().static_shared_bytes(kernel.name);
  size_t const opted_in = kernel.max_dynamic_shared >= 0 ? static_cast<size_t>(kernel.max_dynamic_shared)
                                                         : static_cast<size_t>(kDefaultSharedBytes) - fixed;
  if (config.dynamicSmemBytes > opted_in) {
    return state.fail(cudaErrorInvalidValue, kernel.name + ": " + std::to_string(config.dynamicSmemBytes) +
                                                 " bytes of dynamic shared memory; cudaFuncSetAttribute allowed " +
                                                 std::to_string(opted_in));
  }
  return cudaSuccess;
}

cudaError_t check_cluster(State& state, Kernel const& kernel, dim3 grid, Attributes* attributes) {
  Dim3 const required = state.device().required_cluster(kernel.name);
  if (required.x != 0) {
    Dim3 const given = attributes->cluster;
    if (attributes->has_cluster && (given.x != required.x || given.y != required.y || given.z != required.z)) {
      return state.fail(cudaErrorInvalidClusterSize,
                        kernel.name + ": not the cluster that the kernel was compiled for");
    }
    attributes->cluster = required;
    attributes->has_cluster = true;
  }
  Dim3 const cluster = attributes->cluster;
  uint64_t const size = volume(cluster);
  uint64_t const largest =
      kernel.non_portable_cluster ? static_cast<uint64_t>(state.device().properties().max_cluster) : kPortableCluster;
  if (size == 0 || cluster.x > largest || cluster.y > largest || cluster.z > largest || size > largest) {
    return state.fail(cudaErrorInvalidClusterSize, kernel.name + ": a cluster of " + std::to_string(cluster.x) + " x " +
                                                       std::to_string(cluster.y) + " x " + std::to_string(cluster.z) +
                                                       " CTAs; at most " + std::to_string(largest));
  }
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    return state.fail(cudaErrorInvalidClusterSize,
                      kernel.name + ": a grid of " + text(grid) + " CTAs does not consist of whole clusters");
  }
  return cudaSuccess;
}

// The values behind the pointers, at the offsets that the kernel's PTX declares.
std::vector<uint8_t> copy_parameters(Device& device, std::string const& kernel, void** arguments) {
  std::vector<uint8_t> bytes;
  auto const parameters = device.parameters(kernel);
  for (size_t i = 0; i < parameters.size(); ++i) {
    bytes.resize(std::max(bytes.size(), parameters[i].offset + parameters[i].size));
    std::memcpy(bytes.data() + parameters[i].offset, arguments[i], parameters[i].size);
  }
  return bytes;
}

}  // namespace

cudaError_t launch(cudaLaunchConfig_t const& config, void const* function, void** arguments) {
  PTXSIM_LOCKED;
  State& state = State::get();
  Kernel* const kernel = state.find_kernel(function);
  if (kernel == nullptr) return state.fail(cudaErrorInvalidDeviceFunction, "a launch of an unregistered function");
  cudaError_t error = state.load(*kernel);
  if (error != cudaSuccess) return error;
  Attributes attributes;
  int unknown = 0;
  if (!read_attributes(config, &attributes, &unknown)) {
    return state.fail(cudaErrorNotSupported,
                      kernel->name + ": launch attribute " + std::to_string(unknown) + " is not simulated");
  }
  error = check_block(state, *kernel, config);
  if (error == cudaSuccess) error = check_cluster(state, *kernel, config.gridDim, &attributes);
  if (error != cudaSuccess) return error;
  Stream* const stream = state.find_stream(config.stream);
  if (stream == nullptr) return state.fail(cudaErrorInvalidResourceHandle, "the stream does not exist");

  LaunchConfig launch;
  launch.grid = device_dim(config.gridDim);
  launch.block = device_dim(config.blockDim);
  launch.cluster = attributes.cluster;
  launch.clustered = attributes.has_cluster;
  launch.dynamic_shared_bytes = static_cast<uint32_t>(config.dynamicSmemBytes);
  launch.stream = stream->id;
  launch.programmatic = attributes.programmatic;
  std::vector<uint8_t> parameters = copy_parameters(state.device(), kernel->name, arguments);
  return state.in_stream(config.stream, [&state, name = kernel->name, launch, parameters = std::move(parameters)] {
    if (!state.device().launch(name, launch, parameters)) {
      return state.fail(cudaErrorInvalidValue, name + ": " + state.device().error());
    }
    state.launched.insert(name);
    return cudaSuccess;
  });
}

}  // namespace ptxsim

extern "C" {

cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* config, void const* function, void** arguments) {
  return ptxsim::launch(*config, function, arguments);
}

cudaError_t cudaLaunchKernel(void const* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return ptxsim::launch(config, function, arguments);
}

}  // extern "C"
