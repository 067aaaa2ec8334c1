// The GPUs as NVML lists them: no cuInit and no CUDA context, so this is safe before a fork.
#ifndef FP4AOT_CORE_NVML_H_
#define FP4AOT_CORE_NVML_H_

#include <string>
#include <vector>

namespace fp4aot::core {

struct NvmlDevice {
  int pci_index;  // NVML orders by PCI bus, CUDA by speed unless CUDA_DEVICE_ORDER says otherwise
  std::string name, uuid;
  int major, minor;
  bool visible;  // to CUDA, as CUDA_VISIBLE_DEVICES says
};

struct NvmlReport {
  std::string error;           // why NVML could not be asked; devices are then undecided, not absent
  std::string driver_version;  // "580.159.04"
  bool
      visibility_decided;  // false: CUDA_VISIBLE_DEVICES names MIG instances, or ordinals of devices in an unknown order
  std::vector<NvmlDevice> devices;
};

NvmlReport ask_nvml();

}  // namespace fp4aot::core

#endif
