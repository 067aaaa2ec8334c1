// rmsnorm_quantize_nvfp4 (small matrices: rmsnorm_small.cuh): a group of 32 to 128 threads makes a row. Its elements
// stay in registers between the two passes (kBlocks blocks a thread); longer rows are read again (kBlocks = 0). Small
// CTAs with several blocks a thread: what a thread does once a row (the reduction, the root, addresses) is as much work
// as half a block, and other CTAs fill the waits.
#ifndef FP4AOT_KERNELS_QUANTIZE_RMSNORM_CUH_
#define FP4AOT_KERNELS_QUANTIZE_RMSNORM_CUH_

#include "device/launch.cuh"
#include "device/pdl.cuh"
#include "device/reduce.cuh"
#include "kernels/quantize/block.cuh"
#include "kernels/quantize/rmsnorm_row.cuh"
#include "kernels/quantize/rmsnorm_small.cuh"

namespace fp4aot {

constexpr int kRmsnormThreads = 128;

template <class T, bool kAligned, int kWords>
__device__ __forceinline__ void add_residual(T* residual, uint32_t (&words)[kWords]) {
  uint32_t added[kWords];
  load_words<T, kWords, kAligned>(residual, added);
  add_words<T>(words, added);
  store_words<T, kWords, kAligned>(residual, words);
}

template <class Codec, class T, bool kAligned, int kBlocks>
__global__ void __launch_bounds__(kRmsnormThreads) rmsnorm_quantize_kernel(RmsnormArgs const args) {
  pdl_launch_dependents();
  constexpr Format kFormat = Format::kNvfp4;
  constexpr int kWords = kNvfp4Vector / Element<T>::kPerWord;
  constexpr int kHeld = kBlocks > 0 ? kBlocks : 1;
  __shared__ float scratch[2][kRmsnormThreads / 32];
  unsigned const row_threads = 1u << args.row_threads_log2;
  unsigned const lane = threadIdx.x & (row_threads - 1);
  unsigned const groups = kRmsnormThreads >> args.row_threads_log2;
  unsigned const columns = args.columns, columns_stored = args.columns_stored;
  int64_t const row_step = static_cast<int64_t>(gridDim.x) * groups;
  int64_t const offset = static_cast<int64_t>(lane) * kNvfp4Vector, offset_step = row_threads * kNvfp4Vector;
  T const* const weight = static_cast<T const*>(args.weight) + offset;
  int64_t row = static_cast<int64_t>(blockIdx.x) * groups + (threadIdx.x >> args.row_threads_log2);
  T const* input = static_cast<T const*>(args.input) + row * args.input_stride + offset;
  int parity = 0;

  pdl_wait();
  Scaler<kFormat> const scaler(args.global_scale, false);
  uint32_t words[kHeld][kWords];
  // The bound is the CTA's, for the barriers of the reduction.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < args.rows_stored; first += row_step) {
    bool const row_exists = row < args.rows;
    T* const residual =
        args.residual == nullptr ? nullptr : static_cast<T*>(args.residual) + row * args.residual_stride + offset;

    float sum = 0.0f;
    uint32_t weights[kWords];
    if constexpr (kBlocks > 0) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {  // all loads before the first use
        if (row_exists && lane + i * row_threads < columns) {
          load_words<T, kWords, kAligned>(input + i * offset_step, words[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        if (row_exists && lane + i * row_threads < columns) {
          if (residual != nullptr) add_residual<T, kAligned>(residual + i * offset_step, words[i]);
          sum = sum_of_squares<T>(words[i], sum);
        }
      }
    } else if (row_exists) {
      int64_t at = 0;
      for (unsigned c = lane; c < columns; c += row_threads, at += offset_step) {
        load_words<T, kWords, kAligned>(input + at, words[0]);
        if (residual != nullptr) add_residual<T, kAligned>(residual + at, words[0]);
        sum = sum_of_squares<T>(words[0], sum);
      }
    }
    sum = reduce_group(sum, row_threads, scratch[parity], Sum{});
    parity ^= 1;
    float const factor = rmsnorm_factor(sum, args);

    uint8_t* const codes_row = args.codes + row * args.codes_stride + static_cast<int64_t>(lane) * (kNvfp4Vector / 2);
    uint8_t* const scales_row = args.scales + (args.swizzled ? scale_offset(row, lane, columns) : row * columns + lane);
    unsigned const scale_step = args.swizzled ? row_threads / kScaleAtomColumns * kScaleAtomBytes : row_threads;
    bool const row_stored = row < args.rows_stored;
    auto const finish = [&](unsigned i, uint32_t (&x)[kWords]) {
      unsigned const c = lane + i * row_threads;
      uint8_t byte = 0;  // padding
      if (row_exists && c < columns) {
        load_words<T, kWords, kAligned>(weight + i * offset_step, weights);
        normalise<T>(x, weights, factor);
        uint32_t codes[kNvfp4Vector / 8];
        byte = encode<Codec, kFormat, T>(x, amax_of<T>(x), scaler, codes);
        store_codes(codes_row + i * static_cast<int64_t>(row_threads * (kNvfp4Vector / 2)), codes,
                    kAligned && args.codes_alignment < 8 ? 8 : args.codes_alignment);
      }
      if (row_stored && c < columns_stored) scales_row[i * static_cast<int64_t>(scale_step)] = byte;
    };
    if constexpr (kBlocks > 0) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) finish(i, words[i]);
    } else {
      for (unsigned i = 0; lane + i * row_threads < columns_stored; ++i) {
        if (row_exists && lane + i * row_threads < columns) {
          T const* const x = residual == nullptr ? input : residual;  // what this thread wrote above
          load_words<T, kWords, kAligned>(x + i * offset_step, words[0]);
        }
        finish(i, words[0]);
      }
    }
    row += row_step;
    input += row_step * args.input_stride;
  }
}

