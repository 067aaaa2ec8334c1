// tcgen05: tensor memory and the products that work on it, sm_100a and sm_103a.
//
// Tensor memory has 128 lanes x 512 columns of 32 bits, address lane << 16 | column. Warp w reaches the 32 lanes from
// 32 * (w % 4) on. Loads and stores are of a whole warp, products and commits of one thread.
#ifndef FP4AOT_DEVICE_TCGEN05_CUH_
#define FP4AOT_DEVICE_TCGEN05_CUH_

#include <cstdint>

namespace fp4aot {

constexpr uint32_t kTmemColumns = 512;

__device__ __forceinline__ uint32_t tmem_lane(uint32_t lane) { return lane << 16; }

// Takes kColumns, a power of two, 32..512, and stores their address to shared memory. Waits until they are free.
template <uint32_t kColumns>
__device__ __forceinline__ void tmem_allocate(uint32_t shared_destination) {
  static_assert(kColumns >= 32 && kColumns <= kTmemColumns && (kColumns & (kColumns - 1)) == 0);
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_destination),
               "n"(kColumns)
               : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}

template <uint32_t kColumns>
__device__ __forceinline__ void tmem_free(uint32_t address) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(kColumns) : "memory");
}

// Order between tcgen05 instructions of different threads: before a barrier's arrival, and after its wait.
__device__ __forceinline__ void tcgen05_fence_before() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void tcgen05_fence_after() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// Until the warp's loads have given their values, v: nothing that uses them may move above the wait.
template <int kCount>
__device__ __forceinline__ void tmem_wait_loads(float (&v)[kCount]) {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(v[i]));
}

// Until the warp's stores are in tensor memory.
__device__ __forceinline__ void tmem_wait_stores() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

// An arrival at the barrier once this thread's products so far have been computed.
__device__ __forceinline__ void tcgen05_commit(uint32_t barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}

// Descriptor of a K-major operand in shared memory with the 128-byte swizzle: rows of 128 bytes, groups of 8 rows one after
// the other from a multiple of 1024. The next 32 bytes along k are 2 further.
__device__ __forceinline__ uint64_t tcgen05_descriptor_swizzle128(uint32_t shared_address) {
  constexpr uint64_t kSwizzle128 = uint64_t{2} << 61, kVersion = uint64_t{1} << 46, kGroup = uint64_t{1024 >> 4} << 32;
  return kSwizzle128 | kVersion | kGroup | uint64_t{1} << 16 | (shared_address & 0x3FFFF) >> 4;
}

// Instruction descriptor of kind::f16: 128 rows x `columns`, both operands K-major, fp32 sums.
constexpr uint32_t tcgen05_instruction(bool bf16, uint32_t columns) {
  return uint32_t{1} << 4 | (bf16 ? uint32_t{1} << 7 | uint32_t{1} << 10 : 0) | columns / 8 << 17 |
         uint32_t{128 / 16} << 24;
}

// d[128, columns] (+)= a[128, 16] * b[columns, 16]^T of 16-bit values. d, a: in tensor memory, row = lane; a has two values
// of k in each of 8 columns, the lower k in the lower half. b: a descriptor.
__device__ __forceinline__ void tcgen05_multiply(uint32_t d, uint32_t a, uint64_t b, uint32_t instruction,
                                                 bool accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred accumulate;\n"
      "setp.ne.u32 accumulate, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, accumulate;\n"
      "}\n" ::"r"(d),
      "r"(a), "l"(b), "r"(instruction), "r"(static_cast<uint32_t>(accumulate))
      : "memory");
}

// Stores 16 lanes x 32 columns. Of columns 8 * i .. 8 * i + 7, v[4 * i .. 4 * i + 3] of lane 4 * g + t are, as an A operand of
// mma.m16n8k16: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4). The address's lane: the warp's first or the 16th after it.
__device__ __forceinline__ void tmem_store_fragments(uint32_t address, uint32_t const (&v)[16]) {
  asm volatile(
      "tcgen05.st.sync.aligned.16x128b.x8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16};" ::"r"(address),
      "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(v[4]), "r"(v[5]), "r"(v[6]), "r"(v[7]), "r"(v[8]), "r"(v[9]),
      "r"(v[10]), "r"(v[11]), "r"(v[12]), "r"(v[13]), "r"(v[14]), "r"(v[15])
      : "memory");
}

#define FP4AOT_TMEM_OUT8(v, i)                                                                                \
  "=f"(v[i]), "=f"(v[i + 1]), "=f"(v[i + 2]), "=f"(v[i + 3]), "=f"(v[i + 4]), "=f"(v[i + 5]), "=f"(v[i + 6]), \
      "=f"(v[i + 7])
#define FP4AOT_TMEM_IN8(v, i) \
  "f"(v[i]), "f"(v[i + 1]), "f"(v[i + 2]), "f"(v[i + 3]), "f"(v[i + 4]), "f"(v[i + 5]), "f"(v[i + 6]), "f"(v[i + 7])

// 32 columns of the warp's 32 lanes: v[i] of a lane is column i. Valid after tmem_wait_loads.
__device__ __forceinline__ void tmem_load_columns(uint32_t address, float (&v)[32]) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, "
      "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
      : FP4AOT_TMEM_OUT8(v, 0), FP4AOT_TMEM_OUT8(v, 8), FP4AOT_TMEM_OUT8(v, 16), FP4AOT_TMEM_OUT8(v, 24)
      : "r"(address)
      : "memory");
}
__device__ __forceinline__ void tmem_store_columns(uint32_t address, float const (&v)[32]) {
  asm volatile(
      "tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
      "%15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31};" ::FP4AOT_TMEM_IN8(v, 0),
      FP4AOT_TMEM_IN8(v, 8), FP4AOT_TMEM_IN8(v, 16), FP4AOT_TMEM_IN8(v, 24), "r"(address)
      : "memory");
}

// 64 columns of 16 lanes as accumulators of mma: of columns 8 * i .. 8 * i + 7, v[4 * i .. 4 * i + 3] of lane 4 * g + t are
// (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1). The address's lane: as tmem_store_fragments. Valid after
// tmem_wait_loads.
__device__ __forceinline__ void tmem_load_accumulators(uint32_t address, float (&v)[32]) {
  asm volatile(
      "tcgen05.ld.sync.aligned.16x256b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, "
      "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
      : FP4AOT_TMEM_OUT8(v, 0), FP4AOT_TMEM_OUT8(v, 8), FP4AOT_TMEM_OUT8(v, 16), FP4AOT_TMEM_OUT8(v, 24)
      : "r"(address)
      : "memory");
}
#undef FP4AOT_TMEM_OUT8
#undef FP4AOT_TMEM_IN8

}  // namespace fp4aot

#endif
