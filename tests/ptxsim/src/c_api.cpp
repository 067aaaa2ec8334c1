// ptxsim_core_*: a Device for tests that drive it from Python (core_device.py), without the stand-in CUDA runtime.
#include <cstdio>
#include <string>

#include "device.h"

namespace {

struct Core {
  ptxsim::Device device;
  std::string text;
};

std::string quoted(std::string const& text) {
  std::string out = "\"";
  for (char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

extern "C" {

void* ptxsim_core_create(int multiprocessors, int shared_bytes, int max_cluster) {
  ptxsim::Properties p;
  p.name = "core test";
  p.multiprocessors = multiprocessors;
  p.shared_bytes_per_block = shared_bytes;
  p.shared_bytes_per_multiprocessor = shared_bytes + 1024;
  p.max_cluster = max_cluster;
  p.tensor_memory = true;
  return new Core{ptxsim::Device(p), ""};
}
void ptxsim_core_destroy(void* core) { delete static_cast<Core*>(core); }
void* ptxsim_core_allocate(void* core, size_t bytes) { return static_cast<Core*>(core)->device.allocate(bytes); }
int ptxsim_core_release(void* core, void* start) { return static_cast<Core*>(core)->device.release(start); }
void ptxsim_core_wrote(void* core, void* start, size_t bytes) {
  static_cast<Core*>(core)->device.host_wrote(start, bytes);
}
int ptxsim_core_may_read(void* core, void const* start, size_t bytes) {
  return static_cast<Core*>(core)->device.host_may_read(start, bytes);
}
int ptxsim_core_load(void* core, char const* path) { return static_cast<Core*>(core)->device.load_module(path); }
int ptxsim_core_schedule(void* core, uint64_t seed, char const* completion, int threads) {
  return static_cast<Core*>(core)->device.set_schedule(seed, completion, threads);
}

// dims: grid, block, cluster, x first. A cluster of zeros: a launch without clusters.
int ptxsim_core_launch(void* core, char const* kernel, uint32_t const* dims, uint32_t dynamic_shared, uint64_t stream,
                       int programmatic, uint8_t const* parameters, size_t bytes) {
  ptxsim::LaunchConfig config;
  config.grid = {dims[0], dims[1], dims[2]};
  config.block = {dims[3], dims[4], dims[5]};
  config.clustered = dims[6] != 0;
  if (config.clustered) config.cluster = {dims[6], dims[7], dims[8]};
  config.dynamic_shared_bytes = dynamic_shared;
  config.stream = stream;
  config.programmatic = programmatic != 0;
  return static_cast<Core*>(core)->device.launch(kernel, config, std::vector<uint8_t>(parameters, parameters + bytes));
}
void ptxsim_core_synchronize(void* core) { static_cast<Core*>(core)->device.synchronize(); }
char const* ptxsim_core_error(void* core) { return static_cast<Core*>(core)->device.error().c_str(); }

// Findings as a JSON list; forgets them.
char const* ptxsim_core_findings(void* core) {
  Core& c = *static_cast<Core*>(core);
  c.text = "[";
  for (ptxsim::Finding const& f : c.device.findings()) {
    c.text += (c.text.size() > 1 ? ", " : "") + std::string("{\"check\": ") + quoted(f.check) +
              ", \"message\": " + quoted(f.message) + ", \"kernel\": " + quoted(f.kernel) +
              ", \"source\": " + quoted(f.source) + ", \"line\": " + std::to_string(f.ptx_line) +
              ", \"warp\": " + std::to_string(f.warp) + ", \"lane\": " + std::to_string(f.lane) + ", \"cta\": [" +
              std::to_string(f.cta.x) + ", " + std::to_string(f.cta.y) + ", " + std::to_string(f.cta.z) + "]}";
  }
  c.text += "]";
  c.device.clear_findings();
  return c.text.c_str();
}

// Counts of the launches as a JSON list; forgets them.
char const* ptxsim_core_counts(void* core) {
  Core& c = *static_cast<Core*>(core);
  c.text = "[";
  for (ptxsim::Counts const& launch : c.device.counts()) c.text += (c.text.size() > 1 ? ", " : "") + launch.json;
  c.text += "]";
  c.device.clear_counts();
  return c.text.c_str();
}

}  // extern "C"
