#include "images/cpu/make_kernel_table.h"
#include "images/cpu/vector_avx512.h"

namespace fp4aot::cpu {

KernelTable const kKernelsAvx512 = make_kernel_table<Avx512>("avx512");

}  // namespace fp4aot::cpu
