// Choosing an image for a device, loading it, and remembering the choice.
#ifndef FP4AOT_CORE_IMAGES_H_
#define FP4AOT_CORE_IMAGES_H_

#include <mutex>
#include <string>
#include <vector>

#include "core/driver.h"
#include "core/error.h"
#include "images/image.h"

namespace fp4aot::core {

struct ImageEntry {  // a line of cmake/images.cmake
  char const* name;
  int major, minor;   // capability; -1: the host
  int oldest_driver;  // CUDA version, for a toolkit of major 12
};

std::vector<ImageEntry> const& image_table();

// THE choice: the image for a CUDA device of exactly this capability (FP4AOT_FORCE_IMAGE overrides), and why. `entry` is
// null when there is none; `why` then ends with what to do.
struct Choice {
  ImageEntry const* entry;
  std::string why;
};
Choice choose_image(int major, int minor);

// Why the installed driver cannot run this image, or "". A toolkit needs a driver of its own major version, and an
// architecture one that knows it.
std::string driver_complaint(ImageEntry const& entry, Image const& image);

// dlopen and handshake; each image is loaded once. On failure *error says why.
Image const* load_image(std::string const& name, std::string* path, std::string* error);

// See fp4aot.h. For images that are loaded and those still to come.
fp4aot_status set_cpu_executor(fp4aot_executor const* executor);

struct Binding {
  Image const* image;
  CudaContext context;  // null: CPU
  std::string device;   // for messages: "CUDA device 0 (NVIDIA H200, compute capability 9.0)"
};

// The device's image, chosen and loaded at the first call, then a lookup without a lock.
fp4aot_status bind(fp4aot_device device, Binding const** binding);

// The op's slot in the device's image; FP4AOT_UNSUPPORTED if the image lacks it.
fp4aot_status find_slot(fp4aot_op op, fp4aot_device device, Binding const** binding, Slot const** slot);

// Held while NVML is asked; a fork waits for it.
std::mutex& information_mutex();

// FP4AOT_FORCE_IMAGE, or "" (read when the library is loaded).
std::string const& forced_image();

// What is wrong with FP4AOT_IMAGE_DIR, or "": a directory without images changes nothing, which is not what was meant.
std::string image_directory_complaint();

}  // namespace fp4aot::core

#endif
