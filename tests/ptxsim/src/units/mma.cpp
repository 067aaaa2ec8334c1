#include "units/mma.h"

#include <initializer_list>

namespace ptxsim {

void matrix_product(int m, int n, int k, double const* a, double const* b, double* d) {
  for (int i = 0; i < m; ++i) {
    double* row = d + static_cast<int64_t>(i) * n;
    for (int j = 0; j < n; ++j) row[j] = 0;
    for (int l = 0; l < k; ++l) {
      double const x = a[static_cast<int64_t>(i) * k + l];
      double const* column = b + static_cast<int64_t>(l) * n;
      for (int j = 0; j < n; ++j) row[j] += x * column[j];
    }
  }
}

namespace {
constexpr int kRows = 16, kColumns = 8, kMaxK = 64;

bool small(MmaType type) { return type >= MmaType::kE4m3; }

uint32_t field(uint32_t word, int bit, int width) { return width == 32 ? word : word >> bit & ((1u << width) - 1); }

double element(MmaShape const& shape, MmaType type, uint32_t word, int bit) {
  uint32_t code = field(word, bit, mma_width(shape, type));
  if (shape.container_8 && type == MmaType::kE2m1) code >>= 2;
  return mma_value(type, code);
}
}  // namespace

int mma_width(MmaShape const& shape, MmaType type) {
  if (type == MmaType::kTf32) return 32;
  if (!small(type)) return 16;
  return type == MmaType::kE2m1 && !shape.container_8 ? 4 : 8;
}
int mma_a_registers(MmaShape const& shape) { return kRows * shape.k * mma_width(shape, shape.a) / 32 / kWarpLanes; }
int mma_b_registers(MmaShape const& shape) { return kColumns * shape.k * mma_width(shape, shape.b) / 32 / kWarpLanes; }

char const* mma_shape_fault(MmaShape const& shape) {
  int const width = mma_width(shape, shape.a);
  if (width != mma_width(shape, shape.b)) return "A and B of different widths";
  if (!small(shape.a) && shape.a != shape.b) return "A and B of different types";
  int const bits = shape.k * width;  // of a row: 128 (one or two registers) or 256
  if (bits != 128 && bits != 256) return "no such k for this type";
  if (width == 4 && shape.k != 64) return "no such k for this type";
  if (width == 4 && shape.scales == 0) return "4-bit types without scales are integers";
  if (shape.fp16_accumulator && (shape.scales != 0 || shape.a == MmaType::kBf16 || shape.a == MmaType::kTf32))
    return "no fp16 accumulator for these types";
  if (shape.scales == 0) return nullptr;
  if (width == 8) {
    bool const ok = shape.container_8 && shape.k == 32 && shape.scales == 1 && shape.scale == ScaleType::kUe8m0;
    return ok ? nullptr : "mxf8f6f4 has k = 32 and one ue8m0 scale";
  }
  if (width != 4) return "scales demand 4-, 6- or 8-bit types";
  if (shape.scales == 2) return shape.scale == ScaleType::kUe8m0 ? nullptr : "scale_vec::2X has ue8m0 scales";
  return shape.scales == 4 ? nullptr : "scale_vec must be 2X or 4X for 4-bit types";
}

char const* mma_select_fault(MmaShape const& shape, MmaScaleSelect const& s) {
  for (int byte : {s.byte_a, s.byte_b})
    if (byte < 0 || byte + shape.scales > 4 || byte % shape.scales != 0) return "byte-id does not suit scale_vec";
  if (s.thread_a < 0 || s.thread_a > 1) return "thread-id of A must be 0 or 1";
  if (s.thread_b < 0 || s.thread_b > 3) return "thread-id of B must be 0..3";
  return nullptr;
}

MmaPlace mma_a_place(MmaShape const& shape, int row, int k) {
  int const width = mma_width(shape, shape.a), e = 32 / width;
  return {row / 8 + 2 * (k / (4 * e)), row % 8 * 4 + k % (4 * e) / e, k % e * width};
}
MmaPlace mma_b_place(MmaShape const& shape, int k, int column) {
  int const width = mma_width(shape, shape.b), e = 32 / width;
  return {k / (4 * e), column * 4 + k % (4 * e) / e, k % e * width};
}
MmaPlace mma_c_place(MmaShape const& shape, int row, int column) {
  int const lane = row % 8 * 4 + column / 2;
  if (shape.fp16_accumulator) return {row / 8, lane, column % 2 * 16};
  return {row / 8 * 2 + column % 2, lane, 0};
}

MmaInvalid mma_sync(MmaShape const& shape, MmaOperands const& x, uint32_t (*d)[kWarpLanes]) {
  double a[kRows * kMaxK], b[kMaxK * kColumns], product[kRows * kColumns];
  MmaInvalid invalid;
  auto const scale = [&](uint32_t const* words, int lane, int byte, int k, uint32_t* bad, int index) {
    if (shape.scales == 0) return 1.0;
    uint32_t const code = words[lane] >> 8 * (byte + k / (shape.k / shape.scales)) & 0xFF;
    if (!scale_is_valid(shape.scale, code)) *bad |= 1u << index;
    return scale_value(shape.scale, code);
  };
  for (int row = 0; row < kRows; ++row)
    for (int k = 0; k < shape.k; ++k) {
      MmaPlace const p = mma_a_place(shape, row, k);
      int const lane = row % 8 * 4 + 2 * x.select.thread_a + row / 8;
      a[row * shape.k + k] = element(shape, shape.a, x.a[p.reg][p.lane], p.bit) *
                             scale(x.scale_a, lane, x.select.byte_a, k, &invalid.rows, row);
    }
  for (int k = 0; k < shape.k; ++k)
    for (int column = 0; column < kColumns; ++column) {
      MmaPlace const p = mma_b_place(shape, k, column);
      int const lane = column * 4 + x.select.thread_b;
      b[k * kColumns + column] = element(shape, shape.b, x.b[p.reg][p.lane], p.bit) *
                                 scale(x.scale_b, lane, x.select.byte_b, k, &invalid.columns, column);
    }
  matrix_product(kRows, kColumns, shape.k, a, b, product);
  uint32_t result[4][kWarpLanes] = {};
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column) {
      MmaPlace const p = mma_c_place(shape, row, column);
      double const sum = product[row * kColumns + column];
      uint32_t const c = x.c[p.reg][p.lane];
      if (shape.fp16_accumulator)
        result[p.reg][p.lane] |= round_to_half(sum + fp16_value(c >> p.bit & 0xFFFF)) << p.bit;
      else
        result[p.reg][p.lane] = round_to_float(sum + bits_float(c));
    }
  // d may be c: everything was read before this.
  for (int r = 0; r < mma_c_registers(shape); ++r)
    for (int lane = 0; lane < kWarpLanes; ++lane) d[r][lane] = result[r][lane];
  return invalid;
}

}  // namespace ptxsim
