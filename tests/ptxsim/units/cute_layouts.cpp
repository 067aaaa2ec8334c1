// The units' layouts against CuTe's, evaluated on the host: fragments, tensor memory, scale factors, canonical
// layouts of matrices in shared memory, tcgen05.ld and .cp. Each line printed: name, comparisons, differences.
#include <cutlass/float8.h>
#include <cute/arch/mma_sm120.hpp>
#include <cute/arch/mma_sm80.hpp>
#include <cute/atom/copy_traits_sm100.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/atom/mma_traits_sm100_frag.hpp>
#include <cute/atom/mma_traits_sm120.hpp>
#include <cute/atom/mma_traits_sm80.hpp>
#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cute/tensor.hpp>

#include <cstdio>

#include "units.h"

namespace sim = ptxsim;
using namespace cute;

namespace {

long failures = 0;
struct Line {
  char const* name;
  long checks = 0, differences = 0;
  void same(long a, long b) {
    ++checks;
    differences += a != b;
  }
  ~Line() {
    std::printf("%s %ld %ld\n", name, checks, differences);
    failures += differences != 0 || checks == 0;
  }
};

// (thread, value) -> row + rows * k of CuTe, against register, lane and bit of ours.
template <class Layout>
void fragment(char const* name, Layout const& layout, sim::MmaShape const& s, int rows, char which) {
  Line line{name};
  sim::MmaType const type = which == 'b' ? s.b : s.a;
  int const width = which == 'c' ? 32 : sim::mma_width(s, type), e = 32 / width;
  for (int t = 0; t < 32; ++t)
    for (int v = 0; v < int(size<1>(layout)); ++v) {
      int const index = layout(t, v), row = index % rows, other = index / rows;
      sim::MmaPlace const p = which == 'a'   ? sim::mma_a_place(s, row, other)
                              : which == 'b' ? sim::mma_b_place(s, other, row)
                                             : sim::mma_c_place(s, row, other);
      line.same(p.lane, t);
      line.same(p.reg, v / e);
      line.same(p.bit, v % e * width);
    }
}

template <class Traits>
void fragments(char const* name, int k, sim::MmaType type) {
  sim::MmaShape s;
  s.k = k;
  s.a = s.b = type;
  fragment(name, typename Traits::ALayout{}, s, 16, 'a');
  fragment(name, typename Traits::BLayout{}, s, 8, 'b');
  fragment(name, typename Traits::CLayout{}, s, 16, 'c');
}

// Lane and column of a CuTe address of 32-bit words.
long word_address(int lane, int column) { return (long(lane) << 16) + column; }

template <int Ctas, int M, int N>
void accumulators(char const* name) {
  Line line{name};
  using Frg = UMMA::tmem_frg<float, uint32_t, Ctas,
                             Ctas == 1 ? UMMA::TmemAllocMode::NonInterleaved : UMMA::TmemAllocMode::Interleaved>;
  auto const layout = make_tensor<Frg>(make_shape(make_shape(Int<M / Ctas>{}, Int<N>{}), _1{}, _1{})).layout();
  sim::Tcgen05Mma mma;
  mma.ctas = Ctas, mma.m = M, mma.n = N;
  for (int m = 0; m < M / Ctas; ++m)
    for (int n = 0; n < N; ++n)
      for (int cta = 0; cta < Ctas; ++cta) {
        sim::TmemPlace const p = sim::tcgen05_d_place(mma, m + cta * (M / Ctas), n);
        line.same(p.cta, cta);
        line.same(word_address(p.lane, p.column), layout(make_coord(make_coord(m, n), 0, 0)));
      }
}

// Scale factors as the SM103 main loop steps through them (single scales along k), and as an SM100 K = 64 product has
// them.
template <bool OfA, int Rows, int Vec, int Steps>
void scales(char const* name, int k, int sf_id_step) {
  Line line{name};
  using Frg = UMMA::tmem_sf_frg<cutlass::float_ue4m3_t, Vec, 2, OfA>;
  auto const layout =
      make_tensor<Frg>(make_shape(make_shape(make_shape(Int<Rows / 128>{}, _32{}, _4{}), make_shape(Int<Vec>{}, _1{})),
                                  _1{}, Int<Steps>{}))
          .layout();
  sim::Tcgen05Mma mma;
  mma.kind = sim::Tcgen05Kind::kMxf4nvf4;
  mma.ctas = 2, mma.m = 256, mma.n = OfA ? 256 : Rows, mma.k = k, mma.scale_block = Vec;
  int const scales_each = k / Vec;
  for (int first = 0; first + scales_each <= Steps; first += scales_each) {
    // An instruction gets the address of its first scale's word, and the byte in it as id.
    mma.sf_id_a = mma.sf_id_b = first % 4;
    line.same(first % 4 % sf_id_step, 0);
    long const base = layout(make_coord(make_coord(0, 0), 0, first)) / 4;
    for (int row = 0; row < Rows; ++row)
      for (int j = 0; j < scales_each; ++j)
        for (int q = 0; q < 4; ++q) {
          sim::ScalePlace const p = sim::tcgen05_scale_place(!OfA, mma, row, j);
          long const got = layout(make_coord(make_coord(row + Rows * q, 0), 0, first + j));
          line.same((word_address(row % 32 + 32 * q, 0) + base + p.column) * 4 + p.byte, got);
        }
  }
}

template <class Op>
void loads(char const* name, sim::TmemShape shape, bool packed) {
  Line line{name};
  using Traits = Copy_Traits<Op>;
  typename Traits::DstLayout const dst;
  typename Traits::ValID const id;
  int const registers = int(size<1>(dst)) / 32;
  for (int t = 0; t < 32; ++t)
    for (int r = 0; r < registers; ++r)
      for (int half = 0; half < 2; ++half) {
        long const bit = id(dst(t, r * 32 + 16 * half));
        long const dp = long(TMEM::DP_b{});
        sim::TmemAddress const p = sim::tmem_access(shape, r, t, 0);
        line.same(bit / dp, p.lane);
        line.same(bit % dp / 32, packed ? 2 * p.column + half : p.column);
      }
}

template <class Op>
void copies(char const* name, sim::TmemCopy copy, int rows, int chunks) {
  Line line{name};
  using Traits = Copy_Traits<Op>;
  typename Traits::ValID const id;
  typename Traits::SrcLayout const src;
  long const dp = long(TMEM::DP_b{});
  for (int i = 0; i < int(size<1>(src)); i += 1) {
    // Source bit: rows fastest, then the bits of a row; blocks of 32 rows lie behind one another in the 01_23 form.
    long const from = src(0, i), to = id(i);
    long const of_row = copy == sim::TmemCopy::k64x128bWarpx2_01_23 ? 32 : rows;
    long const row = from % of_row + from / (of_row * 128 * chunks) * of_row, bit = from / of_row % (128 * chunks);
    int lanes[4];
    int const n = sim::tmem_cp_lanes(copy, int(row), lanes);
    bool found = false;
    for (int l = 0; l < n; ++l) found = found || lanes[l] == to / dp;
    line.same(found, true);
    line.same(to % dp, bit);
  }
}

// Canonical layouts of bf16 matrices in shared memory, [rows][16], tiled by CuTe with rows first.
template <class Atom, sim::Major kMajor>
void canonical(char const* name, sim::TensorSwizzle swizzle, uint32_t leading, uint32_t stride) {
  Line line{name};
  auto const layout = as_position_independent_swizzle_layout(
      tile_to_shape(Atom{}, make_shape(_128{}, Int<kMajor == sim::Major::kK ? 64 : 16>{})));
  sim::SmemMatrix m;
  m.operand.start = 0x2000, m.operand.leading = leading, m.operand.stride = stride, m.operand.swizzle = swizzle;
  m.major = kMajor, m.width = 16, m.rows = 128, m.k = 16;
  sim::for_each_smem_chunk(m, [&](sim::SmemChunk const& chunk) {
    for (int i = 0; i < 8; ++i) {
      int const row = chunk.row + (kMajor == sim::Major::kMn ? i : 0), k = chunk.k + (kMajor == sim::Major::kK ? i : 0);
      line.same(0x2000 + 2 * long(layout(row, k)), long(chunk.address) + 2 * i);
    }
  });
}

}  // namespace

