// d = alpha * accumulator + bias for CUTLASS's epilogues: a visitor that waits for preceding kernels before it reads
// anything. CUTLASS's own linear combination reads alpha in warps that never wait.
#ifndef FP4AOT_KERNELS_GEMM_CUTLASS_EPILOGUE_CUH_
#define FP4AOT_KERNELS_GEMM_CUTLASS_EPILOGUE_CUH_

#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/sm90_visitor_tma_warpspecialized.hpp>

#include "device/pdl.cuh"
#include "kernels/gemm/epilogue.cuh"

namespace fp4aot {

struct AlphaBiasArgs {
  float const* alpha;  // null: 1
  void const* bias;    // null: none
  int32_t bias_dtype;
};

// kDim: the dimension of CUTLASS's D that bias runs along, 1 (columns), or 0 where A and B are swapped. kLength: of a
// CTA's tile along it. Output: the type of D, to which the result is rounded once.
template <class Output, int kDim, int kLength>
struct AlphaBias {
  struct SharedStorage {
    alignas(16) float bias[kLength];
  };
  using Arguments = AlphaBiasArgs;
  using Params = AlphaBiasArgs;

  template <class Shape>
  static constexpr Params to_underlying_arguments(Shape const&, Arguments const& args, void*) {
    return args;
  }
  template <class Shape>
  static bool can_implement(Shape const&, Arguments const&) {
    return true;
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

  CUTLASS_HOST_DEVICE AlphaBias() {}
  CUTLASS_HOST_DEVICE AlphaBias(Params const& params, SharedStorage const& shared)
      : params_(&params), bias_(const_cast<float*>(shared.bias)) {}

  CUTLASS_DEVICE bool is_producer_load_needed() const { return false; }
  CUTLASS_DEVICE bool is_C_load_needed() const { return false; }

  template <class... Args>
  CUTLASS_DEVICE auto get_producer_load_callbacks(cutlass::epilogue::fusion::ProducerLoadArgs<Args...> const&) {
    return cutlass::epilogue::fusion::EmptyProducerLoadCallbacks{};
  }

  // Coordinates: of a thread's elements, relative to its first one, as (values, subtile rows, subtile columns).
  template <int kThreads, class Coordinates>
  struct Callbacks : cutlass::epilogue::fusion::EmptyConsumerStoreCallbacks {
    Params const* params;
    float* bias;  // of this tile, in shared memory
    Coordinates coordinates;
    int thread;
    int first;         // of the tile, in D
    int left;          // of D from there on
    int thread_first;  // of the thread, in the tile
    float alpha = 1.0f;

    CUTLASS_DEVICE Callbacks(Params const* params, float* bias, Coordinates coordinates, int thread, int first,
                             int left, int thread_first)
        : params(params),
          bias(bias),
          coordinates(coordinates),
          thread(thread),
          first(first),
          left(left),
          thread_first(thread_first) {}

    // Before a tile is stored. All threads of the epilogue have read the bias of the tile before.
    CUTLASS_DEVICE void begin() {
      pdl_wait();
      if (params->alpha != nullptr) alpha = *params->alpha;
#pragma unroll 1
      for (int i = thread; i < kLength; i += kThreads) {
        bias[i] = params->bias != nullptr && i < left
                      ? load_bias(params->bias, params->bias_dtype, static_cast<int64_t>(first) + i)
                      : 0.0f;
      }
    }

    CUTLASS_DEVICE bool begin_sync_needed() const { return true; }

    template <class Accumulator, int kCount>
    CUTLASS_DEVICE cutlass::Array<Output, kCount> visit(cutlass::Array<Accumulator, kCount> const& accumulators,
                                                        int epi_v, int epi_m, int epi_n) {
      cute::Tensor const at = coordinates(cute::_, cute::_, cute::_, epi_m, epi_n);
      cutlass::Array<float, kCount> result;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        result[i] = alpha * accumulators[i] + bias[thread_first + cute::get<kDim>(at(epi_v * kCount + i))];
      }
      return cutlass::NumericArrayConverter<Output, float, kCount>{}(result);
    }
  };

  template <bool kReferenceSource, class... Args>
  CUTLASS_DEVICE auto get_consumer_store_callbacks(cutlass::epilogue::fusion::ConsumerStoreArgs<Args...> const& args) {
    constexpr int kThreads = decltype(cute::size(args.tiled_copy))::value;
    int const left = cute::get<kDim>(args.residue_cD);
    int const first = static_cast<int>(cute::get<kDim>(args.problem_shape_mnkl)) - left;
    int const thread_first = left - static_cast<int>(cute::get<kDim>(args.residue_tCcD));
    return Callbacks<kThreads, decltype(args.tCcD)>(params_, bias_, args.tCcD, args.thread_idx, first, left,
                                                    thread_first);
  }

 private:
  Params const* params_ = nullptr;
  float* bias_ = nullptr;
};

}  // namespace fp4aot

#endif
