#include "runtime/chips.h"

#include <cstdio>
#include <cstdlib>

namespace ptxsim {

namespace {

constexpr int kKiB = 1024;

// A small number of multiprocessors, so that a small problem takes several waves; no smaller than a cluster of the
// largest portable size, which must be resident as a whole.
constexpr int kMultiprocessors = 8;

Properties datacenter(char const* name, int major, int minor, bool tensor_memory) {
  Properties p;
  p.name = name;
  p.major = major;
  p.minor = minor;
  p.multiprocessors = kMultiprocessors;
  p.shared_bytes_per_block = 227 * kKiB;
  p.shared_bytes_per_multiprocessor = 228 * kKiB;
  p.max_threads_per_multiprocessor = 2048;
  p.max_cluster = 16;
  p.tensor_memory = tensor_memory;
  return p;
}

Properties workstation(char const* name, int major, int minor) {
  Properties p;
  p.name = name;
  p.major = major;
  p.minor = minor;
  p.multiprocessors = kMultiprocessors;
  p.shared_bytes_per_block = 99 * kKiB;
  p.shared_bytes_per_multiprocessor = 100 * kKiB;
  p.max_threads_per_multiprocessor = 1536;
  p.max_cluster = 8;
  return p;
}

}  // namespace

std::vector<Chip> const& chips() {
  static std::vector<Chip> const table = {
      {"sm90a", datacenter("simulated H200", 9, 0, false)},
      {"sm100a", datacenter("simulated B200", 10, 0, true)},
      {"sm103a", datacenter("simulated B300", 10, 3, true)},
      {"sm120a", workstation("simulated RTX PRO 6000", 12, 0)},
  };
  return table;
}

Properties chosen_chip() {
  char const* const wanted = std::getenv("FP4AOT_SIM");
  std::string known;
  for (Chip const& chip : chips()) {
    if (wanted != nullptr && std::string(wanted) == chip.image) {
      Properties p = chip.properties;
      if (char const* const count = std::getenv("PTXSIM_MULTIPROCESSORS")) p.multiprocessors = std::atoi(count);
      if (p.multiprocessors < 1) {
        std::fprintf(stderr, "ptxsim: PTXSIM_MULTIPROCESSORS must be a number of at least 1\n");
        std::exit(2);
      }
      return p;
    }
    known += (known.empty() ? "" : ", ") + std::string(chip.image);
  }
  std::fprintf(stderr, "ptxsim: FP4AOT_SIM%s%s names no chip; set it to one of %s\n", wanted != nullptr ? "=" : "",
               wanted != nullptr ? wanted : " is not set and", known.c_str());
  std::exit(2);
}

}  // namespace ptxsim
