// A CUTLASS GEMM as one of our kernels: its launch, and the guarantees of programmatic dependent launch.
#ifndef FP4AOT_KERNELS_GEMM_CUTLASS_KERNEL_CUH_
#define FP4AOT_KERNELS_GEMM_CUTLASS_KERNEL_CUH_

#include <cuda_runtime.h>
// CUTLASS annotates a defaulted constructor, which nvcc reports although the header is a system one.
#pragma nv_diag_suppress 20012
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include <utility>

#include "device/launch.cuh"
#include "device/pdl.cuh"
#include "fp4aot/formats.h"
#include "kernels/gemm/cutlass_epilogue.cuh"
#include "kernels/gemm/cutlass_table.h"
#include "kernels/gemm/launch_blocks.h"

namespace fp4aot {

// What CUTLASS leaves to do for programmatic dependent launch. In its block-scaled kernels the warps that load A,
// B and scales, and those that take tiles from the queue, wait; AlphaBias does it for those that store. Not all
// let the next kernel start.
template <class Base, bool kTriggers>
struct PdlKernel : Base {
  CUTLASS_DEVICE void operator()(typename Base::Params const& params, char* shared) {
    if constexpr (!kTriggers) pdl_launch_dependents();
    Base::operator()(params, shared);
  }
};

// The names say what a kernel is built on and its dynamic shared memory, for profilers and for checks of the machine
// code.
template <class Config, int kSharedBytes>
__global__ void __launch_bounds__(Config::Kernel::MaxThreadsPerBlock, Config::Kernel::MinBlocksPerMultiprocessor)
    gemm_tcgen05_kernel(typename Config::Kernel::Params const __grid_constant__ params) {
  extern __shared__ __align__(1024) char shared[];
  typename Config::Kernel kernel;
  kernel(params, shared);
}

template <class Config, int kSharedBytes>
__global__ void __launch_bounds__(Config::Kernel::MaxThreadsPerBlock, Config::Kernel::MinBlocksPerMultiprocessor)
    gemm_mma_sync_kernel(typename Config::Kernel::Params const __grid_constant__ params) {
  extern __shared__ __align__(1024) char shared[];
  typename Config::Kernel kernel;
  kernel(params, shared);
}

template <class T>
struct CutlassOutput;
template <>
struct CutlassOutput<__nv_bfloat16> {
  using Type = cutlass::bfloat16_t;
};
template <>
struct CutlassOutput<__half> {
  using Type = cutlass::half_t;
};
template <>
struct CutlassOutput<float> {
  using Type = float;
};

// Swizzled scales of `rows` x `k` values, cut into `slices` along k: their layout as CUTLASS describes it.
template <Format kFormat, class ScaleConfig>
auto scale_layout(int rows, int k, int slices) {
  auto const whole = ScaleConfig::tile_atom_to_shape_SFA(cute::make_shape(rows, rows, k / slices, slices));
  auto stride = whole.stride();
  int64_t const columns = k / kVector<kFormat>;
  cute::get<1>(cute::get<0>(stride)) = static_cast<int32_t>(round_up(columns, kScaleAtomColumns) * kScaleAtomRows);
  cute::get<1>(cute::get<2>(stride)) = static_cast<int32_t>(columns / slices * kScaleAtomRows);  // whole atoms
  return cute::make_layout(whole.shape(), stride);
}

// Config: Kernel, ScaleConfig, kFormat, kSwap, kDynamicCluster and kernel(), the __global__ function.
template <class Config>
struct CutlassGemm {
  struct Operand {
    uint8_t const* codes;
    uint8_t const* scales;
    int64_t stride;  // bytes; a single row's is replaced, because it may be anything
    int rows;
  };
  using Kernel = typename Config::Kernel;

  static cudaError_t prepare(int device) {
    static PreparedDevices prepared;
    return prepared.once(device, [] {
      return cudaFuncSetAttribute(Config::kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  Kernel::SharedStorageSize);
    });
  }

