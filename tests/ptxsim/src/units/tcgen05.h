// tcgen05: instruction descriptors, the layouts of tensor memory, and the products.
//
// Tensor memory of a CTA: 128 lanes x 512 columns of 32-bit words, address lane << 16 | column. Words are stored here
// as
// [lane][column]. Sources of each layout stand at its function; what was checked against CuTe's layouts (the C++
// headers of CUTLASS 4.8.1, evaluated on the host) is repeated by tests/ptxsim/cute_layouts.cpp.
#ifndef PTXSIM_UNITS_TCGEN05_H_
#define PTXSIM_UNITS_TCGEN05_H_

#include <cstdint>
#include <string>
#include <vector>

#include "units/matmul.h"
#include "units/smem_operand.h"

namespace ptxsim {

constexpr int kTmemLanes = 128, kTmemColumns = 512;
inline int tmem_index(int lane, int column) { return lane * kTmemColumns + column; }

struct TmemAddress {
  int lane, column;
};
// Bits 31:30 of a scale factor's address carry its id (CUTLASS puts it there); everywhere else they must be 0, and bits
// 23 and 9..15 too, or the address lies outside.
inline TmemAddress tmem_address(uint32_t address) {
  return {static_cast<int>(address >> 16), static_cast<int>(address & 0xFFFF)};
}

enum class Tcgen05Kind : uint8_t { kF16, kTf32, kF8f6f4, kMxf8f6f4, kMxf4, kMxf4nvf4 };

// What an instruction asks for: descriptor and qualifiers together.
struct Tcgen05Mma {
  Tcgen05Kind kind = Tcgen05Kind::kF16;
  int ctas = 1;         // cta_group
  int scale_block = 0;  // elements of k that share a scale (16 or 32); 0: none
  int m = 0, n = 0, k = 0;
  MmaType a = MmaType::kFp16, b = MmaType::kFp16;
  bool fp16_accumulator = false, negate_a = false, negate_b = false;
  Major major_a = Major::kK, major_b = Major::kK;
  ScaleType scale = ScaleType::kUe8m0;
  int sf_id_a = 0, sf_id_b = 0;

