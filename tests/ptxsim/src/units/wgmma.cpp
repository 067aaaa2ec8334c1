#include "units/wgmma.h"

#include <vector>

namespace ptxsim {
namespace {
constexpr int kWarpRows = 16, kRows = 64;
}

char const* wgmma_shape_fault(WgmmaShape const& s) {
  if (s.n < 8 || s.n > 256 || s.n % 8 != 0) return "n must be a multiple of 8 up to 256";
  bool const small = s.type == MmaType::kE4m3 || s.type == MmaType::kE5m2;
  bool const small_b = s.type_b == MmaType::kE4m3 || s.type_b == MmaType::kE5m2;
  if (small ? !small_b : s.type != s.type_b) return "these types do not go together";
  if (s.type > MmaType::kE5m2) return "no such type";
  if (s.fp16_accumulator && (s.type == MmaType::kBf16 || s.type == MmaType::kTf32))
    return "no fp16 accumulator for the type";
  if (wgmma_k(s) != 16 && (s.major_a != Major::kK || s.major_b != Major::kK))
    return "only 16-bit types can be transposed";
  return nullptr;
}

SmemMatrix wgmma_a_matrix(WgmmaShape const& s, SmemOperand const& operand) {
  return {operand, s.major_a, wgmma_width(s), kRows, wgmma_k(s)};
}
SmemMatrix wgmma_b_matrix(WgmmaShape const& s, SmemOperand const& operand) {
  return {operand, s.major_b, wgmma_width(s), s.n, wgmma_k(s)};
}

void wgmma_a_values(WgmmaShape const& s, uint32_t const (*registers)[kWarpLanes], double* values) {
  MmaShape fragment;
  fragment.k = wgmma_k(s);
  fragment.a = s.type, fragment.b = s.type_b;
  mma_a_values(fragment, registers, values);
}

void wgmma_warp(WgmmaShape const& s, double const* a, double const* b, bool accumulate, uint32_t (*d)[kWarpLanes]) {
  int const k = wgmma_k(s);
  std::vector<double> transposed(static_cast<size_t>(k) * s.n), product(static_cast<size_t>(kWarpRows) * s.n);
  double const sign = s.negate_a != s.negate_b ? -1.0 : 1.0;
  for (int n = 0; n < s.n; ++n)
    for (int l = 0; l < k; ++l) transposed[static_cast<size_t>(l) * s.n + n] = sign * b[n * k + l];
  matrix_product(kWarpRows, s.n, k, a, transposed.data(), product.data());
  MmaShape fragment;
  fragment.fp16_accumulator = s.fp16_accumulator;
  int const per_block = mma_c_registers(fragment);
  for (int row = 0; row < kWarpRows; ++row)
    for (int column = 0; column < 8; ++column) {
      MmaPlace const p = mma_c_place(fragment, row, column);
      for (int block = 0; block < s.n / 8; ++block) {
        uint32_t& word = d[block * per_block + p.reg][p.lane];
        double const sum = product[static_cast<size_t>(row) * s.n + block * 8 + column];
        if (s.fp16_accumulator) {
          double const old = accumulate ? fp16_value(word >> p.bit & 0xFFFF) : 0.0;
          word = (word & ~(0xFFFFu << p.bit)) | round_to_half(sum + old) << p.bit;
        } else {
          word = round_to_float(accumulate ? sum + bits_float(word) : sum);
        }
      }
    }
}

}  // namespace ptxsim
