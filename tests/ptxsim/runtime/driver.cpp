// The driver's functions that core and CUTLASS call, for the one virtual GPU; and NVML's, which list it.
#include "runtime/driver.h"

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/attributes.h"
#include "runtime/state.h"
#include "src/units/tensor_map.h"

using ptxsim::State;

namespace {

int const primary_context = 0;
thread_local std::vector<CUcontext> contexts;  // the last is current

CUcontext primary() { return reinterpret_cast<CUcontext>(const_cast<int*>(&primary_context)); }

CUresult refuse(std::string const& why) {
  State::get().fail(cudaErrorInvalidValue, "cuTensorMapEncodeTiled: " + why);
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuDriverGetVersion(int* version) {
  *version = ptxsim::driver_version();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult CUDAAPI cuDeviceGetName(char* name, int size, CUdevice) {
  std::snprintf(name, static_cast<size_t>(size), "%s", State::get().device().properties().name.c_str());
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  return ptxsim::device_attribute(attribute, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = primary();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  if (contexts.empty()) contexts.push_back(context);
  contexts.back() = context;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  contexts.push_back(context);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) {
  if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = contexts.back();
  contexts.pop_back();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  PTXSIM_LOCKED;
  if (!State::get().device().allocated(reinterpret_cast<void const*>(pointer), 1)) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
    *static_cast<unsigned*>(data) = CU_MEMORYTYPE_DEVICE;
  } else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
    *static_cast<int*>(data) = 0;
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// Launches have ended when they return.
CUresult CUDAAPI cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemcpyDtoH(void* host, CUdeviceptr device, size_t bytes) {
  PTXSIM_LOCKED;
  auto const* const source = reinterpret_cast<void const*>(device);
  if (!State::get().device().allocated(source, bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(host, source, bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult, char const** text) {
  *text = "CUDA_ERROR";
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGetErrorString(CUresult error, char const** text) {
  *text = error == CUDA_SUCCESS ? "no error" : "refused by the simulated driver";
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                        cuuint64_t const* sizes, cuuint64_t const* strides, cuuint32_t const* box,
                                        cuuint32_t const* element_strides, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                        CUtensorMapFloatOOBfill fill) {
  PTXSIM_LOCKED;
  if (reinterpret_cast<uintptr_t>(map) % ptxsim::kTensorMapAlignment != 0) return refuse("a map that is not aligned");
  if (static_cast<unsigned>(type) >= ptxsim::kTensorTypes) return refuse("no such element type");
  if (static_cast<unsigned>(swizzle) >= ptxsim::kTensorSwizzles) return refuse("no such swizzle");
  if (rank < 1 || rank > 5) return refuse("the rank must be 1 to 5");
  ptxsim::TensorMap m;
  m.type = static_cast<ptxsim::TensorType>(type);
  m.rank = rank;
  m.address = reinterpret_cast<uint64_t>(address);
  for (cuuint32_t i = 0; i < rank; ++i) {
    m.size[i] = sizes[i];
    m.box[i] = box[i];
    m.element_stride[i] = element_strides[i];
    if (i > 0) m.stride[i - 1] = strides[i - 1];
  }
  m.interleave = interleave;
  m.swizzle = static_cast<ptxsim::TensorSwizzle>(swizzle);
  m.l2_promotion = promotion;
  m.fill = fill;
  std::string why = ptxsim::tensor_map_fault(m);
  if (why.empty()) why = ptxsim::tensor_map_unsupported(m);
  if (!why.empty()) return refuse(why);
  ptxsim::pack_tensor_map(m, map);
  return CUDA_SUCCESS;
}

// NVML, as far as core asks it. The handle of the one device is the context's.
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "simulated");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 1;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned, void** handle) {
  *handle = primary();
  return 0;
}
int nvmlDeviceGetName(void*, char* text, unsigned size) {
  cuDeviceGetName(text, static_cast<int>(size), 0);
  return 0;
}
int nvmlDeviceGetUUID(void*, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-00000000-0000-0000-0000-000000000000");
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = State::get().device().properties().major;
  *minor = State::get().device().properties().minor;
  return 0;
}
char const* nvmlErrorString(int) { return "refused by the simulated NVML"; }

}  // extern "C"

namespace ptxsim {

void* driver_function(char const* name) {
  struct Entry {
    char const* name;
    void* function;
  };
  static Entry const table[] = {
#define PTXSIM_FUNCTION(f) {#f, reinterpret_cast<void*>(&f)}
      PTXSIM_FUNCTION(cuTensorMapEncodeTiled), PTXSIM_FUNCTION(cuGetErrorName), PTXSIM_FUNCTION(cuGetErrorString),
      PTXSIM_FUNCTION(cuDriverGetVersion),     PTXSIM_FUNCTION(cuDeviceGet),    PTXSIM_FUNCTION(cuDeviceGetAttribute),
#undef PTXSIM_FUNCTION
  };
  for (Entry const& entry : table) {
    if (std::strcmp(entry.name, name) == 0) return entry.function;
  }
  return nullptr;
}

}  // namespace ptxsim
