// mma.sync and wgmma: places of elements written out by hand, and products against definitions of their own.
#include <cmath>
#include <cstring>
#include <vector>

#include "units.h"
#include "units/check.h"

using namespace ptxsim;

namespace {

bool at(MmaPlace const& p, int reg, int lane, int bit) { return p.reg == reg && p.lane == lane && p.bit == bit; }

MmaShape shape_of(int k, MmaType type, int scales = 0) {
  MmaShape s;
  s.k = k;
  s.a = s.b = type;
  s.scales = scales;
  return s;
}

// From the figures of the PTX ISA, read off for some lanes.
void places() {
  MmaShape const k16 = shape_of(16, MmaType::kBf16);
  CHECK(at(mma_a_place(k16, 1, 2), 0, 5, 0) && at(mma_a_place(k16, 1, 3), 0, 5, 16));
  CHECK(at(mma_a_place(k16, 9, 2), 1, 5, 0) && at(mma_a_place(k16, 1, 10), 2, 5, 0));
  CHECK(at(mma_a_place(k16, 15, 15), 3, 31, 16));
  CHECK(at(mma_b_place(k16, 2, 1), 0, 5, 0) && at(mma_b_place(k16, 11, 1), 1, 5, 16));
  CHECK(at(mma_c_place(k16, 1, 2), 0, 5, 0) && at(mma_c_place(k16, 1, 3), 1, 5, 0));
  CHECK(at(mma_c_place(k16, 9, 2), 2, 5, 0) && at(mma_c_place(k16, 15, 7), 3, 31, 0));
  MmaShape half = shape_of(16, MmaType::kFp16);
  half.fp16_accumulator = true;
  CHECK(at(mma_c_place(half, 1, 3), 0, 5, 16) && at(mma_c_place(half, 9, 2), 1, 5, 0));
  MmaShape const k8 = shape_of(8, MmaType::kFp16);
  CHECK(mma_a_registers(k8) == 2 && mma_b_registers(k8) == 1);
  CHECK(at(mma_a_place(k8, 2, 7), 0, 11, 16) && at(mma_a_place(k8, 10, 6), 1, 11, 0));
  MmaShape const tf32 = shape_of(8, MmaType::kTf32);
  CHECK(at(mma_a_place(tf32, 1, 2), 0, 6, 0) && at(mma_a_place(tf32, 9, 2), 1, 6, 0));
  CHECK(at(mma_a_place(tf32, 1, 6), 2, 6, 0) && at(mma_b_place(tf32, 6, 1), 1, 6, 0));
  MmaShape const fp4 = shape_of(64, MmaType::kE2m1, 4);
  CHECK(at(mma_a_place(fp4, 1, 24), 0, 7, 0) && at(mma_a_place(fp4, 1, 31), 0, 7, 28));
  CHECK(at(mma_a_place(fp4, 9, 25), 1, 7, 4) && at(mma_a_place(fp4, 1, 56), 2, 7, 0));
  CHECK(at(mma_b_place(fp4, 33, 5), 1, 20, 4));
  MmaShape fp8 = shape_of(32, MmaType::kE4m3);
  CHECK(at(mma_a_place(fp8, 3, 6), 0, 13, 16) && at(mma_b_place(fp8, 31, 7), 1, 31, 24));
}

uint32_t random_code(MmaType type) {
  for (;;) {
    uint32_t const bits = check::random_bits();
    switch (type) {
      case MmaType::kE2m1:
        return bits & 15;
      case MmaType::kE4m3:
        if ((bits & 0x7F) != 0x7F) return bits & 0xFF;
        continue;
      case MmaType::kBf16:
        return (bits & 0x8000) | (0x3F00 + (bits & 0xFF));  // 0.5 .. 2
      case MmaType::kFp16:
        return (bits & 0x8000) | (0x3800 + (bits & 0x7FF));
      default:
        return float_bits(static_cast<float>(static_cast<int>(bits % 64) - 32) / 8);
    }
  }
}

bool close(double a, double b) { return std::fabs(a - b) <= 1e-6 * (1 + std::fabs(b)); }

// The matrices are written to registers as the ISA words it: per lane, the rows and columns of its elements.
void product(MmaShape const& s, MmaScaleSelect const& select) {
  int const width = mma_width(s, s.a), e = 32 / width;
  std::vector<uint32_t> a(16 * s.k), b(s.k * 8);
  for (uint32_t& code : a) code = random_code(s.a);
  for (uint32_t& code : b) code = random_code(s.b);
  uint32_t ra[4][32] = {}, rb[4][32] = {}, rc[4][32] = {}, rd[4][32];
  int const containers = s.container_8 && s.a == MmaType::kE2m1 ? 2 : 0;
  for (int lane = 0; lane < 32; ++lane) {
    int const group = lane >> 2, thread = lane & 3;
    for (int i = 0; i < mma_a_registers(s) * e; ++i) {
      int const r = i / e;
      int const row = r == 0 || r == 2 ? group : group + 8;
      int const k = (r < 2 ? 0 : 4 * e) + thread * e + i % e;
      ra[r][lane] |= a[row * s.k + k] << (i % e * width + containers);
    }
    for (int i = 0; i < mma_b_registers(s) * e; ++i) {
      int const r = i / e;
      rb[r][lane] |= b[((r == 0 ? 0 : 4 * e) + thread * e + i % e) * 8 + group] << (i % e * width + containers);
    }
  }
  double c[16][8];
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      float const value = static_cast<float>(static_cast<int>(check::random_below(64)) - 32);
      c[lane / 4 + (i >= 2 ? 8 : 0)][lane % 4 * 2 + i % 2] = value;
      if (s.fp16_accumulator)
        rc[i / 2][lane] |= encode(kFp16, value, RoundMode::kNearestEven, false, false) << 16 * (i % 2);
      else
        rc[i][lane] = float_bits(value);
    }
  // Scales: every lane has some, those that count are looked up as the figure shows.
  uint32_t sa[32], sb[32];
  for (int lane = 0; lane < 32; ++lane)
    for (uint32_t* word : {&sa[lane], &sb[lane]}) {
      *word = 0;
      for (int byte = 0; byte < 4; ++byte)
        *word |= (s.scale == ScaleType::kUe8m0 ? 120 + check::random_below(14) : 1 + check::random_below(0x7E))
                 << 8 * byte;
    }
  MmaOperands const operands{ra, rb, rc, sa, sb, select};
  MmaInvalid const invalid = mma_sync(s, operands, rd);
  CHECK(invalid.rows == 0 && invalid.columns == 0);
  auto const scale = [&](uint32_t word, int byte) {
    uint32_t const code = word >> 8 * byte & 255;
    return s.scale == ScaleType::kUe8m0
               ? std::ldexp(1.0, static_cast<int>(code) - 127)
               : (code < 8 ? code / 512.0 : std::ldexp(8.0 + (code & 7), static_cast<int>(code >> 3) - 10));
  };
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      double sum = c[row][column];
      for (int k = 0; k < s.k; ++k) {
        double term = mma_value(s.a, a[row * s.k + k]) * mma_value(s.b, b[k * 8 + column]);
        if (s.scales != 0) {
          int const block = k * s.scales / s.k;
          int const lane_a = row % 8 * 4 + (row >= 8 ? 1 : 0) + (select.thread_a == 1 ? 2 : 0);
          term *=
              scale(sa[lane_a], select.byte_a + block) * scale(sb[column * 4 + select.thread_b], select.byte_b + block);
        }
        sum += term;
      }
      int const lane = row % 8 * 4 + column / 2;
      if (s.fp16_accumulator) {
        double const got = fp16_value(rd[row / 8][lane] >> 16 * (column % 2) & 0xFFFF);
        CHECK(std::fabs(got - sum) <= 5e-4 * (1 + std::fabs(sum)));
      } else {
        CHECK(close(bits_float(rd[row / 8 * 2 + column % 2][lane]), sum));
      }
    }
}

