#include "units/smem_operand.h"

#include <cstring>

namespace ptxsim {
namespace {

uint32_t bits_of(uint64_t word, int low, int count) {
  return static_cast<uint32_t>(word >> low & ((uint64_t{1} << count) - 1));
}

// The three 14-bit fields, which both generations have in the same place in units of 16 bytes.
void decode_fields(uint64_t bits, SmemOperand* operand) {
  operand->start = bits_of(bits, 0, 14) << 4;
  operand->leading = bits_of(bits, 16, 14) << 4;
  operand->stride = bits_of(bits, 32, 14) << 4;
  operand->leading_is_address = false;
}

std::string base_offset_fault(uint64_t bits) {
  return bits_of(bits, 49, 3) == 0 ? "" : "a base offset other than 0 has no model";
}

}  // namespace

std::string decode_wgmma_descriptor(uint64_t bits, SmemOperand* operand) {
  decode_fields(bits, operand);
  // Bits 14, 15, 30, 31, 46..48 and 52..61 are not used; anything there is a mistake in making the descriptor.
  if (bits_of(bits, 14, 2) != 0 || bits_of(bits, 30, 2) != 0 || bits_of(bits, 46, 3) != 0 || bits_of(bits, 52, 10) != 0)
    return "reserved bits of the matrix descriptor are set";
  constexpr TensorSwizzle kModes[] = {TensorSwizzle::kNone, TensorSwizzle::k128B, TensorSwizzle::k64B,
                                      TensorSwizzle::k32B};
  operand->swizzle = kModes[bits_of(bits, 62, 2)];
  return base_offset_fault(bits);
}

std::string decode_tcgen05_descriptor(uint64_t bits, SmemOperand* operand) {
  decode_fields(bits, operand);
  if (bits_of(bits, 46, 3) != 1) return "bits 46..48 of the matrix descriptor must be 0b001";
  if (bits_of(bits, 53, 8) != 0) return "bits 53..60 of the matrix descriptor must be 0";
  // Bits 14 and 15: CUTLASS's arithmetic on the low word may carry a bit of a shared::cluster address there; ignored.
  if (bits_of(bits, 30, 2) != 0) return "reserved bits 30..31 of the matrix descriptor are set";
  switch (bits_of(bits, 61, 3)) {
    case 0:
      operand->swizzle = TensorSwizzle::kNone;
      break;
    case 1:
      operand->swizzle = TensorSwizzle::k128BAtom32B;
      break;
    case 2:
      operand->swizzle = TensorSwizzle::k128B;
      break;
    case 4:
      operand->swizzle = TensorSwizzle::k64B;
      break;
    case 6:
      operand->swizzle = TensorSwizzle::k32B;
      break;
    default:
      return "no such swizzle mode in the matrix descriptor";
  }
  operand->leading_is_address = bits_of(bits, 52, 1) != 0;
  return base_offset_fault(bits);
}

std::string smem_matrix_fault(SmemMatrix const& m) {
  SmemOperand const& o = m.operand;
  if (m.width != 16 && m.major == Major::kMn) return "only 16-bit matrices can be MN-major here";
  if (o.leading_is_address) {
    if (o.swizzle != TensorSwizzle::k128B || m.major != Major::kK)
      return "an absolute leading address demands K-major and the 128-byte swizzle";
    return "";
  }
  if (m.major == Major::kK && o.swizzle != TensorSwizzle::kNone) {
    // A row must end in the span in which it starts: nothing tells where it would go on.
    uint32_t const span = swizzle_span(o.swizzle);
    if (o.start % span + static_cast<uint32_t>(m.k * m.width / 8) > span)
      return "rows run over the end of the swizzle span";
  }
  return "";
}

void read_smem_matrix(SmemMatrix const& m, MmaType type, uint8_t const* shared, double* values) {
  int const per_chunk = 128 / m.width;
  uint32_t const mask = m.width == 32 ? UINT32_MAX : (1u << m.width) - 1;
  for_each_smem_chunk(m, [&](SmemChunk const& chunk) {
    uint32_t words[4];
    std::memcpy(words, shared + chunk.address, 16);
    for (int i = 0; i < per_chunk; ++i) {
      uint32_t const code = words[i * m.width / 32] >> (i * m.width % 32) & mask;
      int const row = m.major == Major::kK ? chunk.row : chunk.row + i;
      int const k = m.major == Major::kK ? chunk.k + i : chunk.k;
      if (row < m.rows && k < m.k) values[row * m.k + k] = mma_value(type, code);
    }
  });
}

}  // namespace ptxsim
