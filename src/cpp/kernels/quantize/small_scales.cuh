// Scales of matrices that 32 bits count: where one is, and those of rows that do not exist.
#ifndef FP4AOT_KERNELS_QUANTIZE_SMALL_SCALES_CUH_
#define FP4AOT_KERNELS_QUANTIZE_SMALL_SCALES_CUH_

#include <cstdint>

#include "fp4aot/formats.h"

namespace fp4aot {

// scale_offset() of formats.h in 32 bits; or, of linear scales, of rows of `columns`.
__device__ __forceinline__ unsigned small_scale_offset(bool swizzled, unsigned row, unsigned column, unsigned columns,
                                                       unsigned columns_stored) {
  unsigned const atoms_a_row = columns_stored / kScaleAtomColumns;
  unsigned const tile = row / kScaleAtomRows;  // of rows of atoms
  return swizzled ? (tile * atoms_a_row + column / kScaleAtomColumns) * kScaleAtomBytes + row % 32 * 16 +
                        row % kScaleAtomRows / 32 * 4 + column % 4
                  : row * columns + column;
}

// Zeros the scales of `first_row` and later ones in `atoms` atoms of swizzled scales that follow one another. The work is
// shared by `threads` threads, of which this is number `thread`.
__device__ __forceinline__ void zero_scale_padding(uint8_t* scales, unsigned atoms, unsigned first_row, unsigned thread,
                                                   unsigned threads) {
  constexpr unsigned kVectors = 32;  // of 16 bytes, an atom; vector i has rows i, i + 32, i + 64, i + 96
  if (first_row >= kScaleAtomRows) return;
  for (unsigned i = thread; i < atoms * kVectors; i += threads) {
    unsigned const row = i % kVectors;
    uint8_t* const vector = scales + i * 16;
    if (row >= first_row) {
      *reinterpret_cast<uint4*>(vector) = make_uint4(0, 0, 0, 0);
      continue;
    }
#pragma unroll
    for (unsigned j = 1; j < 4; ++j) {
      if (row + j * kVectors >= first_row) *reinterpret_cast<uint32_t*>(vector + j * 4) = 0;
    }
  }
}

}  // namespace fp4aot

#endif
