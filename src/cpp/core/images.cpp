#include "core/images.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "core/image_table.h"  // generated from cmake/images.cmake

namespace fp4aot::core {

namespace {

constexpr int kMaxDevices = 64;

// A fork waits until nobody holds these, so that a child never inherits a lock whose owner it lacks. In this order:
std::mutex info_mutex, bind_mutex, load_mutex;

// Of fp4aot_set_cpu_executor, guarded by load_mutex; run is null: none. A forked child has none of its threads.
fp4aot_executor cpu_executor{};

[[maybe_unused]] int const at_fork = pthread_atfork(
    [] {
      info_mutex.lock();
      bind_mutex.lock();
      load_mutex.lock();
    },
    [] {
      load_mutex.unlock();
      bind_mutex.unlock();
      info_mutex.unlock();
    },
    [] {
      cpu_executor = {};
      load_mutex.unlock();
      bind_mutex.unlock();
      info_mutex.unlock();
    });

std::string environment(char const* name) {
  char const* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string own_directory() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void const*>(&own_directory), &info) == 0 || info.dli_fname == nullptr) return ".";
  std::string const path = info.dli_fname;
  size_t const slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string path_in(std::string const& directory, std::string const& name) {
  return directory + "/libfp4aot_" + name + ".so";
}

bool is_image_in(std::string const& directory, std::string const& name) {
  return access(path_in(directory, name).c_str(), R_OK) == 0;
}

// Where an image's file is: FP4AOT_IMAGE_DIR first, then beside libfp4aot.so. Empty if nowhere.
std::string image_path(std::string const& name) {
  for (std::string const& directory : {environment("FP4AOT_IMAGE_DIR"), own_directory()}) {
    if (!directory.empty() && is_image_in(directory, name)) return path_in(directory, name);
  }
  return "";
}

std::string images_in(std::string const& directory) {
  std::string names;
  for (ImageEntry const& entry : image_table()) {
    if (is_image_in(directory, entry.name)) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names.empty() ? "none" : names;
}

// Why a file cannot be mapped as a library, or "". Opening a pipe would wait for ever, a truncated file end the process with
// SIGBUS, and of one for another machine dlopen says that it does not exist.
std::string file_complaint(std::string const& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return path + " is not a regular file";
  FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return path + " cannot be read";
  Elf64_Ehdr header{};
  bool const read = std::fread(&header, sizeof header, 1, file) == 1;
  bool const elf = read && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
  uint64_t needed = sizeof header;
  if (elf) {
    needed = std::max<uint64_t>(needed, header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize);
    for (int i = 0; i < header.e_phnum; i++) {
      Elf64_Phdr segment{};
      if (std::fseek(file, static_cast<long>(header.e_phoff + uint64_t(i) * header.e_phentsize), SEEK_SET) != 0 ||
          std::fread(&segment, sizeof segment, 1, file) != 1) {
        break;  // the header's own end is beyond the file's: `needed` tells
      }
      if (segment.p_type == PT_LOAD) needed = std::max<uint64_t>(needed, segment.p_offset + segment.p_filesz);
    }
  }
  std::fseek(file, 0, SEEK_END);
  auto const size = static_cast<uint64_t>(std::ftell(file));
  std::fclose(file);
  if (elf && header.e_machine != EM_X86_64) {
    return path + " is for another kind of machine (ELF number " + std::to_string(header.e_machine) +
           "), not x86-64. Install the wheel for this one";
  }
  if (size >= needed) return "";  // whatever else is wrong with it, dlopen says
  return path + " is truncated: it has " + std::to_string(size) + " bytes of " + std::to_string(needed) +
         ". Reinstall fp4aot";
}

struct Loaded {
  Image const* image = nullptr;
  std::string path, error;
};

Loaded load_once(std::string const& name) {
  Loaded result;
  result.path = image_path(name);
  if (result.path.empty()) {
    std::string const asked = environment("FP4AOT_IMAGE_DIR");
    result.error = "libfp4aot_" + name + ".so is " +
                   (asked.empty() ? "not" : "neither in FP4AOT_IMAGE_DIR='" + asked + "' nor") +
                   " in this installation (" + own_directory() + " has: " + images_in(own_directory()) +
                   "). Install a wheel that has it, or build with FP4AOT_IMAGES=" + name + " or all";
    return result;
  }
  result.error = file_complaint(result.path);
  if (!result.error.empty()) return result;
  void* const library = dlopen(result.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    result.error = std::string("it cannot be loaded: ") + dlerror();
    return result;
  }
  auto const entry = reinterpret_cast<Image const* (*)()>(dlsym(library, "fp4aot_image"));
  Image const* const image = entry != nullptr ? entry() : nullptr;
  if (image == nullptr) {
    result.error = result.path + " is not an fp4aot image: it does not export fp4aot_image";
  } else if (image->abi_major != FP4AOT_ABI_MAJOR) {
    result.error = result.path + " has image ABI " + std::to_string(image->abi_major) + "." +
                   std::to_string(image->abi_minor) + ", this libfp4aot.so needs major " +
                   std::to_string(FP4AOT_ABI_MAJOR) + ". Install core and images from the same wheel";
  } else if (image->name == nullptr || name != image->name) {
    result.error =
        result.path + " calls itself '" + (image->name != nullptr ? image->name : "") + "', expected '" + name + "'";
  } else {
    result.image = image;
  }
  if (result.image == nullptr) dlclose(library);
  return result;
}

// Guarded by load_mutex. Failures are kept too: a file that appears later needs a new process.
std::map<std::string, Loaded> loaded;

void give_executor(Image const* image) {
  if (image == nullptr || image->abi_minor < 1 || image->set_executor == nullptr) return;
  image->set_executor(cpu_executor.run != nullptr ? &cpu_executor : nullptr);
}

fp4aot_status bind_cpu(Binding* binding) {
  std::string path, error;
  binding->image = load_image("cpu", &path, &error);
  if (binding->image == nullptr) return fail(FP4AOT_NO_IMAGE, "no image for the CPU: %s.", error.c_str());
  binding->device = "the CPU";
  return FP4AOT_OK;
}

fp4aot_status bind_cuda(int index, Binding* binding) {
  CudaDevice device{};
  FP4AOT_RETURN_IF_ERROR(open_cuda_device(index, &device));
  std::string const capability = std::to_string(device.major) + "." + std::to_string(device.minor);
  binding->device =
      "CUDA device " + std::to_string(index) + " (" + device.name + ", compute capability " + capability + ")";
  binding->context = device.primary;

  Choice const choice = choose_image(device.major, device.minor);
  if (choice.entry == nullptr) return fail(FP4AOT_NO_IMAGE, "%s: %s.", binding->device.c_str(), choice.why.c_str());
  std::string path, error;
  binding->image = load_image(choice.entry->name, &path, &error);
  if (binding->image == nullptr) {
    return fail(FP4AOT_NO_IMAGE, "%s needs image %s, but %s.", binding->device.c_str(), choice.entry->name,
                error.c_str());
  }
  std::string const complaint = driver_complaint(*choice.entry, *binding->image);
  if (!complaint.empty()) {
    return fail(FP4AOT_DRIVER_TOO_OLD, "%s cannot be used: %s.", binding->device.c_str(), complaint.c_str());
  }
  return FP4AOT_OK;
}

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

// These are made when the library is loaded: a lazily made one has a guard, which a fork could catch locked.
std::vector<ImageEntry> const table = {FP4AOT_IMAGE_TABLE};
std::string const forced = environment("FP4AOT_FORCE_IMAGE");

std::vector<ImageEntry> const& image_table() { return table; }

std::mutex& information_mutex() { return info_mutex; }

Choice choose_image(int major, int minor) {
  std::string known;  // "sm90a for 9.0"
  for (ImageEntry const& entry : image_table()) {
    if (entry.major < 0) continue;
    if (forced_image() == entry.name) return {&entry, "FP4AOT_FORCE_IMAGE names it"};
    if (forced_image().empty() && entry.major == major && entry.minor == minor) {
      return {&entry, "its compute capability is exactly that of the image"};
    }
    known += (known.empty() ? "" : ", ") + std::string(entry.name) + " for " + std::to_string(entry.major) + "." +
             std::to_string(entry.minor);
  }
  if (!forced_image().empty()) {
    return {nullptr, "FP4AOT_FORCE_IMAGE='" + forced_image() + "' is not an image for CUDA devices (" + known +
                         "); unset it or name one of them"};
  }
  return {nullptr, "no image is made for this compute capability; an image runs on exactly one (" + known +
                       "). Use such a device or CPU tensors; CONTRIBUTING.md says how to add an architecture"};
}

std::string driver_complaint(ImageEntry const& entry, Image const& image) {
  int const own_major = image.cuda_toolkit / 1000 * 1000;
  int const needed = own_major > entry.oldest_driver ? own_major : entry.oldest_driver;
  int const driver = driver_cuda_version();
  if (driver >= needed) return "";
  return "image " + std::string(entry.name) + " was built with CUDA " + cuda_version(image.cuda_toolkit) +
         " and needs a driver that supports CUDA " + cuda_version(needed) +
         " or later; the installed driver supports " + cuda_version(driver) +
         ". Update the NVIDIA driver, or build fp4aot with an older toolkit";
}

std::string const& forced_image() { return forced; }

std::string image_directory_complaint() {
  std::string const asked = environment("FP4AOT_IMAGE_DIR");
  if (asked.empty() || images_in(asked) != "none") return "";
  return "FP4AOT_IMAGE_DIR='" + asked + "' " +
         (access(asked.c_str(), F_OK) == 0 ? "has no readable image" : "does not exist") +
         "; all images are looked for in " + own_directory();
}

fp4aot_status set_cpu_executor(fp4aot_executor const* given) {
  if (given != nullptr) {
    constexpr size_t kRoomToGrow = 1024;  // beyond it struct_size is garbage
    if (given->struct_size < sizeof *given || given->struct_size > sizeof *given + kRoomToGrow) {
      return fail(FP4AOT_INVALID_ARGUMENT,
                  "fp4aot_set_cpu_executor: struct_size = %zu is not allowed; set it to sizeof(fp4aot_executor) = %zu.",
                  given->struct_size, sizeof(fp4aot_executor));
    }
    if (given->run == nullptr || given->threads == nullptr) {
      return fail(FP4AOT_INVALID_ARGUMENT, "fp4aot_set_cpu_executor: %s is NULL; give a function.",
                  given->run == nullptr ? "run" : "threads");
    }
  }
  std::lock_guard<std::mutex> const lock(load_mutex);
  cpu_executor = given != nullptr ? *given : fp4aot_executor{};
  for (auto const& [name, image] : loaded) give_executor(image.image);
  return FP4AOT_OK;
}

Image const* load_image(std::string const& name, std::string* path, std::string* error) {
  std::lock_guard<std::mutex> const lock(load_mutex);
  auto found = loaded.find(name);
  if (found == loaded.end()) {
    found = loaded.emplace(name, load_once(name)).first;
    if (cpu_executor.run != nullptr) give_executor(found->second.image);
  }
  *path = found->second.path;
  *error = found->second.error;
  return found->second.image;
}

fp4aot_status bind(fp4aot_device device, Binding const** binding) {
  static std::atomic<Binding const*> bindings[kMaxDevices + 1];  // the last is the CPU's
  bool const cpu = device.type == FP4AOT_CPU;
  if (!cpu && device.type != FP4AOT_CUDA) {
    return fail(FP4AOT_INVALID_ARGUMENT, "device.type = %d is not allowed; use FP4AOT_CPU (1) or FP4AOT_CUDA (2).",
                device.type);
  }
  if (cpu ? device.index != 0 : device.index < 0 || device.index >= kMaxDevices) {
    return fail(FP4AOT_INVALID_ARGUMENT, "device.index = %d is not allowed; use 0 for the CPU, 0..%d for CUDA.",
                device.index, kMaxDevices - 1);
  }
  std::atomic<Binding const*>& slot = bindings[cpu ? kMaxDevices : device.index];
  *binding = slot.load(std::memory_order_acquire);
  if (*binding != nullptr) return FP4AOT_OK;
  std::lock_guard<std::mutex> const lock(bind_mutex);
  *binding = slot.load(std::memory_order_acquire);
  if (*binding != nullptr) return FP4AOT_OK;
  Binding made{};
  FP4AOT_RETURN_IF_ERROR(cpu ? bind_cpu(&made) : bind_cuda(device.index, &made));
  *binding = new Binding(made);  // lives as long as the process, like the image
  slot.store(*binding, std::memory_order_release);
  return FP4AOT_OK;
}

fp4aot_status find_slot(fp4aot_op op, fp4aot_device device, Binding const** binding, Slot const** slot) {
  FP4AOT_RETURN_IF_ERROR(bind(device, binding));
  Image const& image = *(*binding)->image;
  // An image of an older minor has fewer slots.
  *slot = static_cast<uint32_t>(op) < image.slot_count ? image.slots[op] : nullptr;
  if (*slot != nullptr) return FP4AOT_OK;
  return fail(FP4AOT_UNSUPPORTED,
              "%s: image %s, which serves %s, has no kernel for it. fp4aot_supports() tells beforehand.",
              fp4aot_op_name(op), image.name, (*binding)->device.c_str());
}

}  // namespace fp4aot::core
