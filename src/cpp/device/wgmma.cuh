// Warpgroup matrix products (sm_90a): D[64, n] += A[64, 16] B[n, 16]^T, bf16 or fp16 operands, fp32 accumulators.
// A comes from registers, B from shared memory. All four warps of a warpgroup execute every function together.
#ifndef FP4AOT_DEVICE_WGMMA_CUH_
#define FP4AOT_DEVICE_WGMMA_CUH_

#include <cstdint>

#include "device/registers.cuh"

namespace fp4aot {

// Before the first product, and after registers that one uses have been written.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Until at most kPending of the latest groups are unfinished. Operands of unfinished products must not be touched.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving accesses to an accumulator across this point.
template <int kCount>
__device__ __forceinline__ void wgmma_pin(float (&accumulator)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(accumulator[i])::"memory");
}

// The lower half of the descriptor of a K-major tile of 16-bit values, in rows of 128 bytes (64 values) in the 128-byte
// swizzle, at a multiple of 1024 bytes; rows in groups of eight, 1024 bytes apart. Each further 16 values along k: + 2. The
// upper half, 0x40000040, has the swizzle and the distance of the groups.
__device__ __forceinline__ uint32_t wgmma_descriptor_swizzle128(uint32_t shared_address) {
  return 1u << 16 | (shared_address & 0x3FFFF) >> 4;
}

// Accumulator layout, lane = 4 * g + t of warp w: d[4 * i + 2 * h + e] is row 16 * w + g + 8 * h, column 8 * i + 2 * t + e.
// A: a[0], a[1]: rows g, g + 8, k 2t and 2t + 1; a[2], a[3]: the same rows, k 2t + 8 and 2t + 9 (of the warp's 16 rows).
// accumulate = 0: D is overwritten.
#define FP4AOT_DEFINE_WGMMA(function, type)                                                                            \
  __device__ __forceinline__ void function(float (&d)[32], uint32_t const(&a)[4], uint32_t b, int accumulate) {        \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        ".reg .pred p;\n"                                                                                              \
        ".reg .b64 descriptor;\n"                                                                                      \
        "setp.ne.b32 p, %37, 0;\n"                                                                                     \
        "mov.b64 descriptor, {%36, 0x40000040};\n"                                                                     \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                                    \
        " {"                                                                                                           \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                       \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                            \
        "{%32, %33, %34, %35}, descriptor, p, 1, 1, 0;\n"                                                              \
        "}\n"                                                                                                          \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),  \
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),       \
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),      \
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(accumulate)                                          \
        : "memory");                                                                                                   \
  }                                                                                                                    \
  __device__ __forceinline__ void function(float (&d)[64], uint32_t const(&a)[4], uint32_t b, int accumulate) {        \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        ".reg .pred p;\n"                                                                                              \
        ".reg .b64 descriptor;\n"                                                                                      \
        "setp.ne.b32 p, %69, 0;\n"                                                                                     \
        "mov.b64 descriptor, {%68, 0x40000040};\n"                                                                     \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                                   \
        " {"                                                                                                           \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                       \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                             \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                             \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "                            \
        "{%64, %65, %66, %67}, descriptor, p, 1, 1, 0;\n"                                                              \
        "}\n"                                                                                                          \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),  \
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),       \
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),      \
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),      \
          "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),      \
          "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),      \
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),      \
          "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(accumulate)                                          \
        : "memory");                                                                                                   \
  }                                                                                                                    \
  __device__ __forceinline__ void function(float (&d)[96], uint32_t const(&a)[4], uint32_t b, int accumulate) {        \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        ".reg .pred p;\n"                                                                                              \
        ".reg .b64 descriptor;\n"                                                                                      \
        "setp.ne.b32 p, %101, 0;\n"                                                                                    \
        "mov.b64 descriptor, {%100, 0x40000040};\n"                                                                    \
        "wgmma.mma_async.sync.aligned.m64n192k16.f32." type "." type                                                   \
        " {"                                                                                                           \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                       \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                             \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                             \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                             \
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                             \
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "                            \
        "{%96, %97, %98, %99}, descriptor, p, 1, 1, 0;\n"                                                              \
        "}\n"                                                                                                          \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),  \
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),       \
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),      \
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),      \
          "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),      \
          "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),      \
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),      \
          "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]),      \
          "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]),      \
          "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]),      \
          "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]),      \
          "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(accumulate)                                          \
        : "memory");                                                                                                   \
  }                                                                                                                    \
  __device__ __forceinline__ void function(float (&d)[128], uint32_t const(&a)[4], uint32_t b, int accumulate) {       \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        ".reg .pred p;\n"                                                                                              \
        ".reg .b64 descriptor;\n"                                                                                      \
        "setp.ne.b32 p, %133, 0;\n"                                                                                    \
        "mov.b64 descriptor, {%132, 0x40000040};\n"                                                                    \
        "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type                                                   \
        " {"                                                                                                           \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                       \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                             \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                             \
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                             \
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                             \
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                             \
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "                 \
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "            \
        "{%128, %129, %130, %131}, descriptor, p, 1, 1, 0;\n"                                                          \
        "}\n"                                                                                                          \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),  \
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),       \
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),      \
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]),      \
          "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]),      \
          "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),      \
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]),      \
          "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]),      \
          "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]),      \
          "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]),      \
          "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]),      \
          "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]),      \
          "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), \
          "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),            \
          "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]),            \
          "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]),            \
          "+f"(d[126]), "+f"(d[127])                                                                                   \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(accumulate)                                          \
        : "memory");                                                                                                   \
  }

