// Moving scale bytes between the linear and the swizzled layout on the CPU, by rows. Compiled without special
// instructions: four bytes at a time is all that the layout allows.
#ifndef FP4AOT_KERNELS_SCALES_CPU_H_
#define FP4AOT_KERNELS_SCALES_CPU_H_

#include <cstring>

#include "fp4aot/formats.h"

namespace fp4aot::cpu {

// Columns [first, first + count) of a row of `columns` scales; first is a multiple of 4. Where they reach the last
// column, the padding behind it is written as zero.
inline void write_swizzled(uint8_t const* linear, int64_t row, int64_t first, int64_t count, int64_t columns,
                           uint8_t* swizzled) {
  uint8_t* atom_row = swizzled + scale_offset(row, first, columns);
  int64_t column = 0;
  for (; column + kScaleAtomColumns <= count; column += kScaleAtomColumns, atom_row += kScaleAtomBytes) {
    std::memcpy(atom_row, linear + column, kScaleAtomColumns);
  }
  if (column < count) {
    uint8_t last[kScaleAtomColumns] = {};
    for (int i = 0; column + i < count; ++i) last[i] = linear[column + i];
    std::memcpy(atom_row, last, kScaleAtomColumns);
  }
}

inline void read_swizzled(uint8_t const* swizzled, int64_t row, int64_t first, int64_t count, int64_t columns,
                          uint8_t* linear) {
  uint8_t const* atom_row = swizzled + scale_offset(row, first, columns);
  int64_t column = 0;
  for (; column + kScaleAtomColumns <= count; column += kScaleAtomColumns, atom_row += kScaleAtomBytes) {
    std::memcpy(linear + column, atom_row, kScaleAtomColumns);
  }
  for (int i = 0; column + i < count; ++i) linear[column + i] = atom_row[i];
}

// Columns [first, first + count) of rows [row, row + rows) -> linear[rows][stride], atom by atom: rows of one atom
// share cache lines, which following single rows through all atoms would fetch again and again. first is a multiple of
// 4; stride is at least count rounded up to 4, and up to 3 bytes behind count are written.
inline void read_swizzled_block(uint8_t const* swizzled, int64_t row, int64_t rows, int64_t first, int64_t count,
                                int64_t columns, uint8_t* linear, int64_t stride) {
  for (int64_t r = 0; r < rows;) {
    int64_t const end = r + kScaleAtomRows - (row + r) % kScaleAtomRows;
    int64_t const stop = end < rows ? end : rows;
    for (int64_t column = 0; column < count; column += kScaleAtomColumns) {
      uint8_t const* const atom = swizzled + scale_offset(row + r, first + column, columns) -
                                  scale_offset((row + r) % kScaleAtomRows, 0, kScaleAtomColumns);
      for (int64_t i = r; i < stop; ++i) {
        int64_t const in_atom = scale_offset((row + i) % kScaleAtomRows, 0, kScaleAtomColumns);
        std::memcpy(linear + i * stride + column, atom + in_atom, kScaleAtomColumns);
      }
    }
    r = stop;
  }
}

// Zeros the last atoms' rows if they are not all in use. To be called before their rows are written: whole atoms of
// contiguous memory are faster to clear than the rows between.
inline void clear_last_atoms(int64_t rows, int64_t columns, uint8_t* swizzled) {
  int64_t const whole = rows / kScaleAtomRows * kScaleAtomRows;
  if (whole == rows) return;
  int64_t const used = swizzled_scale_bytes(whole, columns);
  std::memset(swizzled + used, 0, static_cast<size_t>(swizzled_scale_bytes(rows, columns) - used));
}

}  // namespace fp4aot::cpu

#endif