void products() {
  product(shape_of(16, MmaType::kBf16), {});
  product(shape_of(8, MmaType::kBf16), {});
  product(shape_of(16, MmaType::kFp16), {});
  product(shape_of(8, MmaType::kTf32), {});
  product(shape_of(4, MmaType::kTf32), {});
  MmaShape half = shape_of(16, MmaType::kFp16);
  half.fp16_accumulator = true;
  product(half, {});
  product(shape_of(32, MmaType::kE4m3), {});
  MmaShape container = shape_of(32, MmaType::kE2m1);
  container.container_8 = true;
  product(container, {});
  MmaShape nv = shape_of(64, MmaType::kE2m1, 4);
  nv.scale = ScaleType::kUe4m3;
  product(nv, {});
  product(nv, {0, 1, 0, 3});
  product(shape_of(64, MmaType::kE2m1, 2), {});
  product(shape_of(64, MmaType::kE2m1, 2), {2, 0, 0, 2});
  product(shape_of(64, MmaType::kE2m1, 2), {0, 1, 2, 1});
  CHECK(mma_shape_fault(nv) == nullptr);
  CHECK(mma_shape_fault(shape_of(32, MmaType::kBf16)) != nullptr);
  CHECK(mma_shape_fault(shape_of(64, MmaType::kE2m1, 1)) != nullptr);
  MmaShape two = nv;
  two.scales = 2;
  CHECK(mma_shape_fault(two) != nullptr);  // ue4m3 goes with 4X
  CHECK(mma_select_fault(nv, {2, 0, 0, 0}) != nullptr &&
        mma_select_fault(shape_of(64, MmaType::kE2m1, 2), {1, 0, 0, 0}) != nullptr);
  CHECK(mma_select_fault(nv, {0, 2, 0, 0}) != nullptr && mma_select_fault(nv, {0, 1, 0, 3}) == nullptr);
}