FP4AOT_DEFINE_WGMMA(wgmma_m64k16, "bf16")
FP4AOT_DEFINE_WGMMA(wgmma_m64k16_f16, "f16")
#undef FP4AOT_DEFINE_WGMMA

// The lower half of the descriptor of a K-major tile of 16 values in pieces of 8 rows x 8 values, 128 bytes each, without a
// swizzle: the rows' last 8 values 128 bytes further, the next eight rows 256. At a multiple of 16 bytes. The upper half is
// 16, the distance of the rows.
__device__ __forceinline__ uint32_t wgmma_descriptor_pieces(uint32_t shared_address) {
  return 8u << 16 | (shared_address & 0x3FFFF) >> 4;
}

// As above, with B in such pieces; D is accumulated.
#define FP4AOT_DEFINE_WGMMA_PIECES(function, type)                                                                    \
  __device__ __forceinline__ void function(float (&d)[8], uint32_t const(&a)[4], uint32_t b) {                        \
    asm volatile(                                                                                                     \
        "{\n"                                                                                                         \
        ".reg .b64 descriptor;\n"                                                                                     \
        "mov.b64 descriptor, {%12, 16};\n"                                                                            \
        "wgmma.mma_async.sync.aligned.m64n16k16.f32." type "." type                                                   \
        " {"                                                                                                          \
        "%0, %1, %2, %3, %4, %5, %6, %7}, "                                                                           \
        "{%8, %9, %10, %11}, descriptor, 1, 1, 1, 0;\n"                                                               \
        "}\n"                                                                                                         \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])              \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b)                                                          \
        : "memory");                                                                                                  \
  }                                                                                                                   \
  __device__ __forceinline__ void function(float (&d)[16], uint32_t const(&a)[4], uint32_t b) {                       \
    asm volatile(                                                                                                     \
        "{\n"                                                                                                         \
        ".reg .b64 descriptor;\n"                                                                                     \
        "mov.b64 descriptor, {%20, 16};\n"                                                                            \
        "wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type                                                   \
        " {"                                                                                                          \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "                                     \
        "{%16, %17, %18, %19}, descriptor, 1, 1, 1, 0;\n"                                                             \
        "}\n"                                                                                                         \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), \
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b)                                                          \
        : "memory");                                                                                                  \
  }                                                                                                                   \
  __device__ __forceinline__ void function(float (&d)[32], uint32_t const(&a)[4], uint32_t b) {                       \
    asm volatile(                                                                                                     \
        "{\n"                                                                                                         \
        ".reg .b64 descriptor;\n"                                                                                     \
        "mov.b64 descriptor, {%36, 16};\n"                                                                            \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                                   \
        " {"                                                                                                          \
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                      \
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                           \
        "{%32, %33, %34, %35}, descriptor, 1, 1, 1, 0;\n"                                                             \
        "}\n"                                                                                                         \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), \
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),      \
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),     \
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])                   \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b)                                                          \
        : "memory");                                                                                                  \
  }
FP4AOT_DEFINE_WGMMA_PIECES(wgmma_pieces_m64k16, "bf16")
FP4AOT_DEFINE_WGMMA_PIECES(wgmma_pieces_m64k16_f16, "f16")
#undef FP4AOT_DEFINE_WGMMA_PIECES

}  // namespace fp4aot

#endif
