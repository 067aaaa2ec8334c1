// Warp matrix products, sm_80 and later.
#ifndef FP4AOT_DEVICE_MMA_SYNC_CUH_
#define FP4AOT_DEVICE_MMA_SYNC_CUH_

#include <cstdint>

namespace fp4aot {

// D[16, 8] += A[16, 16] B[8, 16]^T, bf16 (or fp16) operands, fp32 accumulators. lane = 4 * g + t:
//   a[0], a[1]: rows g, g + 8, k 2t and 2t + 1; a[2], a[3]: the same rows, k 2t + 8 and 2t + 9
//   b0, b1:     column g, k 2t, 2t + 1 and 2t + 8, 2t + 9
//   d[2 * h + e]: row g + 8 * h, column 2t + e
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace fp4aot

#endif
