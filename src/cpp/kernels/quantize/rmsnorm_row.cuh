// What the kernels of rmsnorm_quantize_nvfp4 have in common.
#ifndef FP4AOT_KERNELS_QUANTIZE_RMSNORM_ROW_CUH_
#define FP4AOT_KERNELS_QUANTIZE_RMSNORM_ROW_CUH_

#include "device/convert.cuh"
#include "device/memory.cuh"

namespace fp4aot {

struct RmsnormArgs {
  void const* input;
  int64_t input_stride;  // elements
  void const* weight;
  void* residual;
  int64_t residual_stride;  // elements
  float epsilon;
  float inverse_k;
  float const* global_scale;
  uint8_t* codes;
  int64_t codes_stride;
  uint8_t* scales;
  int64_t rows, rows_stored;        // with padding
  int32_t columns, columns_stored;  // blocks a row; with padding
  int32_t codes_alignment;
  int32_t row_threads_log2;
  bool swizzled;
};

// words += added, rounded to T.
template <class T, int kWords>
__device__ __forceinline__ void add_words(uint32_t (&words)[kWords], uint32_t const (&added)[kWords]) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    constexpr int kPerWord = Element<T>::kPerWord;
    float x[kPerWord], y[kPerWord];
    Element<T>::unpack(words[i], x);
    Element<T>::unpack(added[i], y);
#pragma unroll
    for (int j = 0; j < kPerWord; ++j) x[j] = __fadd_rn(x[j], y[j]);
    words[i] = Element<T>::pack(x);
  }
}

template <class T, int kWords>
__device__ __forceinline__ float sum_of_squares(uint32_t const (&words)[kWords], float sum) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    constexpr int kPerWord = Element<T>::kPerWord;
    float x[kPerWord];
    Element<T>::unpack(words[i], x);
#pragma unroll
    for (int j = 0; j < kPerWord; ++j) sum = __fmaf_rn(x[j], x[j], sum);
  }
  return sum;
}

template <class T, int kWords>
__device__ __forceinline__ void normalise(uint32_t (&words)[kWords], uint32_t const (&weight)[kWords], float factor) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    constexpr int kPerWord = Element<T>::kPerWord;
    float x[kPerWord], w[kPerWord];
    Element<T>::unpack(words[i], x);
    Element<T>::unpack(weight[i], w);
#pragma unroll
    for (int j = 0; j < kPerWord; ++j) x[j] = __fmul_rn(__fmul_rn(x[j], factor), w[j]);
    words[i] = Element<T>::pack(x);
  }
}

// 1 / sqrt(sum / k + epsilon) to an ulp: 0 for infinity, NaN for 0, whose rows have no finite quotient.
__device__ __forceinline__ float rmsnorm_factor(float sum, RmsnormArgs const& args) {
  float const mean = __fmaf_rn(sum, args.inverse_k, args.epsilon);
  float const estimate = rsqrtf(mean);
  float const excess = __fmaf_rn(-__fmul_rn(mean, estimate), estimate, 1.0f);
  float const factor = __fmaf_rn(__fmul_rn(estimate, 0.5f), excess, estimate);
  return mean < bits_float(0x7F800000u) ? factor : estimate;
}

}  // namespace fp4aot

#endif
