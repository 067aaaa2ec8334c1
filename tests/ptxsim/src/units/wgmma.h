// wgmma.mma_async m64nNkK: the part of one warp.
//
// A warpgroup's warp w (number in the group) computes rows 16w .. 16w + 15, so each warp's part stands alone. A from
// registers and D have mma.sync's fragments: A as of m16n8k16, and D's registers 4j .. 4j + 3 (fp16: 2j, 2j + 1) as C
// of the columns 8j .. 8j + 7 (PTX ISA, register fragments for wgmma).
#ifndef PTXSIM_UNITS_WGMMA_H_
#define PTXSIM_UNITS_WGMMA_H_

#include <cstdint>

#include "units/mma.h"
#include "units/smem_operand.h"

namespace ptxsim {

struct WgmmaShape {
  int n = 8;
  MmaType type = MmaType::kBf16;
  MmaType type_b = MmaType::kBf16;  // another one only among e4m3 and e5m2
  bool fp16_accumulator = false;
  bool negate_a = false, negate_b = false;  // imm-scale-a, imm-scale-b of -1
  Major major_a = Major::kK, major_b = Major::kK;
};
inline int wgmma_k(WgmmaShape const& s) { return s.type == MmaType::kTf32 ? 8 : s.type >= MmaType::kE4m3 ? 32 : 16; }
inline int wgmma_width(WgmmaShape const& s) { return 256 / wgmma_k(s); }
inline int wgmma_d_registers(WgmmaShape const& s) { return s.fp16_accumulator ? s.n / 4 : s.n / 2; }
char const* wgmma_shape_fault(WgmmaShape const& shape);

// The matrices in shared memory: all 64 rows of A, of which a warp reads the 16 from row 16 * warp on; B as n rows.
SmemMatrix wgmma_a_matrix(WgmmaShape const& shape, SmemOperand const& operand);
SmemMatrix wgmma_b_matrix(WgmmaShape const& shape, SmemOperand const& operand);

// Values of a warp's A fragment (4 registers by lane), [16][k].
void wgmma_a_values(WgmmaShape const& shape, uint32_t const (*registers)[kWarpLanes], double* values);

// a: the warp's 16 rows, [16][k]; b: [n][k] (as read_smem_matrix gives it). accumulate: scale-d. d holds the
// accumulators' old values and gets the new ones, [wgmma_d_registers][lane].
void wgmma_warp(WgmmaShape const& shape, double const* a, double const* b, bool accumulate, uint32_t (*d)[kWarpLanes]);

}  // namespace ptxsim

#endif
