#include "counts.h"

namespace ptxsim {
namespace {

// In the order of Class.
char const* const kClasses[] = {
    "move",         "integer", "logic",      "float",       "half",  "convert",       "compare",
    "control",      "vote",    "barrier",    "mbarrier",    "fence", "global_memory", "shared_memory",
    "other_memory", "atomic",  "async_copy", "tensor_copy", "mma",   "tensor_memory", "other"};
char const* const kTraffic[] = {"global_load",       "global_store", "shared_load", "shared_store", "tensor_copy_load",
                                "tensor_copy_store", "bulk_load",    "bulk_store",  "async_copy"};
char const* const kWaits[] = {"barrier", "mbarrier", "cluster", "grid"};

std::string quoted(std::string const& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string triple(uint32_t const v[3]) {
  return "[" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) + "]";
}

template <size_t N>
std::string object(char const* const (&names)[N], uint64_t const* values) {
  std::string out = "{";
  for (size_t i = 0; i < N; ++i) {
    if (values[i] == 0) continue;
    if (out.size() > 1) out += ", ";
    out += quoted(names[i]) + ": " + std::to_string(values[i]);
  }
  return out + "}";
}

}  // namespace

void Tally::merge(Tally const& other) {
  for (int i = 0; i < kClassSlots; ++i) thread_instructions[i] += other.thread_instructions[i];
  warp_instructions += other.warp_instructions;
  for (int i = 0; i < static_cast<int>(Traffic::kCount); ++i) bytes[i] += other.bytes[i];
  for (int i = 0; i < static_cast<int>(Wait::kCount); ++i) waits[i] += other.waits[i];
  for (auto const& [name, n] : other.mma) mma[name] += n;
}

std::string Tally::json(std::string const& kernel, uint32_t const grid[3], uint32_t const block[3],
                        uint32_t const cluster[3]) const {
  std::string products = "{";
  for (auto const& [name, n] : mma) {
    products += (products.size() > 1 ? ", " : "") + quoted(name) + ": " + std::to_string(n);
  }
  return "{\"kernel\": " + quoted(kernel) + ", \"grid\": " + triple(grid) + ", \"block\": " + triple(block) +
         ", \"cluster\": " + triple(cluster) + ", \"thread_instructions\": " + object(kClasses, thread_instructions) +
         ", \"warp_instructions\": " + std::to_string(warp_instructions) + ", \"mma\": " + products +
         "}, \"bytes\": " + object(kTraffic, bytes) + ", \"waits\": " + object(kWaits, waits) + "}";
}

}  // namespace ptxsim
