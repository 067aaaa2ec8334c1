// Devices, streams, events, graphs and errors of the runtime. One device; streams run one after the other.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/attributes.h"
#include "runtime/driver.h"
#include "runtime/state.h"

using ptxsim::State;
using ptxsim::Stream;

namespace ptxsim {

bool device_attribute(int attribute, int* value) {
  Properties const& p = State::get().device().properties();
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      *value = 1024;
      return true;
    case cudaDevAttrMaxBlockDimZ:
      *value = 64;
      return true;
    case cudaDevAttrMaxGridDimX:
      *value = 0x7FFFFFFF;
      return true;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      *value = 65535;
      return true;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kDefaultSharedBytes;
      return true;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = p.shared_bytes_per_block;
      return true;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = p.shared_bytes_per_multiprocessor;
      return true;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = kReservedSharedBytes;
      return true;
    case cudaDevAttrWarpSize:
      *value = 32;
      return true;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = p.registers_per_multiprocessor;
      return true;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiprocessors;
      return true;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.max_threads_per_multiprocessor;
      return true;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      return true;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      return true;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      return true;
    default:
      return false;
  }
}

int driver_version() { return CUDART_VERSION; }

namespace {

struct Graph {
  std::vector<std::function<cudaError_t()>> work;
};

struct Event {
  std::chrono::steady_clock::time_point when;
  bool recorded = false;
};

cudaError_t check_stream(cudaStream_t stream) {
  if (State::get().find_stream(stream) != nullptr) return cudaSuccess;
  return State::get().fail(cudaErrorInvalidResourceHandle, "the stream does not exist");
}

}  // namespace

}  // namespace ptxsim

using ptxsim::Event;
using ptxsim::Graph;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : State::get().fail(cudaErrorInvalidDevice); }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = ptxsim::driver_version();
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  PTXSIM_LOCKED;
  if (device != 0) return State::get().fail(cudaErrorInvalidDevice);
  if (ptxsim::device_attribute(attribute, value)) return cudaSuccess;
  return State::get().fail(cudaErrorInvalidValue,
                           "device attribute " + std::to_string(attribute) + " is not simulated");
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  PTXSIM_LOCKED;
  if (device != 0) return State::get().fail(cudaErrorInvalidDevice);
  ptxsim::Properties const& p = State::get().device().properties();
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "%s", p.name.c_str());
  properties->major = p.major;
  properties->minor = p.minor;
  properties->multiProcessorCount = p.multiprocessors;
  properties->warpSize = 32;
  properties->regsPerBlock = properties->regsPerMultiprocessor = p.registers_per_multiprocessor;
  properties->sharedMemPerBlock = ptxsim::kDefaultSharedBytes;
  properties->sharedMemPerBlockOptin = static_cast<size_t>(p.shared_bytes_per_block);
  properties->sharedMemPerMultiprocessor = static_cast<size_t>(p.shared_bytes_per_multiprocessor);
  properties->reservedSharedMemPerBlock = ptxsim::kReservedSharedBytes;
  properties->maxThreadsPerMultiProcessor = p.max_threads_per_multiprocessor;
  properties->maxThreadsPerBlock = properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7FFFFFFF;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->unifiedAddressing = properties->concurrentKernels = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  PTXSIM_LOCKED;
  return State::get().synchronize();
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  PTXSIM_LOCKED;
  *stream = State::get().create_stream();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  PTXSIM_LOCKED;
  cudaError_t const error = State::get().synchronize();
  if (!State::get().destroy_stream(stream)) return State::get().fail(cudaErrorInvalidResourceHandle);
  return error;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  PTXSIM_LOCKED;
  cudaError_t const error = ptxsim::check_stream(stream);
  return error == cudaSuccess ? State::get().synchronize() : error;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
// Between streams nothing is left to run once everything queued has ended.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) { return cudaStreamSynchronize(stream); }

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  PTXSIM_LOCKED;
  Stream* const found = State::get().find_stream(stream);
  if (found == nullptr || found->id == 0 || found->capturing) {
    return State::get().fail(cudaErrorStreamCaptureUnsupported);
  }
  found->capturing = true;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  PTXSIM_LOCKED;
  Stream* const found = State::get().find_stream(stream);
  if (found == nullptr) return State::get().fail(cudaErrorInvalidResourceHandle);
  *status = found->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  PTXSIM_LOCKED;
  Stream* const found = State::get().find_stream(stream);
  if (found == nullptr || !found->capturing) return State::get().fail(cudaErrorIllegalState);
  found->capturing = false;
  *graph = reinterpret_cast<cudaGraph_t>(new Graph{std::move(found->captured)});
  found->captured.clear();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  PTXSIM_LOCKED;
  for (auto const& work : reinterpret_cast<Graph*>(executable)->work) {
    cudaError_t const error = State::get().in_stream(stream, work);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<Graph*>(executable);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);
  return cudaSuccess;
}
// Times are the host's: of the simulation, not of a GPU.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  cudaError_t const error = cudaStreamSynchronize(stream);
  auto* const e = reinterpret_cast<Event*>(event);
  e->when = std::chrono::steady_clock::now();
  e->recorded = true;
  return error;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  auto const* const a = reinterpret_cast<Event*>(start);
  auto const* const b = reinterpret_cast<Event*>(end);
  if (!a->recorded || !b->recorded) return State::get().fail(cudaErrorInvalidResourceHandle);
  *milliseconds = std::chrono::duration<float, std::milli>(b->when - a->when).count();
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  cudaError_t const error = State::last_error();
  State::last_error() = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return State::last_error(); }

#define PTXSIM_ERRORS(E)                                                                                    \
  E(cudaSuccess, "no error")                                                                                \
  E(cudaErrorInvalidValue, "invalid argument")                                                              \
  E(cudaErrorMemoryAllocation, "out of memory")                                                             \
  E(cudaErrorInvalidConfiguration, "invalid configuration argument")                                        \
  E(cudaErrorMissingConfiguration, "a launch without its configuration")                                    \
  E(cudaErrorInvalidDeviceFunction, "the function is no kernel of this device")                             \
  E(cudaErrorInvalidDevice, "invalid device ordinal")                                                       \
  E(cudaErrorInvalidPtx, "the PTX cannot be parsed")                                                        \
  E(cudaErrorInvalidResourceHandle, "invalid handle")                                                       \
  E(cudaErrorIllegalState, "not possible in this state")                                                    \
  E(cudaErrorSymbolNotFound, "no such symbol")                                                              \
  E(cudaErrorInvalidClusterSize, "impossible cluster")                                                      \
  E(cudaErrorLaunchFailure, "a kernel broke a rule: see the simulator's findings")                          \
  E(cudaErrorStreamCaptureUnsupported, "not possible while a stream is captured, or this stream cannot be") \
  E(cudaErrorNotSupported, "not simulated")

char const* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define PTXSIM_ERROR(name, text) \
  case name:                     \
    return #name;
    PTXSIM_ERRORS(PTXSIM_ERROR)
#undef PTXSIM_ERROR
    default:
      return "unrecognized error code";
  }
}

char const* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define PTXSIM_ERROR(name, text) \
  case name:                     \
    return text;
    PTXSIM_ERRORS(PTXSIM_ERROR)
#undef PTXSIM_ERROR
    default:
      return "unrecognized error code";
  }
}

cudaError_t cudaGetDriverEntryPointByVersion(char const* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  *function = ptxsim::driver_function(symbol);
  cudaDriverEntryPointQueryResult const result =
      *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  if (status != nullptr) *status = result;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(char const* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}

}  // extern "C"
