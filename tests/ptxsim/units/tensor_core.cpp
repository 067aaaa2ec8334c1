// tcgen05: descriptors, places in tensor memory written out by hand, and products against definitions of their own.
#include <cmath>
#include <cstring>
#include <vector>

#include "units.h"
#include "units/check.h"

using namespace ptxsim;

namespace {

bool bad(Tcgen05Kind kind, int ctas, int block, uint32_t descriptor) {
  Tcgen05Mma m;
  return !decode_tcgen05(kind, ctas, block, descriptor, &m).empty();
}

// Constants of CUTLASS kernels, and single wrong bits of them.
void descriptors() {
  Tcgen05Mma m;
  CHECK(decode_tcgen05(Tcgen05Kind::kMxf4nvf4, 2, 16, 0x10400480, &m).empty());
  CHECK(m.m == 256 && m.n == 256 && m.k == 64 && m.scale == ScaleType::kUe4m3 && m.scales() == 4 &&
        m.a == MmaType::kE2m1);
  CHECK(decode_tcgen05(Tcgen05Kind::kMxf4nvf4, 2, 16, 0x90400480 | 2u << 29 | 2 << 4, &m).empty());
  CHECK(m.k == 96 && m.scales() == 6 && m.sf_id_a == 2 && m.sf_id_b == 2);
  for (int bit : {0, 1, 2, 3, 6, 8, 9, 11, 12, 15, 16, 24, 25, 26})
    CHECK(bad(Tcgen05Kind::kMxf4nvf4, 2, 16, 0x10400480 ^ 1u << bit));
  CHECK(bad(Tcgen05Kind::kMxf4nvf4, 2, 16, 0x10400480 | 2 << 4));
  CHECK(bad(Tcgen05Kind::kMxf4nvf4, 2, 16, 0x10400480 | 1 << 4));  // sf_id of 4X must be 0
  CHECK(bad(Tcgen05Kind::kMxf4, 2, 32, 0x10400480));               // ue4m3
  CHECK(!bad(Tcgen05Kind::kMxf4, 2, 32, 0x10C00480));
  CHECK(!bad(Tcgen05Kind::kMxf4, 2, 32, 0x10C00480 | 2 << 4));
  CHECK(bad(Tcgen05Kind::kMxf4, 2, 32, 0x10C00480 | 1 << 4));
  CHECK(bad(Tcgen05Kind::kMxf4nvf4, 2, 0, 0x10400480));
  CHECK(bad(Tcgen05Kind::kMxf4nvf4, 1, 16, 0x10400480));  // M = 256 with one CTA
  // kind::f16: bf16, float accumulators, M = 128, N = 64.
  uint32_t const f16 = 1 << 4 | 1 << 7 | 1 << 10 | 8 << 17 | 8 << 24;
  CHECK(decode_tcgen05(Tcgen05Kind::kF16, 1, 0, f16, &m).empty());
  CHECK(m.m == 128 && m.n == 64 && m.k == 16 && m.a == MmaType::kBf16 && !m.fp16_accumulator && m.major_b == Major::kK);
  CHECK(decode_tcgen05(Tcgen05Kind::kF16, 1, 0, f16 | 1 << 16 | 1 << 13, &m).empty() && m.major_b == Major::kMn &&
        m.negate_a);
  for (int bit : {0, 1, 2, 3, 5, 6, 8, 9, 23, 29, 30, 31}) CHECK(bad(Tcgen05Kind::kF16, 1, 0, f16 ^ 1u << bit));
  CHECK(bad(Tcgen05Kind::kF16, 1, 0, f16 | 1 << 17));                // N = 72 with M = 128
  CHECK(!bad(Tcgen05Kind::kF16, 1, 0, (f16 ^ 12 << 24) | 1 << 17));  // M = 64
  SmemOperand o;
  CHECK(decode_tcgen05_descriptor(0x4000404000010000, &o).empty());
  CHECK(o.stride == 1024 && o.leading == 16 && o.swizzle == TensorSwizzle::k128B && !o.leading_is_address);
  CHECK(decode_tcgen05_descriptor(0x0000400800010000, &o).empty() && o.stride == 128 &&
        o.swizzle == TensorSwizzle::kNone);
  for (int bit : {30, 46, 47, 48, 49, 53, 60})
    CHECK(!decode_tcgen05_descriptor(0x4000404000010000 ^ uint64_t{1} << bit, &o).empty());
  CHECK(!decode_tcgen05_descriptor(0x6000404000010000, &o).empty());  // mode 3
  CHECK(decode_tcgen05_descriptor(0x401040400001C000, &o).empty() && o.leading_is_address && o.start == 0);
}

bool same(TmemPlace const& p, int cta, int lane, int column) {
  return p.cta == cta && p.lane == lane && p.column == column;
}
bool same(TmemAddress const& p, int lane, int column) { return p.lane == lane && p.column == column; }

void places() {
  Tcgen05Mma m;
  m.m = 128, m.n = 64;
  CHECK(same(tcgen05_d_place(m, 77, 13), 0, 77, 13));
  m.m = 64;
  CHECK(same(tcgen05_d_place(m, 15, 1), 0, 15, 1) && same(tcgen05_d_place(m, 16, 1), 0, 32, 1));
  CHECK(same(tcgen05_d_place(m, 63, 2), 0, 111, 2));
  m.ctas = 2, m.m = 256;
  CHECK(same(tcgen05_d_place(m, 127, 5), 0, 127, 5) && same(tcgen05_d_place(m, 128, 5), 1, 0, 5));
  m.m = 128;
  CHECK(same(tcgen05_d_place(m, 3, 31), 0, 3, 31) && same(tcgen05_d_place(m, 3, 32), 0, 67, 0));
  CHECK(same(tcgen05_d_place(m, 64, 33), 1, 64, 1));
  // Scales: K = 64 in one word, K = 96 in two, 4 or 8 columns apart.
  Tcgen05Mma s;
  s.kind = Tcgen05Kind::kMxf4nvf4, s.ctas = 2, s.m = 256, s.n = 256, s.k = 96, s.scale_block = 16;
  auto const scale = [&](bool b, int row, int j, int column, int byte) {
    ScalePlace const p = tcgen05_scale_place(b, s, row, j);
    return p.column == column && p.byte == byte;
  };
  CHECK(scale(false, 33, 3, 1, 3) && scale(false, 33, 4, 5, 0) && scale(true, 200, 1, 6, 1) &&
        scale(true, 200, 5, 14, 1));
  s.sf_id_a = s.sf_id_b = 2;
  CHECK(scale(false, 127, 1, 3, 3) && scale(false, 127, 2, 7, 0) && scale(true, 64, 5, 10, 3));
  s.n = 128;
  CHECK(scale(true, 64, 5, 6, 3));
  // Loads.
  CHECK(same(tmem_access(TmemShape::k32x32b, 7, 19, 0), 19, 7));
  CHECK(same(tmem_access(TmemShape::k16x256b, 0, 6, 0), 1, 4) && same(tmem_access(TmemShape::k16x256b, 3, 6, 0), 9, 5));
  CHECK(same(tmem_access(TmemShape::k16x256b, 5, 6, 0), 1, 13));
  CHECK(same(tmem_access(TmemShape::k16x128b, 3, 6, 0), 9, 6));
  CHECK(same(tmem_access(TmemShape::k16x64b, 1, 7, 0), 9, 3) && same(tmem_access(TmemShape::k16x64b, 0, 2, 0), 0, 1));
  CHECK(same(tmem_access(TmemShape::k16x32bx2, 2, 18, 32), 2, 34));
  int lanes[4];
  CHECK(tmem_cp_lanes(TmemCopy::k32x128bWarpx4, 5, lanes) == 4 && lanes[0] == 5 && lanes[1] == 37 && lanes[2] == 69 &&
        lanes[3] == 101);
  CHECK(tmem_cp_lanes(TmemCopy::k64x128bWarpx2_02_13, 40, lanes) == 2 && lanes[0] == 40 && lanes[1] == 104);
  CHECK(tmem_cp_lanes(TmemCopy::k64x128bWarpx2_01_23, 40, lanes) == 2 && lanes[0] == 72 && lanes[1] == 104);
  CHECK(tmem_cp_lanes(TmemCopy::k128x128b, 90, lanes) == 1 && lanes[0] == 90);
}

bool close(double a, double b) { return std::fabs(a - b) <= 1e-6 * (1 + std::fabs(b)); }

double e4m3(uint32_t code) {
  return code < 8 ? code / 512.0 : std::ldexp(8.0 + (code & 7), static_cast<int>(code >> 3) - 10);
}
double e2m1(uint32_t code) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) != 0 ? -kValues[code & 7] : kValues[code & 7];
}