// A NaN scale makes its row NaN, and no other; a byte that is no scale is named by its row.
void special_scales() {
  MmaShape s = shape_of(64, MmaType::kE2m1, 4);
  s.scale = ScaleType::kUe4m3;
  uint32_t a[4][32] = {}, b[2][32] = {}, c[4][32] = {}, d[4][32], scales[32], bad[32];
  for (int lane = 0; lane < 32; ++lane) scales[lane] = bad[lane] = 0x38383838;  // 1.0
  bad[5] = 0x387F3838;                                                          // row 9, third block
  CHECK(mma_sync(s, {a, b, c, bad, scales, {}}, d).rows == 0);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      MmaPlace const p = mma_c_place(s, row, column);
      CHECK(row == 9 ? d[p.reg][p.lane] == 0x7FFFFFFF : d[p.reg][p.lane] == 0);
    }
  bad[5] = 0x38B83838;
  MmaInvalid const invalid = mma_sync(s, {a, b, c, scales, bad, {}}, d);  // of B lane 5 is t = 1: not used
  CHECK(invalid.rows == 0 && invalid.columns == 0);
  CHECK(mma_sync(s, {a, b, c, bad, scales, {}}, d).rows == 1u << 9);
}

// Shared memory written by the definition of tiles with a swizzle, read through descriptors.
struct Tile {
  uint32_t start, leading, stride;
  TensorSwizzle swizzle;
};
constexpr uint64_t kWgmmaModes[] = {0, 3, 2, 1};  // none, 32, 64, 128 in the order of TensorSwizzle

uint64_t wgmma_descriptor(Tile const& t) {
  return t.start >> 4 | static_cast<uint64_t>(t.leading >> 4) << 16 | static_cast<uint64_t>(t.stride >> 4) << 32 |
         kWgmmaModes[static_cast<int>(t.swizzle)] << 62;
}

