#include "units/mma.h"

#include <cstring>
#include <initializer_list>
#include <vector>

namespace ptxsim {
namespace {

constexpr int kTileColumns = 8;
using HalfRow = double __attribute__((vector_size(32), aligned(8), may_alias));  // of a tile
static_assert(2 * sizeof(HalfRow) == kTileColumns * sizeof(double));

// kTileRows x 8 of the result: sums in registers, which do not wait for one another. b: [k][8].
template <int kTileRows>
void product_tile(int n, int k, double const* a, double const* b, double* d) {
  HalfRow low[kTileRows] = {}, high[kTileRows] = {};
  for (int l = 0; l < k; ++l) {
    auto const* const row_of_b = reinterpret_cast<HalfRow const*>(b + l * kTileColumns);
    HalfRow const b_low = row_of_b[0], b_high = row_of_b[1];
    for (int i = 0; i < kTileRows; ++i) {
      double const x = a[int64_t{i} * k + l];
      low[i] += x * b_low;
      high[i] += x * b_high;
    }
  }
  for (int i = 0; i < kTileRows; ++i) {
    auto* const row_of_d = reinterpret_cast<HalfRow*>(d + int64_t{i} * n);
    row_of_d[0] = low[i];
    row_of_d[1] = high[i];
  }
}

}  // namespace

void matrix_product(int m, int n, int k, double const* a, double const* b, double* d) {
  int j = 0;
  std::vector<double> packed(n > kTileColumns ? static_cast<size_t>(k) * kTileColumns : 0);
  for (; j + kTileColumns <= n; j += kTileColumns) {
    double const* columns = b;
    if (n != kTileColumns) {  // rows that lie far apart would take the same few lines of the cache
      for (int l = 0; l < k; ++l)
        std::memcpy(packed.data() + l * kTileColumns, b + int64_t{l} * n + j, kTileColumns * sizeof(double));
      columns = packed.data();
    }
    int i = 0;
    for (; i + 4 <= m; i += 4) product_tile<4>(n, k, a + int64_t{i} * k, columns, d + int64_t{i} * n + j);
    for (; i < m; ++i) product_tile<1>(n, k, a + int64_t{i} * k, columns, d + int64_t{i} * n + j);
  }
  for (; j < n; ++j)
    for (int i = 0; i < m; ++i) {
      double sum = 0;
      for (int l = 0; l < k; ++l) sum += a[int64_t{i} * k + l] * b[int64_t{l} * n + j];
      d[int64_t{i} * n + j] = sum;
    }
}

namespace {
constexpr int kRows = 16, kColumns = 8, kMaxK = 64;

bool small(MmaType type) { return type >= MmaType::kE4m3; }

constexpr int kRowWords = 8;  // registers, of all lanes, that hold a row of A or a column of B, at most
constexpr int kTypes = static_cast<int>(MmaType::kE2m1) + 1;

// By how an element lies in a register (log2 of its bits, less 2), and the places of the lowest elements of the words.
struct WordPlaces {
  MmaPlace a[4][kRows][kRowWords], b[4][kColumns][kRowWords];
  WordPlaces() {
    for (int i = 0; i < 4; ++i) {
      MmaShape shape;
      constexpr MmaType kOfWidth[] = {MmaType::kE2m1, MmaType::kE4m3, MmaType::kBf16, MmaType::kTf32};
      shape.a = shape.b = kOfWidth[i];
      int const elements = 32 / mma_width(shape, shape.a);
      for (int word = 0; word < kRowWords; ++word) {
        for (int row = 0; row < kRows; ++row) a[i][row][word] = mma_a_place(shape, row, word * elements);
        for (int column = 0; column < kColumns; ++column)
          b[i][column][word] = mma_b_place(shape, word * elements, column);
      }
    }
  }
  static WordPlaces const& get() {
    static WordPlaces const places;
    return places;
  }
};

struct ResultPlaces {
  MmaPlace c[2][kRows][kColumns];  // by whether the accumulator is fp16
  ResultPlaces() {
    for (int half = 0; half < 2; ++half) {
      MmaShape shape;
      shape.fp16_accumulator = half != 0;
      for (int row = 0; row < kRows; ++row)
        for (int column = 0; column < kColumns; ++column) c[half][row][column] = mma_c_place(shape, row, column);
    }
  }
};

// Values of what may stand in eight bits of a register or less.
struct SmallValues {
  double plain[kTypes][256], container[256];  // container: e2m1 in bits 2..5
  SmallValues() {
    for (int type = static_cast<int>(MmaType::kE4m3); type < kTypes; ++type)
      for (uint32_t code = 0; code < 256; ++code) plain[type][code] = mma_value(static_cast<MmaType>(type), code);
    for (uint32_t code = 0; code < 256; ++code) container[code] = mma_value(MmaType::kE2m1, code >> 2);
  }
};

int width_index(int width) { return width == 4 ? 0 : width == 8 ? 1 : width == 16 ? 2 : 3; }

// The elements of a word, `stride` apart.
void unpack_word(MmaType type, bool container_8, int width, uint32_t word, double* out, int stride) {
  static SmallValues const small_values;
  switch (width) {
    case 32:
      out[0] = mma_value(type, word);
      return;
    case 16:
      out[0] = mma_value(type, word & 0xFFFF);
      out[stride] = mma_value(type, word >> 16);
      return;
    default: {
      double const* const values =
          container_8 && type == MmaType::kE2m1 ? small_values.container : small_values.plain[static_cast<int>(type)];
      uint32_t const mask = (1u << width) - 1;
      for (int i = 0; i < 32 / width; ++i) out[i * stride] = values[word >> i * width & mask];
    }
  }
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

void mma_a_values(MmaShape const& shape, uint32_t const (*registers)[kWarpLanes], double* values) {
  int const width = mma_width(shape, shape.a), elements = 32 / width;
  auto const& places = WordPlaces::get().a[width_index(width)];
  for (int row = 0; row < kRows; ++row)
    for (int word = 0; word < shape.k / elements; ++word) {
      MmaPlace const& p = places[row][word];
      unpack_word(shape.a, shape.container_8, width, registers[p.reg][p.lane], values + row * shape.k + word * elements,
                  1);
    }
}

MmaInvalid mma_sync(MmaShape const& shape, MmaOperands const& x, uint32_t (*d)[kWarpLanes]) {
  double a[kRows * kMaxK], b[kMaxK * kColumns], product[kRows * kColumns];
  MmaInvalid invalid;
  mma_a_values(shape, x.a, a);
  int const width = mma_width(shape, shape.b), elements = 32 / width;
  auto const& places = WordPlaces::get().b[width_index(width)];
  for (int column = 0; column < kColumns; ++column)
    for (int word = 0; word < shape.k / elements; ++word) {
      MmaPlace const& p = places[column][word];
      unpack_word(shape.b, shape.container_8, width, x.b[p.reg][p.lane], b + word * elements * kColumns + column,
                  kColumns);
    }
  // Multiplies what one scale covers, `stride` apart.
  auto const scale = [&](uint32_t word, int byte, uint32_t* bad, int index, double* values, int stride) {
    int const covered = shape.k / shape.scales;
    for (int i = 0; i < shape.scales; ++i) {
      uint32_t const code = word >> 8 * (byte + i) & 0xFF;
      if (!scale_is_valid(shape.scale, code)) *bad |= 1u << index;
      double const factor = scale_value(shape.scale, code);
      for (int k = i * covered; k < (i + 1) * covered; ++k) values[k * stride] *= factor;
    }
  };
  if (shape.scales != 0) {
    for (int row = 0; row < kRows; ++row)
      scale(x.scale_a[row % 8 * 4 + 2 * x.select.thread_a + row / 8], x.select.byte_a, &invalid.rows, row,
            a + row * shape.k, 1);
    for (int column = 0; column < kColumns; ++column)
      scale(x.scale_b[column * 4 + x.select.thread_b], x.select.byte_b, &invalid.columns, column, b + column, kColumns);
  }
  matrix_product(kRows, kColumns, shape.k, a, b, product);
  static ResultPlaces const result_places;
  uint32_t result[4][kWarpLanes] = {};
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column) {
      MmaPlace const& p = result_places.c[shape.fp16_accumulator][row][column];
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
