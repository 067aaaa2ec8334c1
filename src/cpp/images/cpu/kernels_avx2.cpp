#include "images/cpu/make_kernel_table.h"
#include "images/cpu/vector_avx2.h"

namespace fp4aot::cpu {

KernelTable const kKernelsAvx2 = make_kernel_table<Avx2>("avx2");

}  // namespace fp4aot::cpu
