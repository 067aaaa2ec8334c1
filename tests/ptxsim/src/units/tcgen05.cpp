#include "units/tcgen05.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ptxsim {
namespace {

constexpr int kQuarterLanes = 32;

int words_apart(bool of_b, Tcgen05Mma const& mma) { return of_b && mma.n > 128 ? 8 : 4; }

// Scales of `rows` rows by the copy of quarter q, [row][scale].
bool read_scales(Tcgen05Mma const& mma, bool of_b, int rows, int q, uint32_t const* words, TmemAddress base,
                 double* out, bool* invalid) {
  bool valid = true;
  int const scales = mma.scales();
  for (int row = 0; row < rows; ++row)
    for (int j = 0; j < scales; ++j) {
      ScalePlace const p = tcgen05_scale_place(of_b, mma, row, j);
      uint32_t const word = words[tmem_index(row % 32 + kQuarterLanes * q, base.column + p.column)];
      uint32_t const byte = word >> 8 * p.byte & 0xFF;
      if (!scale_is_valid(mma.scale, byte)) invalid[row] = true, valid = false;
      out[row * scales + j] = scale_value(mma.scale, byte);
    }
  return valid;
}

void scale_rows(Tcgen05Mma const& mma, int rows, double const* scales, double const* values, double* out) {
  for (int row = 0; row < rows; ++row)
    for (int k = 0; k < mma.k; ++k)
      out[row * mma.k + k] = values[row * mma.k + k] * scales[row * mma.scales() + k / mma.scale_block];
}

void transpose(double const* from, int rows, int k, double sign, double* to) {
  for (int row = 0; row < rows; ++row)
    for (int l = 0; l < k; ++l) to[l * rows + row] = sign * from[row * k + l];
}

// `count` words from a column on.
void store(Tcgen05Mma const& mma, Tcgen05Run const& run, int lane, int column, int count, double const* sums) {
  if ((run.disabled[lane / 32] >> lane % 32 & 1) != 0) return;
  uint32_t* const words = run.words + tmem_index(run.d.lane + lane, run.d.column + column);
  double const factor = std::ldexp(1.0, -run.scale_d);
  for (int i = 0; i < count; ++i) {
    if (mma.fp16_accumulator) {
      double const old = run.accumulate ? fp16_value(words[i] & 0xFFFF) * factor : 0.0;
      words[i] = round_to_half(sums[i] + old);
    } else {
      double const old = run.accumulate ? bits_float(words[i]) * factor : 0.0;
      words[i] = round_to_float(sums[i] + old);
    }
  }
}

}  // namespace

TmemPlace tcgen05_d_place(Tcgen05Mma const& mma, int m, int n) {
  if (mma.ctas == 1) return {0, mma.m == 64 ? m % 16 + 32 * (m / 16) : m, n};
  if (mma.m == 256) return {m / 128, m % 128, n};
  return {m / 64, m % 64 + 64 * (n / (mma.n / 2)), n % (mma.n / 2)};
}

ScalePlace tcgen05_scale_place(bool of_b, Tcgen05Mma const& mma, int row, int j) {
  int const i = (of_b ? mma.sf_id_b : mma.sf_id_a) + j;
  return {row / 32 + words_apart(of_b, mma) * (i / 4), i % 4};
}

SmemMatrix tcgen05_a_matrix(Tcgen05Mma const& mma, SmemOperand const& operand) {
  return {operand, mma.major_a, mma.width(), mma.m / mma.ctas, mma.k};
}
SmemMatrix tcgen05_b_matrix(Tcgen05Mma const& mma, SmemOperand const& operand) {
  return {operand, mma.major_b, mma.width(), mma.n / mma.ctas, mma.k};
}

void tcgen05_a_from_tmem(Tcgen05Mma const& mma, uint32_t const* words, TmemAddress base, double* values) {
  int const width = mma.width(), per_word = 32 / width;
  for (int m = 0; m < mma.m / mma.ctas; ++m)
    for (int k = 0; k < mma.k; ++k) {
      uint32_t const word = words[tmem_index(base.lane + m, base.column + k / per_word)];
      values[m * mma.k + k] =
          mma_value(mma.a, width == 32 ? word : word >> (k % per_word * width) & ((1u << width) - 1));
    }
}

