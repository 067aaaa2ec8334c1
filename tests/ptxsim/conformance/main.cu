#include "program.h"

extern "C" int conformance() {
  elementwise_cases();
  warp_cases();
  matrix_cases();
  copy_cases();
  std::fflush(stdout);
  return 0;
}

int main() { return conformance(); }
