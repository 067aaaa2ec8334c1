// nvfp4_global_scale: the largest finite magnitude of a matrix. Each CTA leaves its maximum in the workspace, a second
// kernel of one CTA reduces those (maxima do not depend on order); a single CTA finishes by itself. No memory needs a
// value beforehand.
#ifndef FP4AOT_KERNELS_QUANTIZE_GLOBAL_SCALE_CUH_
#define FP4AOT_KERNELS_QUANTIZE_GLOBAL_SCALE_CUH_

#include "device/launch.cuh"
#include "device/memory.cuh"
#include "device/pdl.cuh"
#include "device/reduce.cuh"

namespace fp4aot {

constexpr int kAmaxThreads = 256;
constexpr int kAmaxUnroll = 4;
constexpr int kAmaxMaxCtas = 1024;

struct AmaxArgs {
  void const* input;
  int64_t stride;  // elements
  int64_t rows, k;
  int64_t segments;      // a row is cut into; an item is one of them
  int32_t threads_log2;  // threads that share an item
  float* partial;        // a float a CTA; null: this CTA is the only one
  float* global_scale;
};

struct AmaxFinishArgs {
  float const* partial;
  int32_t count;
  float* global_scale;
};

// max(m, |x|) if x is finite.
__device__ __forceinline__ float finite_max(float m, float x) {
  x = fabsf(x);
  return x <= FLT_MAX ? fmaxf(m, x) : m;
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kAmaxThreads) amax_kernel(AmaxArgs const args) {
  pdl_launch_dependents();
  __shared__ float scratch[kAmaxThreads / 32];
  constexpr int kPiece = 16 / static_cast<int>(sizeof(T));  // elements of a 16-byte load
  constexpr int kPerWord = Element<T>::kPerWord;
  int const threads = 1 << args.threads_log2, lane = threadIdx.x & (threads - 1);
  int64_t const groups = kAmaxThreads >> args.threads_log2;
  int64_t const segment_length = int64_t{kAmaxUnroll * kPiece} << args.threads_log2;
  int64_t const items = args.rows * args.segments;
  pdl_wait();
  float amax = 0.0f;
  for (int64_t item = blockIdx.x * groups + (threadIdx.x >> args.threads_log2); item < items;
       item += gridDim.x * groups) {
    int64_t const row = args.segments == 1 ? item : item / args.segments;
    int64_t const start = (item - row * args.segments) * segment_length;
    T const* const p = static_cast<T const*>(args.input) + row * args.stride + start;
    int64_t const left = args.k - start;
    int const length = static_cast<int>(left < segment_length ? left : segment_length);
    int tail = 0;
    if constexpr (kAligned) {
      tail = length / kPiece * kPiece;
      uint32_t words[kAmaxUnroll][4] = {};
#pragma unroll
      for (int i = 0; i < kAmaxUnroll; ++i) {
        int const at = (lane + i * threads) * kPiece;
        if (at < tail) load_words<T, 4, true>(p + at, words[i]);
      }
#pragma unroll
      for (int i = 0; i < kAmaxUnroll * 4; ++i) {
        float x[kPerWord];
        Element<T>::unpack(words[i / 4][i % 4], x);
#pragma unroll
        for (int j = 0; j < kPerWord; ++j) amax = finite_max(amax, x[j]);
      }
    }
#pragma unroll 4
    for (int at = tail + lane; at < length; at += threads) amax = finite_max(amax, static_cast<float>(p[at]));
  }
  amax = reduce_group(amax, kAmaxThreads, scratch, Max{});
  if (threadIdx.x == 0) {
    if (args.partial == nullptr) {
      *args.global_scale = nvfp4_global_scale_of(amax);
    } else {
      args.partial[blockIdx.x] = amax;
    }
  }
}

static __global__ void __launch_bounds__(kAmaxThreads) amax_finish_kernel(AmaxFinishArgs const args) {
  pdl_launch_dependents();
  __shared__ float scratch[kAmaxThreads / 32];
  pdl_wait();
  float amax = 0.0f;
  for (int i = threadIdx.x; i < args.count; i += kAmaxThreads) amax = fmaxf(amax, args.partial[i]);
  amax = reduce_group(amax, kAmaxThreads, scratch, Max{});
  if (threadIdx.x == 0) *args.global_scale = nvfp4_global_scale_of(amax);
}

struct GlobalScale {
  template <class T>
  static void const* kernel(bool aligned) {
    return aligned ? reinterpret_cast<void const*>(&amax_kernel<T, true>)
                   : reinterpret_cast<void const*>(&amax_kernel<T, false>);
  }

  static void const* choose(int32_t dtype, bool aligned) {
    return with_element_type(dtype, [&](auto element) { return kernel<decltype(element)>(aligned); });
  }

  static void preload() {
    for (int32_t dtype : {FP4AOT_BF16, FP4AOT_FP16, FP4AOT_FP32}) {
      for (bool aligned : {false, true}) preload_kernel(choose(dtype, aligned));
    }
    preload_kernel(reinterpret_cast<void const*>(&amax_finish_kernel));
  }

  static size_t workspace_size(void const*) { return (kAmaxMaxCtas + 1) * sizeof(float); }  // one more to align it

  static fp4aot_status launch(char const* op, fp4aot_global_scale_params const& p, Message* message) {
    int64_t const element = element_bytes(p.input_dtype);
    AmaxArgs args = {};
    args.input = p.input;
    args.stride = p.input_stride;
    args.rows = p.rows;
    args.k = p.k;
    if (p.input_stride == p.k || p.rows <= 1) {  // no gaps: one long row
      args.k = p.rows * p.k;
      args.rows = p.rows > 0 ? 1 : 0;
      args.stride = args.k;
    }
    int64_t const piece = 16 / element * kAmaxUnroll;
    while (args.threads_log2 < 8 && piece << args.threads_log2 < args.k) ++args.threads_log2;
    int64_t const segment_length = piece << args.threads_log2;
    args.segments = (args.k + segment_length - 1) / segment_length;
    int64_t const groups = kAmaxThreads >> args.threads_log2;
    int64_t const wanted = (args.rows * args.segments + groups - 1) / groups;
    int const ctas = wanted < 1 ? 1 : wanted < kAmaxMaxCtas ? static_cast<int>(wanted) : kAmaxMaxCtas;
    auto const workspace = (reinterpret_cast<uintptr_t>(p.workspace) + 3) / 4 * 4;
    args.partial = ctas == 1 ? nullptr : reinterpret_cast<float*>(workspace);
    args.global_scale = p.global_scale;
    bool const aligned = args.rows <= 1 ? is_aligned(p.input, 16) : rows_aligned(p.input, p.input_stride * element, 16);
    LaunchTarget const target = {op, p.stream, p.flags, message};
    fp4aot_status const status = fp4aot::launch(target, choose(p.input_dtype, aligned), dim3(ctas), kAmaxThreads, args);
    if (status != FP4AOT_OK || ctas == 1) return status;
    return fp4aot::launch(target, reinterpret_cast<void const*>(&amax_finish_kernel), dim3(1), kAmaxThreads,
                          AmaxFinishArgs{args.partial, ctas, p.global_scale});
  }
};

}  // namespace fp4aot

#endif
