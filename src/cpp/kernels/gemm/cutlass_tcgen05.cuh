// W4A4 kernels on tcgen05.mma with block scales: CUTLASS's collectives, composed.
#ifndef FP4AOT_KERNELS_GEMM_CUTLASS_TCGEN05_CUH_
#define FP4AOT_KERNELS_GEMM_CUTLASS_TCGEN05_CUH_

#include "kernels/gemm/cutlass_kernel.cuh"
#include "kernels/gemm/cutlass_rule.h"

namespace fp4aot {

// The mainloop checks that rows of scales lie as far apart as its k asks; where k is cut into slices they lie as far
// apart as the whole k asks (scale_layout). All other checks remain.
template <class Base, class ScaleConfig>
struct SlicedKernel : Base {
  static bool can_implement(typename Base::Arguments args) {
    args.mainloop.layout_SFA = ScaleConfig::tile_atom_to_shape_SFA(args.problem_shape);
    args.mainloop.layout_SFB = ScaleConfig::tile_atom_to_shape_SFB(args.problem_shape);
    return Base::can_implement(args);
  }
};

template <Format kFormat>
struct Tcgen05Format;

template <>
struct Tcgen05Format<Format::kNvfp4> {
  using Element = cutlass::nv_float4_t<cutlass::float_e2m1_t>;
  using OneSm = cutlass::gemm::KernelTmaWarpSpecialized1SmNvf4Sm100;
  using TwoSm = cutlass::gemm::KernelTmaWarpSpecialized2SmNvf4Sm100;
  using UltraElement = cute::tuple<cutlass::float_e2m1_t, cutlass::float_ue4m3_t>;
  using UltraOneSm = cutlass::gemm::KernelTmaWarpSpecialized1SmBlockScaledMxNvf4UltraVs16Sm103;
  using UltraTwoSm = cutlass::gemm::KernelTmaWarpSpecialized2SmBlockScaledMxNvf4UltraVs16Sm103;
};

template <>
struct Tcgen05Format<Format::kMxfp4> {
  using Element = cutlass::mx_float4_t<cutlass::float_e2m1_t>;
  using OneSm = cutlass::gemm::KernelTmaWarpSpecialized1SmMxf4Sm100;
  using TwoSm = cutlass::gemm::KernelTmaWarpSpecialized2SmMxf4Sm100;
  using UltraElement = cute::tuple<cutlass::float_e2m1_t, cutlass::float_ue8m0_t>;
  using UltraOneSm = cutlass::gemm::KernelTmaWarpSpecialized1SmBlockScaledMxNvf4UltraVs32Sm103;
  using UltraTwoSm = cutlass::gemm::KernelTmaWarpSpecialized2SmBlockScaledMxNvf4UltraVs32Sm103;
};

// kM x kN: the tile of a tcgen05.mma, which two SMs share if kM is 256. kUltra: K = 96 instructions, whose tile has
// 768 values along k. kSwap: the kernel's A is our B.
template <Format kFormat_, int kM, int kN, bool kUltra, bool kSwap_, Store kStore, class T>
struct Tcgen05Gemm {
  static constexpr Format kFormat = kFormat_;
  static constexpr bool kSwap = kSwap_;
  static constexpr bool kTwoSm = kM == 256;
  static constexpr int kStep = kUltra ? 768 : 256;
  using Output = typename CutlassOutput<T>::Type;
  using Traits = Tcgen05Format<kFormat>;
  using Element = std::conditional_t<kUltra, typename Traits::UltraElement, typename Traits::Element>;
  using Schedule =
      std::conditional_t<kUltra, std::conditional_t<kTwoSm, typename Traits::UltraTwoSm, typename Traits::UltraOneSm>,
                         std::conditional_t<kTwoSm, typename Traits::TwoSm, typename Traits::OneSm>>;
  using Arch = std::conditional_t<kUltra, cutlass::arch::Sm103, cutlass::arch::Sm100>;
  using ScaleConfig = std::conditional_t<kUltra, cutlass::detail::Sm103BlockScaledConfig<kVector<kFormat>>,
                                         cutlass::detail::Sm1xxBlockScaledConfig<kVector<kFormat>>>;
  using Tile = cute::Shape<cute::Int<kM>, cute::Int<kN>, cute::Int<kStep>>;
  using Cluster = cute::Shape<int, int, cute::_1>;
  using RowMajor = cutlass::layout::RowMajor;
  using ColumnMajor = cutlass::layout::ColumnMajor;
  using OutputLayout = std::conditional_t<kSwap, ColumnMajor, RowMajor>;
  using EpilogueSchedule = std::conditional_t<
      kStore == Store::kTma,
      std::conditional_t<kTwoSm, cutlass::epilogue::TmaWarpSpecialized2Sm, cutlass::epilogue::TmaWarpSpecialized1Sm>,
      std::conditional_t<kTwoSm, cutlass::epilogue::NoSmemWarpSpecialized2Sm,
                         cutlass::epilogue::NoSmemWarpSpecialized1Sm>>;
  static constexpr int kAlignment =
      kStore == Store::kElement ? 1 : static_cast<int>(store_alignment(kStore) / sizeof(T));
  using Fusion = AlphaBias<Output, kSwap ? 0 : 1, kSwap ? kM / (kTwoSm ? 2 : 1) : kN>;

  // Tensor memory has 512 columns. Two accumulators of 256 overlap by a tile of the epilogue, and the scales of a step
  // (at most 48 columns) take the room that this leaves: it must not be as narrow as the builder's own choice, 32.
  using EpilogueTile = std::conditional_t<kN == 256, cute::Shape<cute::_128, cute::_64>,
                                          cutlass::epilogue::collective::EpilogueTileAuto>;

  // The builder takes the tile of the instruction and halves the rows of a two-SM one itself.
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm100, cutlass::arch::OpClassTensorOp, Tile, Cluster, EpilogueTile, float, float, void,
      OutputLayout, kAlignment, Output, OutputLayout, kAlignment, EpilogueSchedule, Fusion>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      Arch, cutlass::arch::OpClassBlockScaledTensorOp, Element, RowMajor, 32, Element, ColumnMajor, 32, float, Tile,
      Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      Schedule>::CollectiveOp;
  using Universal = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue, void>;
  using Kernel = SlicedKernel<PdlKernel<Universal, true>, ScaleConfig>;
  static void const* kernel() {
    return reinterpret_cast<void const*>(&gemm_tcgen05_kernel<Tcgen05Gemm, Kernel::SharedStorageSize>);
  }
};

// The kernels of a table of tiles.
template <auto& kTiles, Format kFormat, int kIndex>
struct Tcgen05 {
  static constexpr CutlassTile kTile = kTiles[kIndex];
  static_assert(kTile.sms == (kTile.rows == 256 ? 2 : 1) && !kTile.ping_pong);
  template <class T>
  using Kernel = Tcgen05Gemm<kFormat, kTile.rows, kTile.columns, kTile.step == 768, kTile.swap, kTile.store, T>;
};

}  // namespace fp4aot

#endif
