// W4A4 kernels on mma.sync with block scales: CUTLASS's collectives, composed, and an epilogue of ours.
#ifndef FP4AOT_KERNELS_GEMM_CUTLASS_MMA_SYNC_CUH_
#define FP4AOT_KERNELS_GEMM_CUTLASS_MMA_SYNC_CUH_

#include <cutlass/epilogue/collective/detail.hpp>

#include "kernels/gemm/cutlass_kernel.cuh"
#include "kernels/gemm/cutlass_rule.h"

namespace fp4aot {

// For kernels whose A is our B: stores a CTA's accumulators from registers, element by element, so that D may have any
// address and stride, and takes no shared memory. Neighbouring threads hold neighbouring columns of our D. In the form
// that CUTLASS's adapter for warp-specialised kernels expects.
template <class Output>
struct SwappedElementStore {
  using ElementOutput = Output;
  using ElementAccumulator = float;
  using ElementCompute = float;
  using ElementC = void;
  using ElementD = Output;
  using StrideD = cutlass::detail::TagToStrideC_t<cutlass::layout::ColumnMajor>;
  using StrideC = StrideD;
  using EpilogueSchedule = cutlass::epilogue::NoSmemWarpSpecialized;
  using DispatchPolicy = EpilogueSchedule;
  struct SharedStorage {};
  using TensorStorage = SharedStorage;
  struct Arguments {
    AlphaBiasArgs thread{};
    Output const* ptr_C = nullptr;
    StrideC dC{};
    Output* ptr_D = nullptr;
    StrideD dD{};
  };
  using Params = Arguments;

  template <class Shape>
  static constexpr Params to_underlying_arguments(Shape const&, Arguments const& args, void*) {
    return args;
  }
  template <class Shape>
  static size_t get_workspace_size(Shape const&, Arguments const&) {
    return 0;
  }
  template <class Shape>
  static cutlass::Status initialize_workspace(Shape const&, Arguments const&, void*, cudaStream_t,
                                              cutlass::CudaHostAdapter* = nullptr) {
    return cutlass::Status::kSuccess;
  }
  template <class Shape>
  static bool can_implement(Shape const&, Arguments const&) {
    return true;
  }

  CUTLASS_HOST_DEVICE explicit SwappedElementStore(Params const& params, SharedStorage const& = SharedStorage())
      : params_(&params) {}

  template <class Problem, class Tile, class Coordinate, class Engine, class Layout, class Mma, class Residue>
  CUTLASS_DEVICE void operator()(Problem const& problem, Tile const& tile, Coordinate const& coordinate,
                                 cute::Tensor<Engine, Layout> const& accumulators, Mma const& mma, Residue const&,
                                 int thread, char*) const {
    pdl_wait();
    int const rows = cute::get<0>(problem), columns = cute::get<1>(problem);
    auto const place = cute::make_coord(cute::get<0>(coordinate), cute::get<1>(coordinate));
    auto const in_tile =
        cute::local_tile(cute::make_identity_tensor(cute::make_shape(rows, columns)), cute::take<0, 2>(tile), place);
    auto const mine = mma.get_thread_slice(thread).partition_C(in_tile);
    constexpr int kCount = decltype(cute::size(accumulators))::value;
    AlphaBiasArgs const& args = params_->thread;
    float const alpha = args.alpha != nullptr ? *args.alpha : 1.0f;
    float x[kCount];  // all reads of the bias before the first write, so that equal ones are read once
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      int const row = cute::get<0>(mine(i));
      float const bias = args.bias != nullptr && row < rows ? load_bias(args.bias, args.bias_dtype, row) : 0.0f;
      x[i] = alpha * accumulators(i) + bias;
    }
    Output* const d = params_->ptr_D + cute::get<3>(coordinate) * cute::get<2>(params_->dD);
    int64_t const stride = cute::get<1>(params_->dD);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      int const row = cute::get<0>(mine(i)), column = cute::get<1>(mine(i));
      if (row < rows && column < columns) d[column * stride + row] = Output(x[i]);
    }
  }

 private:
  Params const* params_;
};

template <Format kFormat>
using MmaSyncElement = std::conditional_t<kFormat == Format::kNvfp4, cutlass::nv_float4_t<cutlass::float_e2m1_t>,
                                          cutlass::mx_float4_t<cutlass::float_e2m1_t>>;

// kM x kN x kStep: a CTA's tile, of which 99 KiB of shared memory hold two or more. kPingPong: two groups of warps take
// tiles in turn, one storing while the other multiplies; else both share one. kSwap: the kernel's A is our B, and D is
// stored from registers; else by TMA, which needs rows of D at multiples of 16 bytes.
template <Format kFormat_, int kM, int kN, int kStep_, bool kPingPong, bool kSwap_, class T>
struct MmaSyncGemm {
  static constexpr Format kFormat = kFormat_;
  static constexpr bool kSwap = kSwap_;
  static constexpr int kStep = kStep_;
  using Output = typename CutlassOutput<T>::Type;
  using Element = MmaSyncElement<kFormat>;
  using ScaleConfig = cutlass::detail::Sm1xxBlockScaledConfig<kVector<kFormat>>;
  using Tile = cute::Shape<cute::Int<kM>, cute::Int<kN>, cute::Int<kStep>>;
  using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
  using RowMajor = cutlass::layout::RowMajor;
  using ColumnMajor = cutlass::layout::ColumnMajor;
  static constexpr int kAlignment = 16 / static_cast<int>(sizeof(T));

  template <bool kFromRegisters, class Dummy = void>
  struct ChooseEpilogue {
    using Type = typename cutlass::epilogue::collective::CollectiveBuilder<
        cutlass::arch::Sm120, cutlass::arch::OpClassBlockScaledTensorOp, Tile, Cluster,
        cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, RowMajor, kAlignment, Output, RowMajor,
        kAlignment, cutlass::epilogue::collective::EpilogueScheduleAuto, AlphaBias<Output, 1, kN>>::CollectiveOp;
  };
  template <class Dummy>
  struct ChooseEpilogue<true, Dummy> {
    using Type = cutlass::epilogue::collective::detail::Sm90TmaWarpSpecializedAdapter<SwappedElementStore<Output>>;
  };
  using Epilogue = typename ChooseEpilogue<kSwap>::Type;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm120, cutlass::arch::OpClassBlockScaledTensorOp, Element, RowMajor, 32, Element, ColumnMajor, 32,
      float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::TensorStorage) +
                                                                         sizeof(typename Epilogue::PipelineStorage))>,
      std::conditional_t<kPingPong, cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                         cutlass::gemm::KernelTmaWarpSpecializedCooperative>>::CollectiveOp;
  using Kernel =
      PdlKernel<cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue, void>, false>;
  static void const* kernel() {
    return reinterpret_cast<void const*>(&gemm_mma_sync_kernel<MmaSyncGemm, Kernel::SharedStorageSize>);
  }
};

// The kernels of a table of tiles.
template <auto& kTiles, Format kFormat, int kIndex>
struct MmaSync {
  static constexpr CutlassTile kTile = kTiles[kIndex];
  static_assert(kTile.sms == 1 && kTile.store == (kTile.swap ? Store::kElement : Store::kTma));
  template <class T>
  using Kernel = MmaSyncGemm<kFormat, kTile.rows, kTile.columns, kTile.step, kTile.ping_pong, kTile.swap, T>;
};

}  // namespace fp4aot

#endif
