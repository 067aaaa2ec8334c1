#include "core/driver.h"

#include <dlfcn.h>

#include <mutex>

namespace fp4aot::core {

namespace {

// cuda.h is not a dependency of core: these few declarations are the driver's stable ABI.
using Result = int;
constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76;  // CUdevice_attribute
constexpr int kPointerMemoryType = 2, kPointerDeviceOrdinal = 9;           // CUpointer_attribute
constexpr unsigned kMemoryHost = 1;                                        // CUmemorytype

struct Driver {
  void* library = nullptr;
  std::string error;
  Result (*init)(unsigned) = nullptr;
  Result (*driver_version)(int*) = nullptr;
  Result (*device_count)(int*) = nullptr;
  Result (*device_get)(int*, int) = nullptr;
  Result (*device_name)(char*, int, int) = nullptr;
  Result (*device_attribute)(int*, int, int) = nullptr;
  Result (*primary_retain)(CudaContext*, int) = nullptr;
  Result (*context_current)(CudaContext*) = nullptr;
  Result (*context_push)(CudaContext) = nullptr;
  Result (*context_pop)(CudaContext*) = nullptr;
  Result (*pointer_attribute)(void*, int, unsigned long long) = nullptr;
  Result (*error_string)(Result, char const**) = nullptr;
  Result (*is_capturing)(void*, int*) = nullptr;
  Result (*synchronize)(void*) = nullptr;
  Result (*copy_to_host)(void*, unsigned long long, size_t) = nullptr;

  template <typename F>
  void load(F*& function, char const* symbol) {
    function = reinterpret_cast<F*>(dlsym(library, symbol));
    if (function == nullptr && error.empty()) error = std::string("libcuda.so.1 has no ") + symbol;
  }

  Driver() {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      error = dlerror();
      return;
    }
    load(init, "cuInit");
    load(driver_version, "cuDriverGetVersion");
    load(device_count, "cuDeviceGetCount");
    load(device_get, "cuDeviceGet");
    load(device_name, "cuDeviceGetName");
    load(device_attribute, "cuDeviceGetAttribute");
    load(primary_retain, "cuDevicePrimaryCtxRetain");
    load(context_current, "cuCtxGetCurrent");
    load(context_push, "cuCtxPushCurrent_v2");
    load(context_pop, "cuCtxPopCurrent_v2");
    load(pointer_attribute, "cuPointerGetAttribute");
    load(error_string, "cuGetErrorString");
    load(is_capturing, "cuStreamIsCapturing");
    load(synchronize, "cuStreamSynchronize");
    load(copy_to_host, "cuMemcpyDtoH_v2");
  }

  fp4aot_status check(Result result, char const* what) const {
    if (result == 0) return FP4AOT_OK;
    char const* text = nullptr;
    error_string(result, &text);
    return fail(FP4AOT_LOAD_FAILED, "%s failed: %s (CUDA driver error %d)", what, text ? text : "unknown", result);
  }
};

Driver const& driver() {
  static Driver const instance;
  return instance;
}

}  // namespace

int driver_cuda_version() {
  Driver const& d = driver();
  int version = 0;
  return d.error.empty() && d.driver_version(&version) == 0 ? version : 0;
}

fp4aot_status open_cuda_device(int index, CudaDevice* device) {
  Driver const& d = driver();
  if (!d.error.empty()) {
    return fail(FP4AOT_LOAD_FAILED,
                "CUDA device %d was asked for, but the CUDA driver cannot be loaded: %s. Install an NVIDIA driver, or "
                "use CPU tensors.",
                index, d.error.c_str());
  }
  FP4AOT_RETURN_IF_ERROR(d.check(d.init(0), "cuInit"));
  int count = 0;
  FP4AOT_RETURN_IF_ERROR(d.check(d.device_count(&count), "cuDeviceGetCount"));
  if (index < 0 || index >= count) {
    return fail(FP4AOT_INVALID_ARGUMENT,
                "CUDA device %d does not exist: CUDA sees %d device(s), numbered from 0 (after CUDA_VISIBLE_DEVICES).",
                index, count);
  }
  int handle = 0;
  FP4AOT_RETURN_IF_ERROR(d.check(d.device_get(&handle, index), "cuDeviceGet"));
  char name[256] = "";
  FP4AOT_RETURN_IF_ERROR(d.check(d.device_name(name, sizeof name, handle), "cuDeviceGetName"));
  device->name = name;
  FP4AOT_RETURN_IF_ERROR(
      d.check(d.device_attribute(&device->major, kComputeCapabilityMajor, handle), "cuDeviceGetAttribute"));
  FP4AOT_RETURN_IF_ERROR(
      d.check(d.device_attribute(&device->minor, kComputeCapabilityMinor, handle), "cuDeviceGetAttribute"));
  return d.check(d.primary_retain(&device->primary, handle), "cuDevicePrimaryCtxRetain");
}

PointerHome pointer_home(void const* pointer, int* device_index) {
  Driver const& d = driver();
  unsigned type = 0;
  auto const address = static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(pointer));
  if (d.pointer_attribute(&type, kPointerMemoryType, address) != 0) return PointerHome::kUnknown;
  d.pointer_attribute(device_index, kPointerDeviceOrdinal, address);
  return type == kMemoryHost ? PointerHome::kHost : PointerHome::kDevice;
}

fp4aot_status wait_for_stream(void* stream, bool* capturing) {
  Driver const& d = driver();
  int state = 0;  // CU_STREAM_CAPTURE_STATUS_NONE
  FP4AOT_RETURN_IF_ERROR(d.check(d.is_capturing(stream, &state), "cuStreamIsCapturing"));
  *capturing = state != 0;
  return *capturing ? FP4AOT_OK : d.check(d.synchronize(stream), "cuStreamSynchronize");
}

fp4aot_status read_device_memory(void* host, void const* device, size_t bytes) {
  Driver const& d = driver();
  auto const address = static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(device));
  return d.check(d.copy_to_host(host, address, bytes), "cuMemcpyDtoH");
}

ContextScope::ContextScope(CudaContext context) {
  if (context == nullptr) return;
  Driver const& d = driver();
  CudaContext current = nullptr;
  if (d.context_current(&current) == 0 && current == context) return;
  status_ = d.check(d.context_push(context), "cuCtxPushCurrent");
  pushed_ = status_ == FP4AOT_OK;
}

ContextScope::~ContextScope() {
  CudaContext popped = nullptr;
  if (pushed_) driver().context_pop(&popped);
}

}  // namespace fp4aot::core
