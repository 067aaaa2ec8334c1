// rmsnorm_quantize_nvfp4 of small matrices: several CTAs make a row, eight elements a thread. Each of them reads the whole
// row for its sum of squares, in the same order, and quantises its part: the row comes from L2 but for the first time, and
// no sums go between CTAs. All loads are issued before the first use of one.
//
// With a residual, which is also written, the CTAs of a row are a cluster: nobody writes before all have read.
#ifndef FP4AOT_KERNELS_QUANTIZE_RMSNORM_SMALL_CUH_
#define FP4AOT_KERNELS_QUANTIZE_RMSNORM_SMALL_CUH_

#include <array>

#include "device/cluster.cuh"
#include "device/launch_cluster.h"
#include "device/pdl.cuh"
#include "kernels/quantize/block.cuh"
#include "kernels/quantize/rmsnorm_row.cuh"
#include "kernels/quantize/small_scales.cuh"

namespace fp4aot {

constexpr int kRmsnormChunk = 8;  // elements of a thread

// The sum over the CTA's threads, in an order that is always the same; the same for every thread.
template <int kThreads>
__device__ __forceinline__ float sum_of_threads(float value) {
  constexpr int kWarps = kThreads / 32;
  __shared__ alignas(16) float sums[kWarps];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < kWarps; i += 4) {
    float4 const four = *reinterpret_cast<float4 const*>(sums + i);
    total += (four.x + four.y) + (four.z + four.w);
  }
  return total;
}

// kHeld: chunks of a row that a thread reads, and CTAs of a row.
template <class Codec, class T, int kThreads, int kHeld>
__global__ void __launch_bounds__(kThreads) rmsnorm_small_kernel(RmsnormArgs const args) {
  pdl_launch_dependents();
  constexpr int kWords = kRmsnormChunk / Element<T>::kPerWord;
  constexpr unsigned kCtaAtoms = kThreads * kRmsnormChunk / kNvfp4Vector / kScaleAtomColumns;
  unsigned const row = blockIdx.y, rows = args.rows, columns = args.columns;
  unsigned const chunks = columns * (kNvfp4Vector / kRmsnormChunk), own = blockIdx.x * kThreads + threadIdx.x;
  T const* const input = static_cast<T const*>(args.input) + row * args.input_stride;
  T* const residual = args.residual == nullptr ? nullptr : static_cast<T*>(args.residual) + row * args.residual_stride;

  // Zeros where there is no element, so that nothing below depends on whether there is.
  uint32_t held[kHeld][kWords] = {}, added[kHeld][kWords] = {};
  uint32_t words[kWords] = {}, residual_words[kWords] = {}, weights[kWords] = {};
  bool const exists = own < chunks;
  auto const load_row = [&](T const* from, uint32_t (&all)[kHeld][kWords], uint32_t (&part)[kWords]) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      unsigned const chunk = i * kThreads + threadIdx.x;
      if (chunk < chunks) load_words<T, kWords, true>(from + chunk * kRmsnormChunk, all[i]);
    }
    if (exists) load_words<T, kWords, true>(from + own * kRmsnormChunk, part);
  };
  pdl_wait();
  load_row(input, held, words);
  if (exists) load_words<T, kWords, true>(static_cast<T const*>(args.weight) + own * kRmsnormChunk, weights);
  if (residual != nullptr) load_row(residual, added, residual_words);
  Scaler<Format::kNvfp4> const scaler(args.global_scale, false);

  unsigned const column = own / (kNvfp4Vector / kRmsnormChunk), columns_stored = args.columns_stored;
  unsigned const atoms_a_row = columns_stored / kScaleAtomColumns;
  uint8_t* scale = args.scales + small_scale_offset(args.swizzled, row, column, columns, columns_stored);
  if (args.swizzled) {  // while the input is on its way
    unsigned const first_atom = blockIdx.x * kCtaAtoms;
    unsigned const last_tile = (rows - 1) / kScaleAtomRows;
    if (first_atom < atoms_a_row) {
      zero_scale_padding(args.scales + (last_tile * atoms_a_row + first_atom) * kScaleAtomBytes,
                         min(kCtaAtoms, atoms_a_row - first_atom), rows - last_tile * kScaleAtomRows,
                         row * kThreads + threadIdx.x, rows * kThreads);
    }
  }

  if (residual != nullptr) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) add_words<T>(held[i], added[i]);
    add_words<T>(words, residual_words);
  }
  float sums[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) sums[i] = sum_of_squares<T>(held[i], 0.0f);
