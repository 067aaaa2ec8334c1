#include <stdio.h>

#include "fp4aot/fp4aot.h"

int main(void) {
  fp4aot_device cpu = {FP4AOT_CPU, 0};
  printf("%s %u %d\n", fp4aot_version(), (unsigned)fp4aot_abi_version(), fp4aot_supports(FP4AOT_OP_gemm_nvfp4, cpu));
  return 0;
}
