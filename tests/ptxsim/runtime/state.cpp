#include "runtime/state.h"

#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "runtime/chips.h"

namespace ptxsim {

namespace {

std::string object_of(void const* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

std::string read_file(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

State& State::get() {
  static State* const state = new State;  // never destroyed: libraries unregister themselves at exit
  return *state;
}

State::State() : device_(chosen_chip()) { streams_[nullptr] = std::make_unique<Stream>(); }

void State::register_kernel(void const* image, void const* stub, char const* name) {
  auto kernel = std::make_unique<Kernel>();
  kernel->name = name;
  kernel->object = object_of(image);
  kernels_[stub] = std::move(kernel);
}

Kernel* State::find_kernel(void const* function) {
  auto const found = kernels_.find(function);
  if (found != kernels_.end()) return found->second.get();
  for (auto const& [stub, kernel] : kernels_) {
    if (kernel.get() == function) return kernel.get();
  }
  return nullptr;
}

std::map<std::string, std::string> const& State::entries(std::string const& object) {
  auto const found = entries_.find(object);
  if (found != entries_.end()) return found->second;
  std::map<std::string, std::string>& result = entries_[object];
  std::istringstream list(read_file(object + ".ptx-list"));
  for (std::string path; std::getline(list, path);) {
    if (path.empty()) continue;
    std::string const text = read_file(path);
    if (text.empty()) fail(cudaErrorInvalidPtx, object + ".ptx-list names " + path + ", which cannot be read");
    constexpr char kEntry[] = ".entry ";
    for (size_t at = text.find(kEntry); at != std::string::npos; at = text.find(kEntry, at)) {
      at += sizeof kEntry - 1;
      size_t const end = text.find_first_of("( \n", at);
      result.emplace(text.substr(at, end - at), path);
    }
  }
  return result;
}

cudaError_t State::load(Kernel& kernel) {
  if (kernel.loaded) return cudaSuccess;
  auto const& known = entries(kernel.object);
  auto const entry = known.find(kernel.name);
  if (entry == known.end()) {
    return fail(cudaErrorInvalidDeviceFunction,
                "no PTX of " + kernel.name + ": it is in no file that " + kernel.object + ".ptx-list names");
  }
  auto module = modules_.find(entry->second);
  if (module == modules_.end()) {
    bool const parsed = device_.load_module(entry->second);
    if (!parsed) fail(cudaErrorInvalidPtx, device_.error());
    module = modules_.emplace(entry->second, parsed).first;
  }
  if (!module->second || !device_.has_kernel(kernel.name)) return fail(cudaErrorInvalidPtx);
  kernel.loaded = true;
  return cudaSuccess;
}

cudaStream_t State::create_stream() {
  auto stream = std::make_unique<Stream>();
  stream->id = next_stream_++;
  auto const handle = reinterpret_cast<cudaStream_t>(stream.get());
  streams_[handle] = std::move(stream);
  return handle;
}

bool State::destroy_stream(cudaStream_t handle) { return handle != nullptr && streams_.erase(handle) == 1; }

Stream* State::find_stream(cudaStream_t handle) {
  if (handle == cudaStreamLegacy || handle == cudaStreamPerThread) handle = nullptr;
  auto const found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second.get();
}

cudaError_t State::in_stream(cudaStream_t handle, std::function<cudaError_t()> work) {
  Stream* const stream = find_stream(handle);
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle, "the stream does not exist");
  if (!stream->capturing) return work();
  stream->captured.push_back(std::move(work));
  return cudaSuccess;
}

cudaError_t State::synchronize() {
  size_t const before = device_.findings().size();
  device_.synchronize();
  if (device_.findings().size() == before) return cudaSuccess;
  return fail(cudaErrorLaunchFailure);
}

cudaError_t& State::last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

cudaError_t State::fail(cudaError_t error, std::string const& why) {
  last_error() = error;
  if (!why.empty()) complaints_ += (complaints_.empty() ? "" : "\n") + why;
  return error;
}

}  // namespace ptxsim
