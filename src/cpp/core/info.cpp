#include "core/info.h"

#include <cstdio>

#include "core/images.h"
#include "core/nvml.h"

namespace fp4aot::core {

namespace {

std::string quoted(std::string const& text) {
  std::string result = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      result += escaped;
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string field(char const* name, std::string const& value) { return quoted(name) + ": " + value; }

std::string capability(int major, int minor) {
  return major < 0 ? "null" : quoted(std::to_string(major) + "." + std::to_string(minor));
}

std::string image_json(ImageEntry const& entry) {
  std::string path, error, ops;
  Image const* const image = load_image(entry.name, &path, &error);
  for (uint32_t i = 0; image != nullptr && i < image->slot_count && i < FP4AOT_OP_COUNT; i++) {
    if (image->slots[i] != nullptr)
      ops += (ops.empty() ? "" : ", ") + quoted(fp4aot_op_name(static_cast<fp4aot_op>(i)));
  }
  return "{" + field("name", quoted(entry.name)) + ", " + field("capability", capability(entry.major, entry.minor)) +
         ", " + field("path", quoted(path)) + ", " + field("error", quoted(error)) + ", " +
         field("cuda_toolkit", std::to_string(image != nullptr ? image->cuda_toolkit : 0)) + ", " +
         field("ops", "[" + ops + "]") + "}";
}

// The image a device would get, and why or why not.
std::string device_json(NvmlDevice const& device) {
  Choice choice = choose_image(device.major, device.minor);
  if (choice.entry != nullptr) {
    std::string path, error;
    Image const* const image = load_image(choice.entry->name, &path, &error);
    std::string const complaint = image != nullptr ? driver_complaint(*choice.entry, *image) : "but " + error;
    if (!complaint.empty()) choice = {nullptr, "its image is " + std::string(choice.entry->name) + ", " + complaint};
  }
  return "{" + field("pci_index", std::to_string(device.pci_index)) + ", " + field("name", quoted(device.name)) + ", " +
         field("uuid", quoted(device.uuid)) + ", " + field("capability", capability(device.major, device.minor)) +
         ", " + field("visible", device.visible ? "true" : "false") + ", " +
         field("image", choice.entry != nullptr ? quoted(choice.entry->name) : "null") + ", " +
         field("reason", quoted(choice.why)) + "}";
}

}  // namespace

std::string info_json() {
  std::lock_guard<std::mutex> const lock(information_mutex());
  NvmlReport const nvml = ask_nvml();
  std::string images, devices;
  for (ImageEntry const& entry : image_table()) images += (images.empty() ? "" : ", ") + image_json(entry);
  for (NvmlDevice const& device : nvml.devices) devices += (devices.empty() ? "" : ", ") + device_json(device);
  std::string const abi = std::to_string(FP4AOT_ABI_MAJOR) + "." + std::to_string(FP4AOT_ABI_MINOR);
  return "{" + field("version", quoted(fp4aot_version())) + ", " + field("abi", quoted(abi)) + ", " +
         field("force_image", quoted(forced_image())) + ", " +
         field("image_dir_error", quoted(image_directory_complaint())) + ", " +
         field("driver", "{" + field("version", quoted(nvml.driver_version)) + ", " +
                             field("cuda", std::to_string(driver_cuda_version())) + ", " +
                             field("error", quoted(nvml.error)) + "}") +
         ", " + field("visibility_decided", nvml.visibility_decided ? "true" : "false") + ", " +
         field("images", "[" + images + "]") + ", " + field("devices", "[" + devices + "]") + "}";
}

}  // namespace fp4aot::core
