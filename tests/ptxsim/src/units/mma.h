// mma.sync: where the elements of fragments lie in a warp's registers, and the product.
//
// With g = lane / 4 and t = lane % 4, and e elements of a register (32 / width): register r of A holds row g + 8 * (r
// % 2) and k = (r / 2) * 4e + t * e + i in its i-th field from the low bits; register r of B holds column g and
// k = r * 4e + t * e + i. C and D of float: registers 2i, 2i + 1 hold row g + 8i, columns 2t, 2t + 1; of fp16:
// register i holds that pair. This is one formula for all shapes m16n8kK (PTX ISA, matrix fragments for mma).
#ifndef PTXSIM_UNITS_MMA_H_
#define PTXSIM_UNITS_MMA_H_

#include <cstdint>

#include "units/matmul.h"

namespace ptxsim {

constexpr int kWarpLanes = 32;

// Bits that an element takes in a register: 16, 32 (tf32), 8 (also for the 6- and 4-bit types of kind::f8f6f4, see
// MmaShape::container_8), or 4.
struct MmaShape {
  int k = 16;  // m and n are 16 and 8
  MmaType a = MmaType::kBf16, b = MmaType::kBf16;
  bool fp16_accumulator = false;
  // kind::f8f6f4 and kind::mxf8f6f4: every element takes a byte; e2m1 codes lie in bits 2..5 of theirs.
  bool container_8 = false;
  int scales = 0;  // scale_vec: scales per row along k, 0 (none), 1, 2 or 4
  ScaleType scale = ScaleType::kUe8m0;
};
int mma_width(MmaShape const& shape, MmaType type);
int mma_a_registers(MmaShape const& shape);
int mma_b_registers(MmaShape const& shape);
inline int mma_c_registers(MmaShape const& shape) { return shape.fp16_accumulator ? 2 : 4; }

// What may be asked for; empty if the shape exists and is modelled.
char const* mma_shape_fault(MmaShape const& shape);

// One element's place: register, lane and lowest bit.
struct MmaPlace {
  int reg, lane, bit;
};
MmaPlace mma_a_place(MmaShape const& shape, int row, int k);
MmaPlace mma_b_place(MmaShape const& shape, int k, int column);
MmaPlace mma_c_place(MmaShape const& shape, int row, int column);

// Scale selectors: {byte-id, thread-id} of A and B. Of A, the lanes with t = 2 * thread-id hold the scales of rows g
// and those with t = 2 * thread-id + 1 of rows g + 8; of B, the lanes with t = thread-id hold those of columns g. The
// bytes byte-id .. byte-id + scales - 1 belong to k = 0.., K / scales each.
struct MmaScaleSelect {
  int byte_a = 0, thread_a = 0, byte_b = 0, thread_b = 0;
};
char const* mma_select_fault(MmaShape const& shape, MmaScaleSelect const& select);

// Registers are arrays [register][lane]. Scales: one register, by lane. The result tells the rows and columns (as
// bits) for which a byte was used that is not a scale (scale_is_valid); they are computed nevertheless.
struct MmaInvalid {
  uint32_t rows = 0, columns = 0;
};
struct MmaOperands {
  uint32_t const (*a)[kWarpLanes];
  uint32_t const (*b)[kWarpLanes];
  uint32_t const (*c)[kWarpLanes];
  uint32_t const* scale_a = nullptr;
  uint32_t const* scale_b = nullptr;
  MmaScaleSelect select;
};
// A's values, [row][k], from its registers.
void mma_a_values(MmaShape const& shape, uint32_t const (*registers)[kWarpLanes], double* values);
MmaInvalid mma_sync(MmaShape const& shape, MmaOperands const& operands, uint32_t (*d)[kWarpLanes]);

}  // namespace ptxsim

#endif