int main() {
  using bf16 = cutlass::bfloat16_t;
  fragments<MMA_Traits<SM80_16x8x16_F32BF16BF16F32_TN>>("m16n8k16", 16, sim::MmaType::kBf16);
  fragments<MMA_Traits<SM80_16x8x8_F32BF16BF16F32_TN>>("m16n8k8", 8, sim::MmaType::kBf16);
  fragments<MMA_Traits<SM80_16x8x8_F32TF32TF32F32_TN>>("m16n8k8.tf32", 8, sim::MmaType::kTf32);
  fragments<MMA_Traits<SM80_16x8x32_S32S8S8S32_TN>>("m16n8k32", 32, sim::MmaType::kE4m3);
  fragments<MMA_Traits<SM120::BLOCKSCALED::SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 16>>>(
      "m16n8k64", 64, sim::MmaType::kE2m1);
  accumulators<1, 128, 64>("D.1cta.128");
  accumulators<1, 64, 64>("D.1cta.64");
  accumulators<2, 256, 128>("D.2cta.256");
  accumulators<2, 128, 128>("D.2cta.128");
  scales<true, 128, 16, 24>("SFA.16.K96", 96, 2);
  scales<false, 128, 16, 24>("SFB128.16.K96", 96, 2);
  scales<false, 256, 16, 24>("SFB256.16.K96", 96, 2);
  scales<true, 128, 32, 12>("SFA.32.K96", 96, 1);
  scales<false, 256, 32, 12>("SFB256.32.K96", 96, 1);
  scales<true, 128, 16, 16>("SFA.16.K64", 64, 4);
  scales<false, 256, 16, 16>("SFB256.16.K64", 64, 4);
  scales<true, 128, 32, 8>("SFA.32.K64", 64, 2);
  scales<false, 256, 32, 8>("SFB256.32.K64", 64, 2);
  namespace L = SM100::TMEM::LOAD;
  loads<L::SM100_TMEM_LOAD_32dp32b8x>("ld.32x32b", sim::TmemShape::k32x32b, false);
  loads<L::SM100_TMEM_LOAD_32dp32b8x_16b>("ld.32x32b.pack", sim::TmemShape::k32x32b, true);
  loads<L::SM100_TMEM_LOAD_16dp64b4x>("ld.16x64b", sim::TmemShape::k16x64b, false);
  loads<L::SM100_TMEM_LOAD_16dp64b4x_16b>("ld.16x64b.pack", sim::TmemShape::k16x64b, true);
  loads<L::SM100_TMEM_LOAD_16dp128b4x>("ld.16x128b", sim::TmemShape::k16x128b, false);
  loads<L::SM100_TMEM_LOAD_16dp256b4x>("ld.16x256b", sim::TmemShape::k16x256b, false);
  loads<L::SM100_TMEM_LOAD_16dp256b4x_16b>("ld.16x256b.pack", sim::TmemShape::k16x256b, true);
  namespace U = SM100::TMEM::UTCCP;
  copies<U::SM100_UTCCP_4x32dp128bit_1cta>("cp.32x128b", sim::TmemCopy::k32x128bWarpx4, 32, 1);
  copies<U::SM100_UTCCP_2x64dp128bitlw0213_1cta>("cp.64x128b.02_13", sim::TmemCopy::k64x128bWarpx2_02_13, 64, 1);
  copies<U::SM100_UTCCP_2x64dp128bitlw0123_1cta>("cp.64x128b.01_23", sim::TmemCopy::k64x128bWarpx2_01_23, 64, 1);
  copies<U::SM100_UTCCP_128dp128bit_1cta>("cp.128x128b", sim::TmemCopy::k128x128b, 128, 1);
  copies<U::SM100_UTCCP_128dp256bit_1cta>("cp.128x256b", sim::TmemCopy::k128x256b, 128, 2);
  using S = sim::TensorSwizzle;
  using M = sim::Major;
  canonical<UMMA::Layout_K_SW128_Atom<bf16>, M::kK>("K.128", S::k128B, 16, 1024);
  canonical<UMMA::Layout_K_SW64_Atom<bf16>, M::kK>("K.64", S::k64B, 16, 512);
  canonical<UMMA::Layout_K_SW32_Atom<bf16>, M::kK>("K.32", S::k32B, 16, 256);
  canonical<UMMA::Layout_K_INTER_Atom<bf16>, M::kK>("K.none", S::kNone, 2048, 128);
  canonical<UMMA::Layout_MN_SW128_Atom<bf16>, M::kMn>("MN.128", S::k128B, 1024, 2048);
  canonical<UMMA::Layout_MN_SW64_Atom<bf16>, M::kMn>("MN.64", S::k64B, 512, 2048);
  canonical<UMMA::Layout_MN_SW32_Atom<bf16>, M::kMn>("MN.32", S::k32B, 256, 2048);
  canonical<UMMA::Layout_MN_INTER_Atom<bf16>, M::kMn>("MN.none", S::kNone, 2048, 128);
  canonical<GMMA::Layout_K_SW128_Atom<bf16>, M::kK>("wgmma.K.128", S::k128B, 16, 1024);
  canonical<GMMA::Layout_MN_SW128_Atom<bf16>, M::kMn>("wgmma.MN.128", S::k128B, 1024, 2048);
  canonical<GMMA::Layout_MN_SW64_Atom<bf16>, M::kMn>("wgmma.MN.64", S::k64B, 512, 2048);
  canonical<GMMA::Layout_MN_INTER_Atom<bf16>, M::kMn>("wgmma.MN.none", S::kNone, 2048, 128);
  return failures == 0 ? 0 : 1;
}
