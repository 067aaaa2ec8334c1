// The simulated GPU as a runtime library sees it: properties, memory, modules of PTX, streams and launches.
//
// Device memory is host memory at the same address, so that a pointer means the same on both sides; only allocate()d
// ranges may be touched by kernels. Faults of a kernel are collected as findings, not thrown, so that one run can show
// several; an instruction that the simulator does not know, and a kernel that cannot go on, end the launch.
#ifndef PTXSIM_DEVICE_H_
#define PTXSIM_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ptxsim {

struct Properties {
  std::string name;                // e.g. "simulated B300"
  int major = 0, minor = 0;        // compute capability
  int multiprocessors = 0;         // few are enough: they only bound how many CTAs are resident at once
  int shared_bytes_per_block = 0;  // the most that a kernel may opt in to, static and dynamic together
  int shared_bytes_per_multiprocessor = 0;
  int registers_per_multiprocessor = 65536;
  int max_threads_per_multiprocessor = 2048;
  int max_cluster = 8;         // 16 where a kernel allows a non-portable size
  bool tensor_memory = false;  // tcgen05
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct LaunchConfig {
  Dim3 grid, block, cluster;
  uint32_t dynamic_shared_bytes = 0;
  uint64_t stream = 0;
  // Programmatic stream serialisation: the grid may start before its predecessor in the stream has ended.
  bool programmatic = false;
  // Launched in clusters, if only of one CTA each; else hardware refuses st.async.
  bool clustered = true;
};

// One violation of a check. Positions: of the first lane concerned.
struct Finding {
  std::string check;    // stable name, e.g. "global-out-of-bounds", "missing-proxy-fence"
  std::string message;  // what was done, to what, and what would be right
  std::string kernel;   // demangled
  Dim3 cta;
  int warp = -1, lane = -1;
  std::string ptx_file;
  int ptx_line = 0;
  std::string source;  // "file:line" from .loc, empty without -lineinfo
};

// Counts of one launch, summed over its threads.
struct Counts {
  std::string kernel;
  std::string json;  // one object: see counts.h
};

class Machine;

class Device {
 public:
  explicit Device(Properties properties);
  ~Device();
  Properties const& properties() const;

  // Memory: fresh bytes count as never written. Guard zones around an allocation are never valid. Null if bytes == 0.
  void* allocate(size_t bytes);
  bool release(void* start);  // false: not the start of an allocation
  // The whole range lies in one allocation (which a finding would name).
  bool allocated(void const* start, size_t bytes) const;
  // The runtime's own writes and reads (memcpy, memset): mark bytes as written; report reads of never-written ones.
  void host_wrote(void* start, size_t bytes);
  bool host_may_read(void const* start, size_t bytes) const;

  // Adds every kernel of a PTX file; false, with error(), if it cannot be parsed.
  bool load_module(std::string const& path);
  bool has_kernel(std::string const& mangled) const;
  std::vector<std::string> kernels() const;  // mangled names of all
  // Static facts of a kernel, as cudaFuncGetAttributes would give them. Parameter sizes and offsets in order.
  struct Parameter {
    size_t offset, size;
  };
  std::vector<Parameter> parameters(std::string const& mangled) const;
  size_t static_shared_bytes(std::string const& mangled) const;
  uint32_t max_threads(std::string const& mangled) const;   // .maxntid product, or the device's limit
  Dim3 required_cluster(std::string const& mangled) const;  // .reqnctapercluster, or zeros

  // Queues a grid; parameters: the bytes of all of the kernel's parameters at their offsets. False, with error(), if
  // the launch is invalid (unknown kernel, too much shared memory, bad cluster, ...). Grids of a stream run in order,
  // all of them before synchronize() returns; a programmatic one overlaps its predecessor as far as the model allows.
  bool launch(std::string const& mangled, LaunchConfig const& config, std::vector<uint8_t> const& parameters);
  void synchronize();

  // How launches run from now on. seed: of the order in which warps and asynchronous completions take turns (0: round
  // robin); results must not depend on it. completion: when asynchronous operations complete: "eager" (as soon as
  // possible; arrivals at a cluster's barrier wait for all others then, as under compute-sanitizer), "random", or "lazy"
  // (not before nothing else can run; the default). threads: of the host (0: one a core).
  bool set_schedule(uint64_t seed, std::string const& completion, int threads = 0);

  // Of everything since the last clear_findings(). Complete after synchronize().
  std::vector<Finding> const& findings() const;
  void clear_findings();
  std::vector<Counts> const& counts() const;
  void clear_counts();
  std::string const& error() const;

 private:
  std::unique_ptr<Machine> machine_;
};

}  // namespace ptxsim

#endif
