// One block of elements in registers -> its scale byte and codes. The rules are those of fp4aot/formats.h, to the bit.
#ifndef FP4AOT_KERNELS_QUANTIZE_BLOCK_CUH_
#define FP4AOT_KERNELS_QUANTIZE_BLOCK_CUH_

#include "device/convert.cuh"
#include "device/launch.cuh"
#include "device/memory.cuh"

namespace fp4aot {

// What is the same for all blocks of a launch.
template <Format kFormat>
struct Scaler;

template <>
struct Scaler<Format::kNvfp4> {
  float global_scale;
  float amax_limit;  // a block is sound if its amax is below: infinity, or -1 if the global scale is invalid
  bool moderate;     // no quotient of the global scale and a block scale is extreme
  bool tiny;         // such a quotient may be subnormal

  __device__ __forceinline__ Scaler(float const* pointer, bool /*floor_rounding*/) {
    global_scale = pointer == nullptr ? 1.0f : *pointer;
    amax_limit = global_scale > 0.0f && is_finite(global_scale) ? bits_float(0x7F800000u) : -1.0f;
    moderate = global_scale >= kGlobalScaleMin && global_scale <= kGlobalScaleMax;
    tiny = global_scale < kGlobalScaleMin;
  }

  // formats.h nvfp4_block_scale with shorter arithmetic. The quotient by 6 is one multiplication and one correction
  // (correctly rounded), after a clamp that keeps the saturated scale 448 and makes infinity finite. For products so
  // small that the correction underflows the byte is 0 in both.
  __device__ __forceinline__ BlockScale operator()(float amax) const {
    constexpr float kSixth = 1.0f / 6.0f;
    bool const poisoned = !(amax < amax_limit);
    float const product = fminf(__fmul_rn(global_scale, amax), 4096.0f);
    float const estimate = __fmul_rn(product, kSixth);
    float const quotient = __fmaf_rn(__fmaf_rn(-6.0f, estimate, product), kSixth, estimate);
    uint8_t const byte = e4m3_from_float(quotient);
    float const scale = e4m3_as_float(byte);
    float const r = __builtin_expect(moderate, 1) ? divide_moderate(global_scale, scale)
                                                  : fminf(__fdiv_rn(global_scale, scale), FLT_MAX);
    return {poisoned ? kE4m3Nan : byte, poisoned, byte == 0 ? 0.0f : r};
  }
};

template <>
struct Scaler<Format::kMxfp4> {
  bool floor_rounding;
  static constexpr bool tiny = false;  // r is a power of two: it never loses bits

  __device__ __forceinline__ Scaler(float const* /*global_scale*/, bool floor) : floor_rounding(floor) {}

  __device__ __forceinline__ BlockScale operator()(float amax) const { return mxfp4_block_scale(amax, floor_rounding); }
};

// max |x|, NaN if any x is.
template <class T, int kWords>
__device__ __forceinline__ float amax_of(uint32_t const (&words)[kWords]) {
  uint32_t partial[kWords / 2];  // a tree: the maxima do not wait for one another
#pragma unroll
  for (int i = 0; i < kWords / 2; ++i) partial[i] = Element<T>::abs_max(words[i], words[i + kWords / 2]);
#pragma unroll
  for (int width = kWords / 4; width > 0; width /= 2) {
#pragma unroll
    for (int i = 0; i < width; ++i) partial[i] = Element<T>::abs_max(partial[i], partial[i + width]);
  }
  return Element<T>::magnitude(partial[0]);
}

// Codes of elements of a block that has this amax; returns the block's scale byte. Codec: see SoftwareE2m1.
template <class Codec, Format kFormat, class T, int kWords>
__device__ __forceinline__ uint8_t encode(uint32_t (&words)[kWords], float amax, Scaler<kFormat> const& scaler,
                                          uint32_t (&codes)[kWords * Element<T>::kPerWord / 8]) {
  BlockScale const scale = scaler(amax);
  float factor = scale.r * Codec::kFactor;
  if (Codec::kFactor != 1.0f && __builtin_expect(scaler.tiny, 0)) {
    factor = scale.r;  // scale the elements instead, of which only large ones matter here
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      float x[Element<T>::kPerWord];
      Element<T>::unpack(words[i], x);
#pragma unroll
      for (int j = 0; j < Element<T>::kPerWord; ++j) x[j] *= Codec::kFactor;
      words[i] = Element<T>::pack(x);
    }
  }
  uint32_t const mask = scale.poisoned ? 0u : ~0u;
  constexpr int kWordsOf8 = 8 / Element<T>::kPerWord;
#pragma unroll
  for (int i = 0; i < kWords / kWordsOf8; ++i) {
    float x[8];
#pragma unroll
    for (int j = 0; j < kWordsOf8; ++j) {
      Element<T>::unpack(words[i * kWordsOf8 + j], x + j * Element<T>::kPerWord);
    }
    codes[i] = Codec::encode8(x, factor, e2m1_signs<T>(words + i * kWordsOf8)) & mask;
  }
  return scale.byte;
}

// `alignment` in bytes of the rows and of a whole block's codes: 16, 8 or 1. A part of a block is aligned to its own
// size or to that.
template <int kWords>
__device__ __forceinline__ void store_codes(uint8_t* p, uint32_t const (&codes)[kWords], int alignment) {
  static_assert(kWords == 1 || kWords == 2 || kWords == 4);
  if (alignment < 8) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) store_bytes4(p + 4 * i, codes[i]);
  } else if constexpr (kWords == 1) {
    *reinterpret_cast<uint32_t*>(p) = codes[0];
  } else if constexpr (kWords == 2) {
    *reinterpret_cast<uint2*>(p) = make_uint2(codes[0], codes[1]);
  } else if (alignment == 16) {
    *reinterpret_cast<uint4*>(p) = make_uint4(codes[0], codes[1], codes[2], codes[3]);
  } else {
    *reinterpret_cast<uint2*>(p) = make_uint2(codes[0], codes[1]);
    *reinterpret_cast<uint2*>(p + 8) = make_uint2(codes[2], codes[3]);
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
