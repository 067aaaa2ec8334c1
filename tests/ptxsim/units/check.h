// CHECK(condition) counts and prints failures; report() ends a test program.
#ifndef PTXSIM_TESTS_UNITS_CHECK_H_
#define PTXSIM_TESTS_UNITS_CHECK_H_

#include <cstdint>
#include <cstdio>

namespace check {

inline long checks = 0, failures = 0;

inline void that(bool fine, char const* text, char const* file, int line) {
  ++checks;
  if (fine) return;
  if (++failures <= 20) std::printf("%s:%d: not so: %s\n", file, line, text);
}

inline int report() {
  std::printf("%ld checks, %ld failures\n", checks, failures);
  return failures == 0 && checks > 0 ? 0 : 1;
}

// A small generator, so that every run is the same.
inline uint32_t random_bits() {
  static uint64_t state = 0x9E3779B97F4A7C15u;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<uint32_t>(state >> 33);
}
inline uint32_t random_below(uint32_t n) { return random_bits() % n; }

}  // namespace check

#define CHECK(condition) check::that((condition), #condition, __FILE__, __LINE__)

#endif