template <class Policy>
struct RmsnormQuantize {
  template <class T>
  static void const* kernel(bool aligned, int blocks) {
    using Codec = typename Policy::E2m1;
    if (!aligned) return reinterpret_cast<void const*>(&rmsnorm_quantize_kernel<Codec, T, false, 0>);
    switch (blocks) {
      case 1:
        return reinterpret_cast<void const*>(&rmsnorm_quantize_kernel<Codec, T, true, 1>);
      case 2:
        return reinterpret_cast<void const*>(&rmsnorm_quantize_kernel<Codec, T, true, 2>);
      case 4:
        return reinterpret_cast<void const*>(&rmsnorm_quantize_kernel<Codec, T, true, 4>);
      case 8:
        if constexpr (sizeof(T) == 2) {
          return reinterpret_cast<void const*>(&rmsnorm_quantize_kernel<Codec, T, true, 8>);
        }  // too many registers in fp32
        [[fallthrough]];
      default:
        return reinterpret_cast<void const*>(&rmsnorm_quantize_kernel<Codec, T, true, 0>);
    }
  }

  static void const* choose(int32_t dtype, bool aligned, int blocks) {
    return with_element_type(dtype, [&](auto element) { return kernel<decltype(element)>(aligned, blocks); });
  }

  static void preload() {
    RmsnormSmall<Policy>::preload();
    for (int32_t dtype : {FP4AOT_BF16, FP4AOT_FP16, FP4AOT_FP32}) {
      preload_kernel(choose(dtype, false, 0));
      for (int blocks : {0, 1, 2, 4, 8}) preload_kernel(choose(dtype, true, blocks));
    }
  }

  static fp4aot_status launch(char const* op, fp4aot_quantize_params const& p, Message* message) {
    int64_t const columns = p.k / kNvfp4Vector;
    if (p.rows == 0 || columns == 0) return FP4AOT_OK;
    if (columns > kMaxColumns) return too_wide(op, p.k, kMaxColumns * kNvfp4Vector, message);
    int64_t const element = element_bytes(p.input_dtype);
    RmsnormArgs args = {};
    args.input = p.input;
    args.input_stride = p.input_stride;
    args.weight = p.weight;
    args.residual = p.residual;
    args.residual_stride = p.residual_stride;
    args.epsilon = p.epsilon;
    args.inverse_k = 1.0f / static_cast<float>(p.k);
    args.global_scale = p.global_scale;
    args.codes = p.codes;
    args.codes_stride = p.codes_stride;
    args.scales = p.scales;
    args.rows = p.rows;
    args.columns = static_cast<int32_t>(columns);
    args.codes_alignment = codes_alignment(p.codes, p.codes_stride);
    args.swizzled = p.scale_layout == FP4AOT_SCALES_SWIZZLED;
    args.rows_stored = args.swizzled ? round_up(p.rows, kScaleAtomRows) : p.rows;
    args.columns_stored = static_cast<int32_t>(args.swizzled ? round_up(columns, kScaleAtomColumns) : columns);
    bool const aligned = args.codes_alignment >= 8 && is_aligned(p.weight, 16) &&
                         rows_aligned(p.input, p.input_stride * element, 16) &&
                         (p.residual == nullptr || rows_aligned(p.residual, p.residual_stride * element, 16));
    LaunchTarget const target = {op, p.stream, p.flags, message};
    fp4aot_status status = FP4AOT_OK;
    if (aligned && RmsnormSmall<Policy>::launch(target, p.input_dtype, args, &status)) return status;
    // Few rows are spread over all the threads there are, many leave four blocks to a thread.
    int64_t const wanted = p.rows <= Policy::kRmsnormFewRows ? columns : (columns + 3) / 4;
    int threads_log2 = 5;
    while (2 << threads_log2 <= kRmsnormThreads && 1 << threads_log2 < wanted) ++threads_log2;
    args.row_threads_log2 = threads_log2;
    int64_t const a_thread = (args.columns_stored + (int64_t{1} << threads_log2) - 1) >> threads_log2;
    int const blocks = a_thread <= 1 ? 1 : a_thread <= 2 ? 2 : a_thread <= 4 ? 4 : a_thread <= 8 ? 8 : 0;
    int64_t const groups = kRmsnormThreads >> threads_log2;
    int64_t const groups_of_rows = (args.rows_stored + groups - 1) / groups;
    int64_t const rounds = (groups_of_rows + Policy::kRmsnormCtas - 1) / Policy::kRmsnormCtas;
    dim3 const grid(static_cast<unsigned>((groups_of_rows + rounds - 1) / rounds));
    return fp4aot::launch(target, choose(p.input_dtype, aligned, blocks), grid, kRmsnormThreads, args);
  }
};

}  // namespace fp4aot

#endif
