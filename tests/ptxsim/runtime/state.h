// What the stand-in runtime and driver share: the one device of the process, the kernels that host code registered, and
// where their PTX lies.
//
// A library or program that was linked against the stand-in names the PTX of its units in a text file beside it: its own
// path + ".ptx-list", one path a line. Units are parsed when the first of their kernels is used.
#ifndef PTXSIM_RUNTIME_STATE_H_
#define PTXSIM_RUNTIME_STATE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "src/device.h"

namespace ptxsim {

// Dynamic shared memory that a kernel may use without cudaFuncSetAttribute.
constexpr int kDefaultSharedBytes = 48 * 1024;
// Shared memory that the system keeps of every resident block.
constexpr int kReservedSharedBytes = 1024;
constexpr int kPortableCluster = 8;

struct Kernel {
  std::string name;    // mangled
  std::string object;  // path of the library or program that registered it
  bool loaded = false;
  int max_dynamic_shared = -1;  // cudaFuncAttributeMaxDynamicSharedMemorySize; -1: never set
  bool non_portable_cluster = false;
};

struct Stream {
  uint64_t id = 0;
  bool capturing = false;
  std::vector<std::function<cudaError_t()>> captured;
};

class State {
 public:
  static State& get();

  // Every public function of the runtime and driver holds it.
  std::recursive_mutex mutex;

  Device& device() { return device_; }

  // Both know kernels by the address of their host stub.
  void register_kernel(void const* image, void const* stub, char const* name);
  // `function`: a host stub, or a Kernel that __cudaGetKernel gave. Null if it is neither.
  Kernel* find_kernel(void const* function);
  // Parses the kernel's PTX if that has not been done.
  cudaError_t load(Kernel& kernel);

  cudaStream_t create_stream();
  bool destroy_stream(cudaStream_t handle);
  Stream* find_stream(cudaStream_t handle);  // the default streams too

  // Does it now, or later, when the captured graph is launched.
  cudaError_t in_stream(cudaStream_t handle, std::function<cudaError_t()> work);
  // Ends all queued work; cudaErrorLaunchFailure if it brought findings.
  cudaError_t synchronize();

  // Kernels that the device has taken, by mangled name.
  std::set<std::string> launched;

  // Error state of the calling thread. fail also keeps a sentence for the harness, where one is given.
  cudaError_t fail(cudaError_t error, std::string const& why = "");
  static cudaError_t& last_error();
  std::string const& complaints() const { return complaints_; }
  void clear_complaints() { complaints_.clear(); }

 private:
  State();
  // Names of entries -> PTX file, of one object.
  std::map<std::string, std::string> const& entries(std::string const& object);

  Device device_;
  std::map<void const*, std::unique_ptr<Kernel>> kernels_;
  std::map<std::string, std::map<std::string, std::string>> entries_;
  std::map<std::string, bool> modules_;  // PTX file -> could be parsed
  std::map<cudaStream_t, std::unique_ptr<Stream>> streams_;
  uint64_t next_stream_ = 1;
  std::string complaints_;
};

// For every function of the runtime: the lock, and the error of this thread.
#define PTXSIM_LOCKED std::lock_guard<std::recursive_mutex> const ptxsim_lock(ptxsim::State::get().mutex)

}  // namespace ptxsim

#endif
