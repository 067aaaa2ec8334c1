// What a test asks the simulator itself, as C functions: findings, counts and complaints as JSON.
#include <cstdio>
#include <string>

#include "runtime/state.h"

using ptxsim::State;

namespace {

std::string quoted(std::string const& text) {
  std::string result = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      result += escape;
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string json_of(ptxsim::Finding const& f) {
  return "{\"check\": " + quoted(f.check) + ", \"message\": " + quoted(f.message) +
         ", \"kernel\": " + quoted(f.kernel) + ", \"cta\": [" + std::to_string(f.cta.x) + ", " +
         std::to_string(f.cta.y) + ", " + std::to_string(f.cta.z) + "], \"warp\": " + std::to_string(f.warp) +
         ", \"lane\": " + std::to_string(f.lane) + ", \"ptx\": " + quoted(f.ptx_file) +
         ", \"line\": " + std::to_string(f.ptx_line) + ", \"source\": " + quoted(f.source) + "}";
}

}  // namespace

extern "C" {

// Owned by the library, valid until the next call of the same function. Both end all queued work first.
char const* ptxsim_findings_json() {
  PTXSIM_LOCKED;
  static std::string json;
  State::get().device().synchronize();
  json = "[";
  for (ptxsim::Finding const& finding : State::get().device().findings()) {
    json += (json.size() > 1 ? ", " : "") + json_of(finding);
  }
  json += "]";
  return json.c_str();
}

char const* ptxsim_counts_json() {
  PTXSIM_LOCKED;
  static std::string json;
  State::get().device().synchronize();
  json = "[";
  for (ptxsim::Counts const& counts : State::get().device().counts()) {
    json += (json.size() > 1 ? ", " : "") + std::string("{\"kernel\": ") + quoted(counts.kernel) +
            ", \"counts\": " + (counts.json.empty() ? "{}" : counts.json) + "}";
  }
  json += "]";
  return json.c_str();
}

// Mangled names of all kernels launched since the process began, a line each.
char const* ptxsim_launched() {
  PTXSIM_LOCKED;
  static std::string text;
  text.clear();
  for (std::string const& name : State::get().launched) text += name + "\n";
  return text.c_str();
}

// The first byte of the range that was ever written, by a kernel or by a copy; -1: none was.
long long ptxsim_first_written(void const* start, size_t bytes) {
  PTXSIM_LOCKED;
  State::get().device().synchronize();
  auto const* const p = static_cast<unsigned char const*>(start);
  for (size_t i = 0; i < bytes; ++i) {
    if (State::get().device().host_may_read(p + i, 1)) return static_cast<long long>(i);
  }
  return -1;
}

// What the runtime or driver refused and why, and reads of never-written memory by copies; a line each.
char const* ptxsim_complaints() {
  PTXSIM_LOCKED;
  static std::string text;
  text = State::get().complaints();
  return text.c_str();
}

// How asynchronous operations complete ("lazy", "eager", "random" from a seed), and on how many host threads clusters run
// (0: as many as the machine has). False: no such completion.
bool ptxsim_set_schedule(unsigned long long seed, char const* completion, int threads) {
  PTXSIM_LOCKED;
  State::get().device().synchronize();
  return State::get().device().set_schedule(seed, completion, threads);
}

// Forgets findings, counts and complaints.
void ptxsim_clear() {
  PTXSIM_LOCKED;
  State::get().device().synchronize();
  State::get().device().clear_findings();
  State::get().device().clear_counts();
  State::get().clear_complaints();
}

}  // extern "C"