// NVFP4 of a CTA or a pair. Operands of K = 64 lie in one 128-byte-swizzled buffer from byte 32 on; those of K = 96
// begin 32 bytes before the end of one and go on at the start of another. Scales lie in tensor memory as 512-byte
// atoms say.
void block_scaled(int ctas, int n, int k, int sf_id) {
  Tcgen05Mma m;
  m.kind = Tcgen05Kind::kMxf4nvf4;
  m.ctas = ctas, m.scale_block = 16, m.m = 128 * ctas, m.n = n, m.k = k;
  m.a = m.b = MmaType::kE2m1;
  m.scale = ScaleType::kUe4m3;
  m.sf_id_a = m.sf_id_b = sf_id;
  int const scales = k / 16;
  std::vector<uint32_t> a(static_cast<size_t>(m.m) * k), b(static_cast<size_t>(n) * k),
      sa(static_cast<size_t>(m.m) * scales), sb(static_cast<size_t>(n) * scales);
  for (auto* codes : {&a, &b})
    for (uint32_t& code : *codes) code = check::random_below(16);
  for (auto* codes : {&sa, &sb})
    for (uint32_t& code : *codes) code = 0x20 + check::random_below(0x30);
  std::vector<uint8_t> shared[2] = {std::vector<uint8_t>(0x21000), std::vector<uint8_t>(0x21000)};
  std::vector<uint32_t> words[2] = {std::vector<uint32_t>(128 * 512), std::vector<uint32_t>(128 * 512)};
  uint32_t const offset = k == 96 ? 96 : 32;
  auto const put = [&](int cta, uint32_t first, uint32_t next, int row, int l, uint32_t code) {
    uint32_t const byte = offset + static_cast<uint32_t>(l) / 2;
    uint32_t const address = (byte < 128 ? first + byte : next + byte - 128) + static_cast<uint32_t>(row) * 128;
    uint8_t& at = shared[cta][swizzle_address(TensorSwizzle::k128B, address)];
    at = static_cast<uint8_t>(at | code << 4 * (l % 2));
  };
  uint32_t const a_first = 0x280, a_next = 0x8280, b_first = 0x10280,
                 b_next = 0x18280;  // not aligned to the swizzle's repeat
  int const n_each = n / ctas;
  for (int row = 0; row < m.m; ++row)
    for (int l = 0; l < k; ++l) put(row / 128, a_first, a_next, row % 128, l, a[row * k + l]);
  for (int row = 0; row < n; ++row)
    for (int l = 0; l < k; ++l) put(row / n_each, b_first, b_next, row % n_each, l, b[row * k + l]);
  // Scales: word i / 4 of a row is 4 (B of more than 128 rows: 8) columns behind the one before.
  int const sfa = 300, sfb = 400;
  auto const put_scale = [&](int cta, int base, int apart, int row, int j, uint32_t code) {
    int const i = sf_id + j;
    for (int q = 0; q < 4; ++q)
      words[cta][(row % 32 + 32 * q) * 512 + base + row / 32 + apart * (i / 4)] |= code << 8 * (i % 4);
  };
  for (int row = 0; row < m.m; ++row)
    for (int j = 0; j < scales; ++j) put_scale(row / 128, sfa, 4, row % 128, j, sa[row * scales + j]);
  for (int cta = 0; cta < ctas; ++cta)
    for (int row = 0; row < n; ++row)
      for (int j = 0; j < scales; ++j) put_scale(cta, sfb, n > 128 ? 8 : 4, row, j, sb[row * scales + j]);
  for (int cta = 0; cta < ctas; ++cta)
    for (int lane = 0; lane < 128; ++lane)
      for (int c = 0; c < n; ++c) words[cta][lane * 512 + 16 + c] = float_bits(static_cast<float>(lane - c));
  auto const descriptor = [&](uint32_t first, uint32_t next) {
    uint64_t d = (first + offset) >> 4 | uint64_t{64} << 32 | uint64_t{1} << 46 | uint64_t{2} << 61;
    return k == 96 ? d | static_cast<uint64_t>(next >> 4) << 16 | uint64_t{1} << 52 : d | uint64_t{1} << 16;
  };
  SmemOperand oa, ob;
  CHECK(decode_tcgen05_descriptor(descriptor(a_first, a_next), &oa).empty());
  CHECK(decode_tcgen05_descriptor(descriptor(b_first, b_next), &ob).empty());
  CHECK(smem_matrix_fault(tcgen05_a_matrix(m, oa)).empty());
  std::vector<double> va(static_cast<size_t>(128) * k), vb(static_cast<size_t>(n) * k);
  for (int cta = 0; cta < ctas; ++cta)
    read_smem_matrix(tcgen05_b_matrix(m, ob), m.b, shared[cta].data(),
                     vb.data() + static_cast<size_t>(cta) * n_each * k);
  // One copy of a scale is wrong: only the lanes of its quarter may show it.
  words[0][(7 + 64) * 512 + sfb + 1] ^= 0x08u << 8 * (sf_id % 4);
  for (int cta = 0; cta < ctas; ++cta) {
    read_smem_matrix(tcgen05_a_matrix(m, oa), m.a, shared[cta].data(), va.data());
    Tcgen05Run run{va.data(), vb.data(), words[cta].data(), {0, 16}, {0, sfa}, {0, sfb}};
    run.accumulate = true;
    run.disabled[3] = 1u << 31;  // lane 127
    Tcgen05Invalid invalid;
    CHECK(tcgen05_product(m, cta, run, &invalid));
    for (int row = 0; row < 128; ++row)
      for (int column = 0; column < n; ++column) {
        double const before = row - column;
        double sum = before;
        for (int l = 0; l < k; ++l)
          sum += e2m1(a[(cta * 128 + row) * k + l]) * e4m3(sa[(cta * 128 + row) * scales + l / 16]) *
                 e2m1(b[column * k + l]) * e4m3(sb[column * scales + l / 16]);
        double const got = bits_float(words[cta][row * 512 + 16 + column]);
        if (row == 127)
          CHECK(got == before);
        else if (cta == 0 && row / 32 == 2 && column == 39)
          ;  // the wrong copy
        else
          CHECK(close(got, sum));
      }
  }
  int changed = 0;
  for (int row = 64; row < 96; ++row) {
    double sum = row - 39;
    for (int l = 0; l < k; ++l)
      sum +=
          e2m1(a[row * k + l]) * e4m3(sa[row * scales + l / 16]) * e2m1(b[39 * k + l]) * e4m3(sb[39 * scales + l / 16]);
    changed += !close(bits_float(words[0][row * 512 + 16 + 39]), sum);
  }
  CHECK(changed > 16);
}