bool tcgen05_product(Tcgen05Mma const& mma, int cta, Tcgen05Run const& run, Tcgen05Invalid* invalid) {
  int const rows = mma.m / mma.ctas, n = mma.n, k = mma.k;
  double const sign = mma.negate_a != mma.negate_b ? -1.0 : 1.0;
  std::vector<double> b(static_cast<size_t>(k) * n), product(static_cast<size_t>(rows) * n);
  bool valid = true;
  if (mma.scale_block == 0) {
    transpose(run.b, n, k, sign, b.data());
    matrix_product(rows, n, k, run.a, b.data(), product.data());
  } else {
    // A lane is computed by the datapath of its quarter, with that quarter's copies of the scales.
    std::vector<double> a(static_cast<size_t>(rows) * k), scaled(static_cast<size_t>(n) * k);
    std::vector<double> scales(static_cast<size_t>(std::max(rows, n)) * mma.scales()), previous;
    for (int q = 0; q < 4; ++q) {
      int const first = q * kQuarterLanes;
      valid = read_scales(mma, false, rows, q, run.words, run.scale_a, scales.data(), invalid->row) && valid;
      scale_rows(mma, rows, scales.data(), run.a, a.data());
      valid = read_scales(mma, true, n, q, run.words, run.scale_b, scales.data(), invalid->column) && valid;
      if (previous.size() != scales.size() ||
          std::memcmp(previous.data(), scales.data(), sizeof(double) * n * mma.scales()) != 0) {
        scale_rows(mma, n, scales.data(), run.b, scaled.data());
        transpose(scaled.data(), n, k, sign, b.data());
        previous = scales;
      }
      matrix_product(kQuarterLanes, n, k, a.data() + first * k, b.data(),
                     product.data() + static_cast<size_t>(first) * n);
    }
  }
  int const run_of_columns = tcgen05_d_columns(mma);
  for (int m = 0; m < rows; ++m)
    for (int first = 0; first < n; first += run_of_columns) {
      TmemPlace const p = tcgen05_d_place(mma, cta * rows + m, first);
      store(mma, run, p.lane, p.column, run_of_columns, product.data() + static_cast<size_t>(m) * n + first);
    }
  return valid;
}

int tmem_registers(TmemShape shape) { return shape == TmemShape::k16x128b ? 2 : shape == TmemShape::k16x256b ? 4 : 1; }
int tmem_max_repeat(TmemShape shape) { return 128 / tmem_registers(shape); }

TmemAddress tmem_access(TmemShape shape, int reg, int lane, int split) {
  int const g = lane / 4, t = lane % 4;
  switch (shape) {
    case TmemShape::k32x32b:
      return {lane, reg};
    case TmemShape::k16x64b:
      return {g + 8 * (lane % 2), 2 * reg + t / 2};
    case TmemShape::k16x128b:
      return {g + 8 * (reg % 2), 4 * (reg / 2) + t};
    case TmemShape::k16x256b:
      return {g + 8 * (reg % 4 / 2), 8 * (reg / 4) + 2 * t + reg % 2};
    case TmemShape::k16x32bx2:
      return {lane % 16, reg + (lane >= 16 ? split : 0)};
  }
  return {0, 0};
}

SmemMatrix tmem_cp_matrix(TmemCopy copy, SmemOperand const& operand) {
  int const rows = copy == TmemCopy::k32x128bWarpx4                             ? 32
                   : copy == TmemCopy::k128x256b || copy == TmemCopy::k128x128b ? 128
                                                                                : 64;
  return {operand, Major::kK, 8, rows, copy == TmemCopy::k128x256b ? 32 : 16};
}

int tmem_cp_lanes(TmemCopy copy, int row, int lanes[4]) {
  switch (copy) {
    case TmemCopy::k128x256b:
    case TmemCopy::k128x128b:
      lanes[0] = row;
      return 1;
    case TmemCopy::k64x128bWarpx2_02_13:
      lanes[0] = row, lanes[1] = row + 64;
      return 2;
    case TmemCopy::k64x128bWarpx2_01_23:
      lanes[0] = row % 32 + 64 * (row / 32), lanes[1] = lanes[0] + 32;
      return 2;
    case TmemCopy::k32x128bWarpx4:
      for (int q = 0; q < 4; ++q) lanes[q] = row + 32 * q;
      return 4;
  }
  return 0;
}

}  // namespace ptxsim
