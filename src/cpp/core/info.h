// What `python -m fp4aot info` prints, as JSON.
#ifndef FP4AOT_CORE_INFO_H_
#define FP4AOT_CORE_INFO_H_

#include <string>

namespace fp4aot::core {

// {"version", "abi", "force_image", "driver": {"version", "cuda", "error"}, "visibility_decided",
//  "images": [{"name", "capability", "path", "error", "cuda_toolkit", "ops": [...]}],
//  "devices": [{"pci_index", "name", "uuid", "capability", "visible", "image", "reason"}]}
// Loads the installed images (no CUDA call is made by that) but does not initialise the driver.
std::string info_json();

}  // namespace fp4aot::core

#endif
