#include "core/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace fp4aot::core {

namespace {

using Result = int;
using Handle = struct OpaqueNvmlDevice*;

// Which devices CUDA_VISIBLE_DEVICES leaves. CUDA reads the list up to the first entry that it does not know.
void apply_visibility(NvmlReport* report) {
  report->visibility_decided = true;
  char const* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (variable == nullptr) return;
  char const* const order = std::getenv("CUDA_DEVICE_ORDER");
  bool const same_kind = std::all_of(report->devices.begin(), report->devices.end(),
                                     [&](NvmlDevice const& d) { return d.name == report->devices.front().name; });
  bool const pci_order = same_kind || (order != nullptr && std::strcmp(order, "PCI_BUS_ID") == 0);
  for (NvmlDevice& device : report->devices) device.visible = false;
  std::string const list = std::string(variable) + ",";
  for (size_t start = 0, comma; (comma = list.find(',', start)) != std::string::npos; start = comma + 1) {
    std::string entry = list.substr(start, comma - start);
    entry.erase(0, entry.find_first_not_of(' '));
    entry.erase(entry.find_last_not_of(' ') + 1);
    NvmlDevice* found = nullptr;
    if (entry.rfind("MIG", 0) == 0) {
      report->visibility_decided = false;
      return;
    }
    if (entry.rfind("GPU", 0) == 0) {  // a UUID, which may be abbreviated
      for (NvmlDevice& device : report->devices) {
        if (device.uuid.rfind(entry, 0) == 0) found = &device;
      }
    } else {
      char* end = nullptr;
      long const index = std::strtol(entry.c_str(), &end, 10);
      bool const valid = !entry.empty() && *end == '\0' && index >= 0;
      if (valid && index < static_cast<long>(report->devices.size())) {
        if (!pci_order) {
          report->visibility_decided = false;
          return;
        }
        found = &report->devices[static_cast<size_t>(index)];
      }
    }
    if (found == nullptr) return;
    found->visible = true;
  }
}

}  // namespace

NvmlReport ask_nvml() {
  NvmlReport report{};
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    report.error = dlerror();
    return report;
  }
  bool complete = true;
  auto const load = [&](auto*& function, char const* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    complete = complete && function != nullptr;
  };
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  Result (*driver_version)(char*, unsigned) = nullptr;
  Result (*count)(unsigned*) = nullptr;
  Result (*by_index)(unsigned, Handle*) = nullptr;
  Result (*name)(Handle, char*, unsigned) = nullptr;
  Result (*uuid)(Handle, char*, unsigned) = nullptr;
  Result (*capability)(Handle, int*, int*) = nullptr;
  char const* (*error_string)(Result) = nullptr;
  load(init, "nvmlInit_v2");
  load(shutdown, "nvmlShutdown");
  load(driver_version, "nvmlSystemGetDriverVersion");
  load(count, "nvmlDeviceGetCount_v2");
  load(by_index, "nvmlDeviceGetHandleByIndex_v2");
  load(name, "nvmlDeviceGetName");
  load(uuid, "nvmlDeviceGetUUID");
  load(capability, "nvmlDeviceGetCudaComputeCapability");
  load(error_string, "nvmlErrorString");
  if (!complete) {
    report.error = "libnvidia-ml.so.1 lacks functions that fp4aot needs";
    dlclose(library);
    return report;
  }
  if (Result const result = init(); result != 0) {
    report.error = std::string("nvmlInit: ") + error_string(result);
    dlclose(library);
    return report;
  }
  char text[256] = "";
  if (driver_version(text, sizeof text) == 0) report.driver_version = text;
  unsigned devices = 0;
  count(&devices);
  for (unsigned i = 0; i < devices; i++) {
    Handle handle = nullptr;
    NvmlDevice device{static_cast<int>(i), "unknown", "", 0, 0, true};
    if (by_index(i, &handle) != 0) continue;
    if (name(handle, text, sizeof text) == 0) device.name = text;
    if (uuid(handle, text, sizeof text) == 0) device.uuid = text;
    if (capability(handle, &device.major, &device.minor) == 0) report.devices.push_back(device);
  }
  shutdown();
  dlclose(library);
  apply_visibility(&report);
  return report;
}

}  // namespace fp4aot::core
