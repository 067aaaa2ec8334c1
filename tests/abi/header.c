/* The public header in plain C: prints every struct's size and its fields' offsets. */
#include "fp4aot/fp4aot.h"

#include <stdio.h>

#include "fields.h" /* written by the test: PRINT(struct, field) for each, SIZE(struct) */

int main(void) {
#define SIZE(type) printf("%s %zu\n", #type, sizeof(type));
#define PRINT(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(type, field));
  FIELDS
  printf("abi %u %u\n", (unsigned)FP4AOT_ABI_MAJOR, (unsigned)FP4AOT_ABI_MINOR);
  printf("ops %d\n", (int)FP4AOT_OP_COUNT);
  return fp4aot_op_name(FP4AOT_OP_gemm_nvfp4) == NULL || fp4aot_last_error()[0] != '\0';
}
