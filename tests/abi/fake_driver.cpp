// A driver and an NVML that only answer: libcuda.so.1 and libnvidia-ml.so.1 for machines without a GPU.
//   FAKE_DEVICES       "9.0:Alpha,8.9:Beta": capability and name of each device
//   FAKE_CUDA_VERSION  what cuDriverGetVersion gives (default 13000)
//   FAKE_INIT_ERROR    what cuInit gives (default 0)
//   FAKE_LOG           file to which the name of every function called is appended
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Device {
  int major, minor;
  std::string name;
};

void log(char const* what) {
  if (char const* const path = std::getenv("FAKE_LOG")) {
    if (FILE* const file = std::fopen(path, "a")) {
      std::fprintf(file, "%s\n", what);
      std::fclose(file);
    }
  }
}

std::vector<Device> devices() {
  std::vector<Device> result;
  char const* const list = std::getenv("FAKE_DEVICES");
  std::string text = list != nullptr ? list : "";
  for (size_t start = 0; start < text.size();) {
    size_t const end = text.find(',', start) == std::string::npos ? text.size() : text.find(',', start);
    std::string const entry = text.substr(start, end - start);
    size_t const dot = entry.find('.'), colon = entry.find(':');
    result.push_back({std::atoi(entry.c_str()), std::atoi(entry.c_str() + dot + 1), entry.substr(colon + 1)});
    start = end + 1;
  }
  return result;
}

int number(char const* name, int otherwise) {
  char const* const value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : otherwise;
}

void* current = nullptr;
std::vector<void*> stack;
int contexts[64];

}  // namespace

extern "C" {

int cuInit(unsigned) {
  log("cuInit");
  return number("FAKE_INIT_ERROR", 0);
}
int cuDriverGetVersion(int* version) {
  log("cuDriverGetVersion");
  *version = number("FAKE_CUDA_VERSION", 13000);
  return 0;
}
int cuDeviceGetCount(int* count) {
  log("cuDeviceGetCount");
  *count = static_cast<int>(devices().size());
  return 0;
}
int cuDeviceGet(int* handle, int index) {
  log("cuDeviceGet");
  *handle = index;
  return 0;
}
int cuDeviceGetName(char* name, int size, int handle) {
  log("cuDeviceGetName");
  std::snprintf(name, static_cast<size_t>(size), "%s", devices()[static_cast<size_t>(handle)].name.c_str());
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int handle) {
  log("cuDeviceGetAttribute");
  Device const device = devices()[static_cast<size_t>(handle)];
  *value = attribute == 75 ? device.major : attribute == 76 ? device.minor : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int handle) {
  log("cuDevicePrimaryCtxRetain");
  *context = &contexts[handle];
  return 0;
}
int cuCtxGetCurrent(void** context) {
  log("cuCtxGetCurrent");
  *context = current;
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  log("cuCtxPushCurrent");
  stack.push_back(current);
  current = context;
  return 0;
}
int cuCtxPopCurrent_v2(void** context) {
  log("cuCtxPopCurrent");
  *context = current;
  current = stack.back();
  stack.pop_back();
  return 0;
}
int cuCtxSetCurrent(void* context) {
  log("cuCtxSetCurrent");
  current = context;
  return 0;
}
int cuPointerGetAttribute(void*, int, unsigned long long) {
  log("cuPointerGetAttribute");
  return 1;
}
int cuStreamIsCapturing(void* stream, int* status) {
  log("cuStreamIsCapturing");
  *status = stream != nullptr;  // any stream but the default one is being captured
  return 0;
}
int cuStreamSynchronize(void*) {
  log("cuStreamSynchronize");
  return 0;
}
int cuMemcpyDtoH_v2(void* host, unsigned long long device, size_t bytes) {
  log("cuMemcpyDtoH");
  std::memcpy(host, reinterpret_cast<void const*>(device), bytes);
  return 0;
}
int cuGetErrorString(int, char const** text) {
  *text = "the fake driver says no";
  return 0;
}
int cuGetErrorName(int, char const** text) {
  *text = "FAKE_ERROR";
  return 0;
}

int nvmlInit_v2() {
  log("nvmlInit");
  return 0;
}
int nvmlShutdown() {
  log("nvmlShutdown");
  return 0;
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "999.12");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(devices().size());
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  *handle = &contexts[index];
  return 0;
}
int nvmlDeviceGetName(void* handle, char* text, unsigned size) {
  std::snprintf(text, size, "%s", devices()[static_cast<size_t>(static_cast<int*>(handle) - contexts)].name.c_str());
  return 0;
}
int nvmlDeviceGetUUID(void* handle, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-%d0000000-1111-2222-3333-444444444444",
                static_cast<int>(static_cast<int*>(handle) - contexts));
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  Device const device = devices()[static_cast<size_t>(static_cast<int*>(handle) - contexts)];
  *major = device.major, *minor = device.minor;
  return 0;
}
char const* nvmlErrorString(int) { return "fake"; }
}
