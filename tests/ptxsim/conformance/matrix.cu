// Matrix fragments and products. Operands are small integers, so that sums are exact in every order.
#include "program.h"

namespace {

__device__ uint32_t shared_address(void const* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// A bf16 (or fp16) of a small integer.
__device__ uint16_t half_of(int value, bool fp16) {
  uint16_t bits;
  if (fp16) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(static_cast<float>(value)));
  } else {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(static_cast<float>(value)));
  }
  return bits;
}
__device__ int small(int row, int k, int seed) { return (row * 7 + k * 3 + seed * 5 + row * k % 11) % 9 - 4; }
__device__ uint32_t pair(int row, int k, int seed, bool fp16) {
  return half_of(small(row, k, seed), fp16) | static_cast<uint32_t>(half_of(small(row, k + 1, seed), fp16)) << 16;
}

template <bool kTranspose>
__global__ void ldmatrix(uint32_t* out) {
  __shared__ __align__(16) uint16_t tile[32 * 8];
  uint32_t const lane = threadIdx.x;
  for (unsigned i = lane; i < 32 * 8; i += 32) tile[i] = static_cast<uint16_t>(i * 3 + 1);
  __syncwarp();
  uint32_t const address = shared_address(tile + ((lane * 5 + 3) % 32) * 8);  // rows in another order
  uint32_t d[4];
  if (kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(address)
                 : "memory");
  }
  for (int i = 0; i < 4; ++i) out[i * 32 + lane] = d[i];
}

__global__ void stmatrix(uint32_t* out) {
  __shared__ __align__(16) uint32_t tile[16 * 4];
  uint32_t const lane = threadIdx.x;
  tile[lane] = tile[lane + 32] = 0;
  __syncwarp();
  uint32_t const address = shared_address(tile + (lane * 3 + 1) % 16 * 4);
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared::cta.b16 [%0], {%1, %2};" ::"r"(address), "r"(lane * 2 + 1),
               "r"(lane + 1000)
               : "memory");
  __syncwarp();
  out[lane] = tile[lane];
  out[lane + 32] = tile[lane + 32];
}

template <bool kFp16>
__global__ void mma_sync(uint32_t* out) {
  int const lane = threadIdx.x, g = lane / 4, t = lane % 4;
  uint32_t a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = pair(g + i % 2 * 8, 2 * t + i / 2 * 8, 1, kFp16);
  for (int i = 0; i < 2; ++i) b[i] = pair(g, 2 * t + i * 8, 2, kFp16);
  float c[4], d[4];
  for (int i = 0; i < 4; ++i) c[i] = static_cast<float>(lane * 4 + i);
  if (kFp16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, "
        "%12, "
        "%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, "
        "%12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
  for (int i = 0; i < 4; ++i) out[i * 32 + lane] = __float_as_uint(d[i]);
}

// With the sums as operands: else the compiler may set them between the fence and the product.
__device__ void fence(float (&d)[8]) {
  asm volatile("wgmma.fence.sync.aligned;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
                 "+f"(d[7])::"memory");
}

// D[64, 16] = A[64, 64] B[16, 64]^T (+ D twice), B K-major in shared memory with the 128-byte swizzle; A from registers
// or likewise from shared memory.
template <bool kRegisters, bool kFp16>
__global__ void __launch_bounds__(128) wgmma(uint32_t* out) {
  __shared__ __align__(1024) uint8_t tiles[(64 + 16) * 128];
  int const thread = threadIdx.x, lane = thread % 32, warp = thread / 32, g = lane / 4, t = lane % 4;
  for (int i = thread; i < (64 + 16) * 32; i += 128) {
    int const row = i / 32, k = i % 32 * 2;
    bool const b = row >= 64;
    uint32_t const offset = row * 128 + k * 2;  // the B tile follows at a multiple of 1024
    uint32_t const value = b ? pair(row - 64, k, 2, kFp16) : pair(row, k, 1, kFp16);
    *reinterpret_cast<uint32_t*>(tiles + (offset ^ (offset >> 7 & 7) << 4)) = value;
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  auto descriptor = [](uint32_t address) {
    return uint64_t{1} << 62 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 16 | (address & 0x3FFFF) >> 4;
  };
  float d[8] = {};
  for (int pass = 0; pass < 2; ++pass) {
    for (int k = 0; k < 4; ++k) {
      int const accumulate = pass + k;
      uint64_t const b = descriptor(shared_address(tiles + 64 * 128)) + k * 2;
      if (kRegisters) {
        uint32_t a[4];
        for (int i = 0; i < 4; ++i) a[i] = pair(warp * 16 + g + i % 2 * 8, k * 16 + 2 * t + i / 2 * 8, 1, kFp16);
        fence(d);
#define PRODUCT(type)                                                                                             \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %13, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32." type "." type \
               " {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, p, 1, 1, 0; }"                        \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate)                              \
               : "memory")
        if (kFp16) {
          PRODUCT("f16");
        } else {
          PRODUCT("bf16");
        }
#undef PRODUCT
      } else {
        uint64_t const a = descriptor(shared_address(tiles)) + k * 2;
        fence(d);
#define PRODUCT(type)                                                                                             \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %10, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32." type "." type \
               " {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0; }"                                      \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])   \
               : "l"(a), "l"(b), "r"(accumulate)                                                                  \
               : "memory")
        if (kFp16) {
          PRODUCT("f16");
        } else {
          PRODUCT("bf16");
        }
#undef PRODUCT
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
  }
  for (int i = 0; i < 8; ++i) {
    asm volatile("" : "+f"(d[i])::"memory");
    out[i * 128 + thread] = __float_as_uint(d[i]);
  }
}

}  // namespace

void matrix_cases() {
  run("ldmatrix", ldmatrix<false>, 1, 32, 128);
  run("ldmatrix_trans", ldmatrix<true>, 1, 32, 128);
  run("stmatrix", stmatrix, 1, 32, 64);
  run("mma_sync_bf16", mma_sync<false>, 1, 32, 128);
  run("mma_sync_f16", mma_sync<true>, 1, 32, 128);
  run("wgmma_registers_bf16", wgmma<true, false>, 1, 128, 8 * 128);
  run("wgmma_registers_f16", wgmma<true, true>, 1, 128, 8 * 128);
  run("wgmma_descriptors_bf16", wgmma<false, false>, 1, 128, 8 * 128);
  run("wgmma_descriptors_f16", wgmma<false, true>, 1, 128, 8 * 128);
}