#pragma unroll
  for (int width = kHeld / 2; width > 0; width /= 2) {
#pragma unroll
    for (int i = 0; i < width; ++i) sums[i] += sums[i + width];
  }
  float const factor = rmsnorm_factor(sum_of_threads<kThreads>(sums[0]), args);
  if (kHeld > 1 && residual != nullptr) cluster_arrive();  // after a barrier of the CTA: all its loads are there

  uint32_t normalised[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) normalised[i] = words[i];
  normalise<T>(normalised, weights, factor);
  float amax = amax_of<T>(normalised);
  amax = max_nan(amax, __shfl_xor_sync(~0u, amax, 1));
  uint32_t codes[1];
  uint8_t const byte = encode<Codec, Format::kNvfp4, T>(normalised, amax, scaler, codes);
  if (exists) store_codes(args.codes + row * args.codes_stride + own * (kRmsnormChunk / 2), codes, 8);
  if (own % 2 == 0 && column < columns_stored) *scale = exists ? byte : uint8_t{0};
  if (residual != nullptr) {
    if constexpr (kHeld > 1) cluster_wait();
    if (exists) store_words<T, kWords, true>(residual + own * kRmsnormChunk, words);
  }
}

template <class Policy>
struct RmsnormSmall {
  using Kernel = void (*)(RmsnormArgs);

  struct Choice {
    Kernel kernel;
    int threads, ctas;  // of a CTA, of a row
    int64_t most;       // CTAs
  };

  // In the order of preference: small CTAs while each has a multiprocessor to itself, then larger ones, which read a row
  // fewer times.
  template <class T>
  static std::array<Choice, 8> const& choices() {
    using Codec = typename Policy::E2m1;
    constexpr int64_t kAlone = Policy::kMultiprocessorCount, kPairs = 2 * kAlone;
    static constexpr std::array<Choice, 8> kChoices = {{
        {rmsnorm_small_kernel<Codec, T, 128, 1>, 128, 1, kPairs},
        {rmsnorm_small_kernel<Codec, T, 128, 4>, 128, 4, kAlone},
        {rmsnorm_small_kernel<Codec, T, 128, 8>, 128, 8, kAlone},
        {rmsnorm_small_kernel<Codec, T, 256, 2>, 256, 2, kPairs},
        {rmsnorm_small_kernel<Codec, T, 256, 4>, 256, 4, kPairs},
        {rmsnorm_small_kernel<Codec, T, 256, 8>, 256, 8, kPairs},
        {rmsnorm_small_kernel<Codec, T, 512, 1>, 512, 1, kPairs},
        {rmsnorm_small_kernel<Codec, T, 512, 2>, 512, 2, kPairs},
    }};
    return kChoices;
  }

  static std::array<Choice, 8> const& choices(int32_t dtype) {
    return *with_element_type(dtype, [](auto element) { return &choices<decltype(element)>(); });
  }

  static void preload() {
    for (int32_t dtype : {FP4AOT_BF16, FP4AOT_FP16, FP4AOT_FP32}) {
      for (Choice const& choice : choices(dtype)) preload_kernel(reinterpret_cast<void const*>(choice.kernel));
    }
  }

  // False if the matrix is not small; else with the launch's status. Everything is aligned to 16 bytes, codes to 8.
  static bool launch(LaunchTarget const& target, int32_t dtype, RmsnormArgs const& args, fp4aot_status* status) {
    int64_t const chunks = int64_t{args.columns_stored} * (kNvfp4Vector / kRmsnormChunk);
    for (Choice const& choice : choices(dtype)) {
      if (chunks > choice.threads * choice.ctas || args.rows > choice.most / choice.ctas) continue;
      dim3 const grid(static_cast<unsigned>(choice.ctas), static_cast<unsigned>(args.rows));
      auto const threads = static_cast<unsigned>(choice.threads);
      *status = args.residual != nullptr && choice.ctas > 1
                    ? launch_cluster(target, choice.kernel, grid, dim3(threads), 0, grid.x, args)
                    : fp4aot::launch(target, reinterpret_cast<void const*>(choice.kernel), grid, threads, args);
      return true;
    }
    return false;
  }
};

}  // namespace fp4aot

#endif