// K-major: rows of `span` bytes (one span of k), compact, as a tensor copy with that swizzle leaves them.
void wgmma_products() {
  constexpr TensorSwizzle kSwizzles[] = {TensorSwizzle::k32B, TensorSwizzle::k64B, TensorSwizzle::k128B};
  for (TensorSwizzle const swizzle : kSwizzles)
    for (int from_registers = 0; from_registers < 2; ++from_registers) {
      WgmmaShape s;
      s.n = 24;
      s.negate_b = true;
      uint32_t const span = swizzle_span(swizzle);
      std::vector<uint8_t> shared(0x8000);
      std::vector<uint32_t> a(64 * 16), b(24 * 16);
      for (uint32_t& code : a) code = random_code(s.type);
      for (uint32_t& code : b) code = random_code(s.type);
      uint32_t const k_offset = span - 32;  // the last 16 elements of the span
      auto const put = [&](uint32_t base, int row, int k, uint32_t code) {
        uint32_t const address = base + static_cast<uint32_t>(row) * span + k_offset + 2 * static_cast<uint32_t>(k);
        std::memcpy(shared.data() + swizzle_address(swizzle, address), &code, 2);
      };
      for (int row = 0; row < 64; ++row)
        for (int k = 0; k < 16; ++k) put(0x400, row, k, a[row * 16 + k]);
      for (int row = 0; row < 24; ++row)
        for (int k = 0; k < 16; ++k) put(0x4400, row, k, b[row * 16 + k]);
      SmemOperand oa, ob;
      CHECK(decode_wgmma_descriptor(wgmma_descriptor({0x400 + k_offset, 16, 8 * span, swizzle}), &oa).empty());
      CHECK(decode_wgmma_descriptor(wgmma_descriptor({0x4400 + k_offset, 16, 8 * span, swizzle}), &ob).empty());
      std::vector<double> va(64 * 16), vb(24 * 16);
      read_smem_matrix(wgmma_b_matrix(s, ob), s.type, shared.data(), vb.data());
      int const warp = 2;
      if (from_registers != 0) {
        uint32_t registers[4][32];
        for (int lane = 0; lane < 32; ++lane)
          for (int r = 0; r < 4; ++r) {
            int const row = 16 * warp + lane / 4 + 8 * (r & 1), k = lane % 4 * 2 + 8 * (r >> 1);
            registers[r][lane] = a[row * 16 + k] | a[row * 16 + k + 1] << 16;
          }
        wgmma_a_values(s, registers, va.data() + warp * 256);
      } else {
        read_smem_matrix(wgmma_a_matrix(s, oa), s.type, shared.data(), va.data());
      }
      uint32_t d[12][32];
      for (auto& reg : d)
        for (uint32_t& word : reg) word = float_bits(3.0f);
      wgmma_warp(s, va.data() + warp * 256, vb.data(), from_registers != 0, d);
      for (int row = 0; row < 16; ++row)
        for (int n = 0; n < 24; ++n) {
          double sum = from_registers != 0 ? 3.0 : 0.0;
          for (int k = 0; k < 16; ++k)
            sum -= double{bf16_value(a[(16 * warp + row) * 16 + k])} * bf16_value(b[n * 16 + k]);
          int const reg = n / 8 * 4 + (row >= 8 ? 2 : 0) + n % 2, lane = row % 8 * 4 + n % 8 / 2;
          CHECK(close(bits_float(d[reg][lane]), sum));
        }
    }
  SmemOperand o;
  CHECK(!decode_wgmma_descriptor(uint64_t{1} << 49, &o).empty());  // base offset
  CHECK(!decode_wgmma_descriptor(uint64_t{1} << 46, &o).empty());
  CHECK(!decode_wgmma_descriptor(uint64_t{1} << 55, &o).empty());
  o = SmemOperand();
  o.start = 0x440, o.swizzle = TensorSwizzle::k64B;
  CHECK(smem_matrix_fault({o, Major::kK, 16, 8, 16}).empty());
  o.start = 0x430;
  CHECK(!smem_matrix_fault({o, Major::kK, 16, 8, 16}).empty());  // leaves its span
}

// Ties go to the even code (codes and all other roundings are compared with the reference by codecs.cpp).
void ties() {
  constexpr double kTies[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0};
  constexpr uint32_t kEven[] = {0, 2, 2, 4, 4, 6, 6};
  for (int i = 0; i < 7; ++i) CHECK(encode(kE2m1, kTies[i], RoundMode::kNearestEven, true, false) == kEven[i]);
}

}  // namespace

int main() {
  ties();
  places();
  products();
  special_scales();
  wgmma_products();
  return check::report();
}
