#include "images/cpu/make_kernel_table.h"
#include "images/cpu/vector_portable.h"

namespace fp4aot::cpu {

KernelTable const kKernelsPortable = make_kernel_table<Portable>("portable");

}  // namespace fp4aot::cpu
