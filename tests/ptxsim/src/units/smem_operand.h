// Matrices in shared memory as the tensor cores of sm_90 (wgmma) and sm_100 (tcgen05) read them: 64-bit descriptors,
// and the 16-byte chunks that a matrix is made of.
//
// Notation: rows are those of A (M) or columns of B (N). Both generations have the same canonical layouts (CUTLASS's
// comments on its wgmma and UMMA traits; PTX ISA, matrix descriptors), in bytes, before the swizzle:
//   K-major, swizzle span P = 32, 64, 128: row r, byte b of k: (r / 8) * SBO + (r % 8) * P + b; LBO is not used.
//   K-major, no swizzle: 8 rows of 16 bytes make a core matrix: (r / 8) * SBO + (r % 8) * 16 + (b / 16) * LBO + b % 16.
//   MN-major, span P: byte c of the rows: (c / P) * LBO + c % P + (k % 8) * P + (k / 8) * SBO.
//   MN-major, no swizzle: (c / 16) * SBO + c % 16 + (k % 8) * 16 + (k / 8) * LBO.
// The swizzle then applies to the absolute address. A base offset other than 0 (a pattern that is shifted against
// absolute addresses) has no model.
#ifndef PTXSIM_UNITS_SMEM_OPERAND_H_
#define PTXSIM_UNITS_SMEM_OPERAND_H_

#include <cstdint>
#include <string>

#include "units/matmul.h"
#include "units/tensor_map.h"

namespace ptxsim {

enum class Major : uint8_t { kK, kMn };

struct SmemOperand {
  uint32_t start = 0, leading = 0, stride = 0;  // bytes: start address in the CTA's window, LBO, SBO
  TensorSwizzle swizzle = TensorSwizzle::kNone;
  // tcgen05's mode for 48-byte rows: `leading` is the start address of the buffer in which rows go on after their first
  // 128-byte span ends.
  bool leading_is_address = false;
};

// Return what is wrong with a descriptor (reserved bits, unknown swizzle, base offset), else empty.
std::string decode_wgmma_descriptor(uint64_t bits, SmemOperand* operand);
std::string decode_tcgen05_descriptor(uint64_t bits, SmemOperand* operand);

// A matrix to be read: rows (of M or N) x k elements of `width` bits.
struct SmemMatrix {
  SmemOperand operand;
  Major major = Major::kK;
  int width = 16, rows = 0, k = 0;
};
// What is not defined or has no model about it, else empty.
std::string smem_matrix_fault(SmemMatrix const& matrix);

// 16 bytes at `address`: K-major, elements k .. of one row; MN-major, rows row .. at one k.
struct SmemChunk {
  uint32_t address;
  int row, k;
};
inline uint32_t swizzle_span(TensorSwizzle swizzle) {
  return swizzle == TensorSwizzle::kNone  ? 16
         : swizzle == TensorSwizzle::k32B ? 32
         : swizzle == TensorSwizzle::k64B ? 64
                                          : 128;
}

template <class Visit>
void for_each_smem_chunk(SmemMatrix const& m, Visit&& visit) {
  uint32_t const span = swizzle_span(m.operand.swizzle), leading = m.operand.leading, stride = m.operand.stride;
  bool const plain = m.operand.swizzle == TensorSwizzle::kNone;
  int const per_chunk = 128 / m.width;
  if (m.major == Major::kK) {
    for (int row = 0; row < m.rows; ++row) {
      uint32_t const of_row = static_cast<uint32_t>(row / 8) * stride + static_cast<uint32_t>(row % 8) * span;
      for (int k = 0; k < m.k; k += per_chunk) {
        uint32_t const chunk = static_cast<uint32_t>(k / per_chunk);
        uint32_t address = m.operand.start + of_row + (plain ? chunk * leading : chunk * 16);
        if (m.operand.leading_is_address && (m.operand.start & 0x7F) + chunk * 16 >= 128)
          address = leading + of_row + (m.operand.start & 0x7F) + chunk * 16 - 128;
        visit(SmemChunk{swizzle_address(m.operand.swizzle, address), row, k});
      }
    }
    return;
  }
  for (int k = 0; k < m.k; ++k) {
    uint32_t const of_k =
        static_cast<uint32_t>(k % 8) * span + static_cast<uint32_t>(k / 8) * (plain ? leading : stride);
    for (int row = 0; row < m.rows; row += per_chunk) {
      uint32_t const byte = static_cast<uint32_t>(row / per_chunk) * 16;
      uint32_t const of_row = byte / span * (plain ? stride : leading) + byte % span;
      visit(SmemChunk{swizzle_address(m.operand.swizzle, m.operand.start + of_k + of_row), row, k});
    }
  }
}

// Values of the matrix, [rows][k]. shared: the CTA's window from its offset 0; the caller has checked the chunks'
// bounds.
void read_smem_matrix(SmemMatrix const& matrix, MmaType type, uint8_t const* shared, double* values);

}  // namespace ptxsim

#endif