  int scales() const { return scale_block == 0 ? 0 : k / scale_block; }
  int width() const { return 256 / (k == 96 ? 64 : k); }  // bits of an element in shared memory; rows have 32 bytes
};
// qualifier_block: 16 or 32 as .scale_vec / .block16 / .block32 say (scale_vec::4X of a 4-bit kind is 16, 2X is 32,
// 1X of mxf8f6f4 is 32), 0 without. Checks reserved bits, types and shapes; returns what is wrong, else empty.
std::string decode_tcgen05(Tcgen05Kind kind, int ctas, int qualifier_block, uint32_t descriptor, Tcgen05Mma* mma);

// D. Element (m, n) lies in CTA `cta` of the pair. fp16 accumulators take the low half of a word.
//   1 CTA, M = 128: lane m, column n. M = 64: lanes 0..15 of each quarter, lane m % 16 + 32 * (m / 16) (PTX layout F;
//   CuTe tmem_frg_1sm with 16-lane atoms 32 apart).
//   2 CTAs, M = 256: CTA m / 128, lane m % 128 (layout A). M = 128: CTA m / 64, lane m % 64 + 64 * (n >= N / 2), column
//   n % (N / 2) (layout B; CuTe's 2x2 atom).
struct TmemPlace {
  int cta, lane, column;
};
TmemPlace tcgen05_d_place(Tcgen05Mma const& mma, int m, int n);
// Columns that D takes of a lane: so many elements of a row, from a multiple of that number on, lie in one lane.
inline int tcgen05_d_columns(Tcgen05Mma const& mma) { return mma.ctas == 2 && mma.m == 128 ? mma.n / 2 : mma.n; }

// Scale factors. Row r (of A in its CTA, or of B over all of N) and index j along k: column base + r / 32 + S * (i /
// 4), byte i % 4, where i = sf_id + j and S is 4 for A and for B up to N = 128, else 8. All four quarters of the
// lanes hold a copy at lane r % 32 + 32 * q, and the datapath of quarter q reads copy q. The rows and the replication
// agree with CuTe's tmem_sf_frg, and so does i / 4 for K = 96 in the shapes that its SM103 main loop steps through.
struct ScalePlace {
  int column, byte;  // column relative to the base
};
ScalePlace tcgen05_scale_place(bool of_b, Tcgen05Mma const& mma, int row, int j);
// Words of a scale factor operand: visit(lane, column) for all four copies, column relative to the base.
template <class Visit>
void for_each_scale_word(bool of_b, Tcgen05Mma const& mma, Visit&& visit) {
  int const rows = of_b ? mma.n : 128;
  int const first = of_b ? mma.sf_id_b : mma.sf_id_a;
  for (int word = 0; word * 4 < first + mma.scales(); ++word)
    for (int row = 0; row < rows; ++row)
      for (int q = 0; q < 4; ++q)
        visit(row % 32 + 32 * q, tcgen05_scale_place(of_b, mma, row, word * 4 - first).column);
}

// The matrices in the shared memory of one CTA: A has m / ctas rows, B n / ctas.
SmemMatrix tcgen05_a_matrix(Tcgen05Mma const& mma, SmemOperand const& operand);
SmemMatrix tcgen05_b_matrix(Tcgen05Mma const& mma, SmemOperand const& operand);
// A in tensor memory (16- and 32-bit types, m / ctas = 128): lane m, word k * width / 32. Values [128][k].
void tcgen05_a_from_tmem(Tcgen05Mma const& mma, uint32_t const* words, TmemAddress base, double* values);

// The product for one CTA `cta` of the group. a: its rows [m / ctas][k]; b: all of B, [n][k], CTA 0's rows first.
// words: the CTA's tensor memory. d, scale_a, scale_b: bases (scale addresses without the id bits). accumulate:
// enable-input-d. scale_d: D is divided by 2^scale_d first. disabled: bit l set: lane l is not written. Returns
// false, and marks the rows and columns, if a scale byte that was used is not a scale.
struct Tcgen05Invalid {
  bool row[kTmemLanes] = {};  // of this CTA
  bool column[256] = {};
};
struct Tcgen05Run {
  double const* a;
  double const* b;
  uint32_t* words;
  TmemAddress d, scale_a, scale_b;
  bool accumulate = false;
  int scale_d = 0;
  uint32_t disabled[4] = {0, 0, 0, 0};
};
bool tcgen05_product(Tcgen05Mma const& mma, int cta, Tcgen05Run const& run, Tcgen05Invalid* invalid);

// tcgen05.ld and .st. Lane and column are relative to the address; the address's lane is a multiple of 32 that the
// warp may reach (quarter = warp % 4), or 16 more for the 16-lane shapes. Agrees with CuTe's TMEM_LOAD layouts.
enum class TmemShape : uint8_t { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };
// Registers of a repetition .x1, the largest repetition, and words of a row that it reaches.
int tmem_registers(TmemShape shape);
int tmem_max_repeat(TmemShape shape);
// split: the immediate of 16x32bx2: where the upper half's columns begin.
TmemAddress tmem_access(TmemShape shape, int reg, int lane, int split);
// With pack::16b / unpack::16b, a register holds the low halves of two columns: 2c and 2c + 1 for what tmem_access
// calls c.

// tcgen05.cp. Chunk by chunk: visit(address in shared memory, row, chunk); row and chunk tell the destination: 4
// words at column 4 * chunk of the lanes tmem_cp_lanes() gives.
enum class TmemCopy : uint8_t { k128x256b, k128x128b, k64x128bWarpx2_02_13, k64x128bWarpx2_01_23, k32x128bWarpx4 };
SmemMatrix tmem_cp_matrix(TmemCopy copy, SmemOperand const& operand);  // 8-bit elements, K-major
int tmem_cp_lanes(TmemCopy copy, int row, int lanes[4]);               // how many

}  // namespace ptxsim

#endif
