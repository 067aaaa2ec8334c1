// Matrices of 16-bit elements from shared memory to a warp's registers, sm_75 and later.
#ifndef FP4AOT_DEVICE_LDMATRIX_CUH_
#define FP4AOT_DEVICE_LDMATRIX_CUH_

#include <cstdint>

namespace fp4aot {

// Four 8 x 8 matrices: row r of matrix i is the 16 bytes at the address of lane 8 * i + r; v[i] of lane 4 * r + c has its
// elements 2c (low half) and 2c + 1.
__device__ __forceinline__ void shared_load_matrices(uint32_t address, uint32_t (&v)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(address)
               : "memory");
}

}  // namespace fp4aot

#endif
