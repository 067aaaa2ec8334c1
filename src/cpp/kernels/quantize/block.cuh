// One block of elements in registers -> its scale byte and codes. The rules are those of fp4aot/formats.h, to the bit.
#ifndef FP4AOT_KERNELS_QUANTIZE_BLOCK_CUH_
#define FP4AOT_KERNELS_QUANTIZE_BLOCK_CUH_

#include "device/convert.cuh"
#include "device/launch.cuh"
#include "device/memory.cuh"

namespace fp4aot {

// formats.h nvfp4_block_scale with shorter arithmetic. The quotient by 6 is one multiplication and one correction
// (correctly rounded), after a clamp that keeps the saturated scale 448 and makes infinity finite. For products so small
// that the correction underflows the byte is 0 in both.
__device__ __forceinline__ BlockScale nvfp4_scale(float amax, float global_scale) {
  if (!is_finite(amax) || !is_finite(global_scale) || !(global_scale > 0.0f)) return {kE4m3Nan, true, 0.0f};
  constexpr float kSixth = 1.0f / 6.0f;
  float const product = fminf(__fmul_rn(global_scale, amax), 4096.0f);
  float const estimate = __fmul_rn(product, kSixth);
  float const quotient = __fmaf_rn(__fmaf_rn(-6.0f, estimate, product), kSixth, estimate);
  uint8_t const byte = e4m3_from_float(quotient);
  // A zero block divides by 1 instead of 0: the division's slow path would be taken for nothing.
  float const r = __fdiv_rn(global_scale, byte == 0 ? 1.0f : e4m3_as_float(byte));
  return {byte, false, byte == 0 ? 0.0f : fminf(r, FLT_MAX)};
}

template <Format kFormat, class T>
inline constexpr int kBlockWords = kVector<kFormat> / Element<T>::kPerWord;

template <Format kFormat>
inline constexpr int kCodeWords = kVector<kFormat> / 8;

// Returns the scale byte. Codec: see SoftwareE2m1. global_scale is for NVFP4, floor_rounding for MXFP4.
template <class Codec, Format kFormat, class T>
__device__ __forceinline__ uint8_t encode_block(uint32_t const (&words)[kBlockWords<kFormat, T>], float global_scale,
                                                bool floor_rounding, uint32_t (&codes)[kCodeWords<kFormat>]) {
  constexpr int kWords = kBlockWords<kFormat, T>;
  uint32_t partial[kWords / 2];  // a tree: the maxima do not wait for one another
#pragma unroll
  for (int i = 0; i < kWords / 2; ++i) partial[i] = Element<T>::abs_max(words[i], words[i + kWords / 2]);
#pragma unroll
  for (int width = kWords / 4; width > 0; width /= 2) {
#pragma unroll
    for (int i = 0; i < width; ++i) partial[i] = Element<T>::abs_max(partial[i], partial[i + width]);
  }
  float const amax = Element<T>::magnitude(partial[0]);
  BlockScale scale;
  if constexpr (kFormat == Format::kNvfp4) {
    scale = nvfp4_scale(amax, global_scale);
  } else {
    scale = mxfp4_block_scale(amax, floor_rounding);
  }
  uint32_t const mask = scale.poisoned ? 0u : ~0u;
#pragma unroll
  for (int i = 0; i < kCodeWords<kFormat>; ++i) {
    constexpr int kWordsOf8 = 8 / Element<T>::kPerWord;
    float x[8];
#pragma unroll
    for (int j = 0; j < kWordsOf8; ++j) {
      Element<T>::unpack(words[i * kWordsOf8 + j], x + j * Element<T>::kPerWord);
    }
    codes[i] = Codec::encode8(x, scale.r) & mask;
  }
  return scale.byte;
}

// `alignment` of the address in bytes: 16, 8 or 1.
template <int kWords>
__device__ __forceinline__ void store_codes(uint8_t* p, uint32_t const (&codes)[kWords], int alignment) {
  if (kWords == 4 && alignment == 16) {
    *reinterpret_cast<uint4*>(p) = make_uint4(codes[0], codes[1], codes[kWords - 2], codes[kWords - 1]);
  } else if (alignment >= 8) {
#pragma unroll
    for (int i = 0; i < kWords; i += 2) *reinterpret_cast<uint2*>(p + 4 * i) = make_uint2(codes[i], codes[i + 1]);
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i) store_bytes4(p + 4 * i, codes[i]);
  }
}

inline int codes_alignment(uint8_t const* codes, int64_t stride) {
  return rows_aligned(codes, stride, 16) ? 16 : rows_aligned(codes, stride, 8) ? 8 : 1;
}

// Kernels of rows count a row's blocks in 32 bits: a wider row is a matrix of 64 GiB in a single row.
constexpr int64_t kMaxColumns = 0x7FFF0000;

inline fp4aot_status too_wide(char const* op, int64_t k, int64_t limit, Message* message) {
  std::snprintf(message->text, sizeof message->text, "%s: k = %lld, but this image takes at most %lld", op,
                static_cast<long long>(k), static_cast<long long>(limit));
  return FP4AOT_INVALID_ARGUMENT;
}

}  // namespace fp4aot

#endif