  static typename Kernel::Arguments arguments(CutlassGemmCall const& call) {
    fp4aot_gemm_params const& p = call.params;
    bool const partial = call.slices > 1;
    typename Kernel::Arguments args{};
    args.mode = cutlass::gemm::GemmUniversalMode::kGemm;
    // The kernel's operands: A and B, or B and A.
    Operand a = {p.a_codes, p.a_scales, p.m > 1 ? p.a_stride : round_up(p.k / 2, 16), static_cast<int>(p.m)};
    Operand b = {p.b_codes, p.b_scales, p.n > 1 ? p.b_stride : round_up(p.k / 2, 16), static_cast<int>(p.n)};
    if (Config::kSwap) std::swap(a, b);
    int const k = static_cast<int>(p.k);
    args.problem_shape = cute::make_shape(a.rows, b.rows, k / call.slices, call.slices);

    using Element = typename Kernel::CollectiveMainloop::ArrayElementA;
    using Scale = typename Kernel::CollectiveMainloop::ElementSF;
    int64_t const slice = partial ? p.k / call.slices : 0;  // values
    args.mainloop.ptr_A = reinterpret_cast<Element const*>(a.codes);
    args.mainloop.dA = cute::make_stride(a.stride * 2, cute::_1{}, slice);
    args.mainloop.ptr_SFA = reinterpret_cast<Scale const*>(a.scales);
    args.mainloop.layout_SFA = scale_layout<Config::kFormat, typename Config::ScaleConfig>(a.rows, k, call.slices);
    args.mainloop.ptr_B = reinterpret_cast<Element const*>(b.codes);
    args.mainloop.dB = cute::make_stride(b.stride * 2, cute::_1{}, slice);
    args.mainloop.ptr_SFB = reinterpret_cast<Scale const*>(b.scales);
    args.mainloop.layout_SFB = scale_layout<Config::kFormat, typename Config::ScaleConfig>(b.rows, k, call.slices);

    using Output = typename Kernel::ElementD;
    int64_t const d_row = partial || p.m == 1 ? p.n : p.d_stride, d_slice = partial ? p.m * p.n : 0;
    args.epilogue.ptr_D = static_cast<Output*>(partial ? p.workspace : p.d);
    if constexpr (Config::kSwap) {
      args.epilogue.dD = cute::make_stride(cute::_1{}, d_row, d_slice);
    } else {
      args.epilogue.dD = cute::make_stride(d_row, cute::_1{}, d_slice);
    }
    args.epilogue.dC = args.epilogue.dD;
    args.epilogue.thread = partial ? AlphaBiasArgs{} : AlphaBiasArgs{p.alpha, p.bias, p.bias_dtype};

    args.hw_info.device_id = p.device.index;
    args.hw_info.cluster_shape = dim3(call.cluster_m, call.cluster_n, 1);
    args.hw_info.cluster_shape_fallback = args.hw_info.cluster_shape;
    using Raster = std::decay_t<decltype(args.scheduler.raster_order)>;
    args.scheduler.max_swizzle_size = 1;
    args.scheduler.raster_order = call.along_n ? Raster::AlongN : Raster::AlongM;
    return args;
  }

  static fp4aot_status run(CutlassGemmCall const& call, char const* op, Message* message) {
    fp4aot_gemm_params const& p = call.params;
    cudaError_t error = prepare(p.device.index);
    if (error != cudaSuccess) return gemm_failed(message, op, "cudaFuncSetAttribute", error, cudaGetErrorString(error));
    typename Kernel::Arguments const args = arguments(call);
    if (!Kernel::can_implement(args)) return gemm_failed(message, op, "can_implement", 0, "a tactic's rules are wrong");
    typename Kernel::Params params = Kernel::to_underlying_arguments(args, nullptr);

    cudaLaunchAttribute attributes[2] = {};
    unsigned count = 0;
    if (call.cluster_m * call.cluster_n > 1) {
      attributes[count].id = cudaLaunchAttributeClusterDimension;
      attributes[count].val.clusterDim = {static_cast<unsigned>(call.cluster_m), static_cast<unsigned>(call.cluster_n),
                                          1};
      ++count;
    }
    if (p.flags & FP4AOT_FLAG_PDL) {
      attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[count].val.programmaticStreamSerializationAllowed = 1;
      ++count;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = Kernel::get_grid_shape(params);
    config.blockDim = dim3(Kernel::MaxThreadsPerBlock);
    config.dynamicSmemBytes = Kernel::SharedStorageSize;
    config.stream = static_cast<cudaStream_t>(p.stream);
    config.attrs = attributes;
    config.numAttrs = count;
    void* kernel_arguments[] = {&params};
    error = cudaLaunchKernelExC(&config, Config::kernel(), kernel_arguments);
    if (error == cudaSuccess) return FP4AOT_OK;
    return launch_failed({op, p.stream, p.flags, message}, error, config.gridDim, config.blockDim.x,
                         config.dynamicSmemBytes);
  }
};

// A row of an image's table: Make<T> is the Config for output type T.
template <template <class> class Make>
constexpr CutlassGemmKernel cutlass_gemm_kernel() {
  return {{&CutlassGemm<Make<__nv_bfloat16>>::run, &CutlassGemm<Make<__half>>::run, &CutlassGemm<Make<float>>::run},
          {&CutlassGemm<Make<__nv_bfloat16>>::prepare, &CutlassGemm<Make<__half>>::prepare,
           &CutlassGemm<Make<float>>::prepare}};
}

}  // namespace fp4aot

#endif