// kind::f16, A from shared memory (M = 64 and the pair's M = 128) and from tensor memory; B MN-major without a swizzle.
void plain(int ctas, int rows, bool a_in_tmem) {
  Tcgen05Mma m;
  m.ctas = ctas, m.m = rows, m.n = 32, m.k = 16;
  m.a = m.b = MmaType::kBf16;
  m.major_b = Major::kMn;
  int const each = rows / ctas, n_each = 32 / ctas;
  std::vector<uint32_t> a(static_cast<size_t>(rows) * 16), b(32 * 16);
  for (auto* codes : {&a, &b})
    for (uint32_t& code : *codes) code = 0x3F00 + check::random_below(0x100);
  std::vector<uint8_t> shared[2] = {std::vector<uint8_t>(0x8000), std::vector<uint8_t>(0x8000)};
  std::vector<uint32_t> words(128 * 512);
  for (int row = 0; row < rows; ++row)
    for (int l = 0; l < 16; ++l) {
      // Core matrices of 8 rows x 16 bytes: k halves 128 bytes apart, groups of 8 rows 256 bytes apart.
      uint32_t const address =
          0x1000 + static_cast<uint32_t>(row % each / 8 * 256 + l / 8 * 128 + row % 8 * 16 + l % 8 * 2);
      std::memcpy(shared[row / each].data() + address, &a[row * 16 + l], 2);
      if (a_in_tmem) words[(row % 128) * 512 + 100 + l / 2] |= a[row * 16 + l] << 16 * (l % 2);
    }
  for (int row = 0; row < 32; ++row)
    for (int l = 0; l < 16; ++l) {
      // MN-major: 8 columns of B contiguous; k within a core matrix 16 bytes apart; k halves 512, column groups 128
      // apart.
      int const r = row % n_each;
      uint32_t const address = 0x4000 + static_cast<uint32_t>(r / 8 * 128 + r % 8 * 2 + l % 8 * 16 + l / 8 * 512);
      std::memcpy(shared[row / n_each].data() + address, &b[row * 16 + l], 2);
    }
  auto const descriptor = [](uint32_t start, uint32_t leading, uint32_t stride) {
    return start >> 4 | static_cast<uint64_t>(leading >> 4) << 16 | static_cast<uint64_t>(stride >> 4) << 32 |
           uint64_t{1} << 46;
  };
  SmemOperand oa, ob;
  CHECK(decode_tcgen05_descriptor(descriptor(0x1000, 128, 256), &oa).empty());
  CHECK(decode_tcgen05_descriptor(descriptor(0x4000, 512, 128), &ob).empty());
  std::vector<double> va(static_cast<size_t>(each) * 16), vb(32 * 16);
  for (int cta = 0; cta < ctas; ++cta)
    read_smem_matrix(tcgen05_b_matrix(m, ob), m.b, shared[cta].data(), vb.data() + cta * n_each * 16);
  for (int cta = 0; cta < ctas; ++cta) {
    if (a_in_tmem)
      tcgen05_a_from_tmem(m, words.data(), {0, 100}, va.data());
    else
      read_smem_matrix(tcgen05_a_matrix(m, oa), m.a, shared[cta].data(), va.data());
    Tcgen05Run run{va.data(), vb.data(), words.data(), {0, 0}, {0, 0}, {0, 0}};
    Tcgen05Invalid invalid;
    CHECK(tcgen05_product(m, cta, run, &invalid));
    for (int row = cta * each; row < (cta + 1) * each; ++row)
      for (int column = 0; column < 32; ++column) {
        double sum = 0;
        for (int l = 0; l < 16; ++l) sum += double{bf16_value(a[row * 16 + l])} * bf16_value(b[column * 16 + l]);
        TmemPlace const p = tcgen05_d_place(m, row, column);
        CHECK(p.cta == cta);
        CHECK(close(bits_float(words[p.lane * 512 + p.column]), sum));
      }
  }
}

}  // namespace

int main() {
  descriptors();
  places();
  block_scaled(1, 64, 64, 0);
  block_scaled(1, 256, 96, 2);
  block_scaled(2, 256, 64, 0);
  block_scaled(2, 256, 96, 0);
  block_scaled(2, 128, 96, 2);
  plain(1, 64, false);
  plain(1, 128, false);
  plain(1, 128, true);
  plain(2, 128, false);
  plain(2, 256, false);
  return check::report();
}
