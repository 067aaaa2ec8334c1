// Device memory, copies and sets. A copy or set runs when everything queued before it has ended.
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/state.h"

using ptxsim::State;

namespace {

// One side of a copy: device memory is marked and checked, host memory is not.
cudaError_t check_device_side(void const* pointer, size_t bytes, char const* what) {
  State& state = State::get();
  if (!state.device().allocated(pointer, 1)) return cudaSuccess;  // host memory
  if (state.device().allocated(pointer, bytes)) return cudaSuccess;
  return state.fail(cudaErrorInvalidValue,
                    std::string(what) + " of " + std::to_string(bytes) + " bytes runs beyond its allocation");
}

cudaError_t copy_now(void* to, void const* from, size_t bytes, cudaMemcpyKind kind) {
  State& state = State::get();
  if (bytes == 0) return cudaSuccess;
  ptxsim::Device& device = state.device();
  bool const to_device = device.allocated(to, 1), from_device = device.allocated(from, 1);
  bool const wrong = (kind == cudaMemcpyHostToDevice && (!to_device || from_device)) ||
                     (kind == cudaMemcpyDeviceToHost && (to_device || !from_device)) ||
                     (kind == cudaMemcpyDeviceToDevice && (!to_device || !from_device)) ||
                     (kind == cudaMemcpyHostToHost && (to_device || from_device));
  if (wrong) return state.fail(cudaErrorInvalidValue, "a copy between other kinds of memory than cudaMemcpyKind says");
  cudaError_t error = state.synchronize();
  if (error == cudaSuccess) error = check_device_side(to, bytes, "the target of a copy");
  if (error == cudaSuccess) error = check_device_side(from, bytes, "the source of a copy");
  if (error != cudaSuccess) return error;
  if (from_device && !device.host_may_read(from, bytes)) {
    // As on a real device the copy is made; what was never written shows up as a complaint.
    state.fail(cudaSuccess, "a copy of " + std::to_string(bytes) + " bytes reads some that were never written");
  }
  std::memmove(to, from, bytes);
  if (to_device) device.host_wrote(to, bytes);
  return cudaSuccess;
}

cudaError_t set_now(void* to, int value, size_t bytes) {
  State& state = State::get();
  if (bytes == 0) return cudaSuccess;
  cudaError_t const error = state.synchronize();
  if (error != cudaSuccess) return error;
  if (!state.device().allocated(to, bytes)) {
    return state.fail(cudaErrorInvalidValue, "a memset of " + std::to_string(bytes) + " bytes beyond an allocation");
  }
  std::memset(to, value, bytes);
  state.device().host_wrote(to, bytes);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  PTXSIM_LOCKED;
  *pointer = State::get().device().allocate(bytes);
  return *pointer != nullptr || bytes == 0 ? cudaSuccess : State::get().fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) { return cudaMalloc(pointer, bytes); }

cudaError_t cudaFree(void* pointer) {
  PTXSIM_LOCKED;
  if (pointer == nullptr) return cudaSuccess;
  cudaError_t const error = State::get().synchronize();
  if (!State::get().device().release(pointer)) {
    return State::get().fail(cudaErrorInvalidValue, "cudaFree of what is not the start of an allocation");
  }
  return error;
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  *pointer = std::malloc(bytes);
  return *pointer != nullptr || bytes == 0 ? cudaSuccess : State::get().fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) { return cudaMallocHost(pointer, bytes); }

cudaError_t cudaFreeHost(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, void const* from, size_t bytes, cudaMemcpyKind kind) {
  PTXSIM_LOCKED;
  return copy_now(to, from, bytes, kind);
}

cudaError_t cudaMemcpyAsync(void* to, void const* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  PTXSIM_LOCKED;
  return State::get().in_stream(stream, [=] { return copy_now(to, from, bytes, kind); });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  PTXSIM_LOCKED;
  return set_now(to, value, bytes);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  PTXSIM_LOCKED;
  return State::get().in_stream(stream, [=] { return set_now(to, value, bytes); });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, void const* pointer) {
  PTXSIM_LOCKED;
  *attributes = {};
  attributes->device = -1;
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->hostPointer = const_cast<void*>(pointer);
  if (State::get().device().allocated(pointer, 1)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = 0;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = nullptr;
  }
  return cudaSuccess;
}

}  // extern "C"
