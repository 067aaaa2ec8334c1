// Warpgroup matrix products (wgmma.cuh) for few columns: D[64, n] += A[64, 16] B[n, 16]^T with n = 8 to 128, A from
// registers, B by a descriptor of wgmma_descriptor_swizzle128. Registers as in wgmma.cuh; D has n / 2 a thread.
#ifndef FP4AOT_DEVICE_WGMMA_NARROW_CUH_
#define FP4AOT_DEVICE_WGMMA_NARROW_CUH_

#include <cstdint>

namespace fp4aot {

#define FP4AOT_SUMS_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FP4AOT_SUMS_8(d, i) FP4AOT_SUMS_4(d, i), FP4AOT_SUMS_4(d, i + 4)
#define FP4AOT_SUMS_16(d, i) FP4AOT_SUMS_8(d, i), FP4AOT_SUMS_8(d, i + 8)
#define FP4AOT_SUMS_32(d, i) FP4AOT_SUMS_16(d, i), FP4AOT_SUMS_16(d, i + 16)
#define FP4AOT_SUMS_64(d, i) FP4AOT_SUMS_32(d, i), FP4AOT_SUMS_32(d, i + 32)
#define FP4AOT_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define FP4AOT_NAMES_64                                                                                            \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
  "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// names: of the sums; first: of the first operand after them, and so on.
#define FP4AOT_DEFINE_WGMMA_NARROW(function, type, n, count, sums, names, a0, a1, a2, a3, descriptor)               \
  __device__ __forceinline__ void function(float (&d)[count], uint32_t const(&a)[4], uint32_t b) {                  \
    asm volatile(                                                                                                   \
        "{\n"                                                                                                       \
        ".reg .b64 descriptor;\n"                                                                                   \
        "mov.b64 descriptor, {" descriptor                                                                          \
        ", 0x40000040};\n"                                                                                          \
        "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" names "}, {" a0 ", " a1 ", " a2 ", " a3 \
        "}, descriptor, 1, 1, 1, 0;\n"                                                                              \
        "}\n"                                                                                                       \
        : sums(d, 0)                                                                                                \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b)                                                        \
        : "memory");                                                                                                \
  }
#define FP4AOT_DEFINE_WGMMA_NARROW_OF(function, type)                                                                \
  FP4AOT_DEFINE_WGMMA_NARROW(function, type, "8", 4, FP4AOT_SUMS_4, "%0, %1, %2, %3", "%4", "%5", "%6", "%7", "%8")  \
  FP4AOT_DEFINE_WGMMA_NARROW(function, type, "16", 8, FP4AOT_SUMS_8, "%0, %1, %2, %3, %4, %5, %6, %7", "%8", "%9",   \
                             "%10", "%11", "%12")                                                                    \
  FP4AOT_DEFINE_WGMMA_NARROW(function, type, "32", 16, FP4AOT_SUMS_16, FP4AOT_NAMES_16, "%16", "%17", "%18", "%19",  \
                             "%20")                                                                                  \
  FP4AOT_DEFINE_WGMMA_NARROW(function, type, "64", 32, FP4AOT_SUMS_32,                                               \
                             FP4AOT_NAMES_16                                                                         \
                             ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, "                   \
                             "%29, %30, %31",                                                                        \
                             "%32", "%33", "%34", "%35", "%36")                                                      \
  FP4AOT_DEFINE_WGMMA_NARROW(function, type, "128", 64, FP4AOT_SUMS_64, FP4AOT_NAMES_64, "%64", "%65", "%66", "%67", \
                             "%68")

FP4AOT_DEFINE_WGMMA_NARROW_OF(wgmma_narrow_m64k16, "bf16")
FP4AOT_DEFINE_WGMMA_NARROW_OF(wgmma_narrow_m64k16_f16, "f16")

#undef FP4AOT_DEFINE_WGMMA_NARROW_OF
#undef FP4AOT_DEFINE_WGMMA_NARROW
#undef FP4AOT_NAMES_16
#undef FP4AOT_SUMS_32
#undef FP4AOT_SUMS_16
#undef FP4AOT_SUMS_8
#undef FP4AOT_SUMS_4

}  // namespace fp4aot

#endif
