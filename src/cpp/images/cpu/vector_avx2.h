#ifndef FP4AOT_IMAGES_CPU_VECTOR_AVX2_H_
#define FP4AOT_IMAGES_CPU_VECTOR_AVX2_H_

#include <immintrin.h>

#include <cstdint>

#include "images/cpu/vector_dots256.h"

namespace fp4aot::cpu {
namespace {

struct Avx2 : Dots256 {
  static constexpr int kWidth = 8;
  static constexpr int kTileRows = 6, kTileVectors = 2;
  typedef float F __attribute__((vector_size(32)));
  typedef int32_t I __attribute__((vector_size(32)));

  static F set1(float x) { return _mm256_set1_ps(x); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }

  static int32_t max(I v) {
    __m256i const x = (__m256i)v;
    __m128i const four = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    __m128i const two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
  }

  static I widen(uint8_t const* p) {
    return (I)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(p)));
  }
  static I widen(uint16_t const* p) {
    return (I)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)));
  }
  static void narrow(uint16_t* p, I v) {
    __m128i const low = _mm256_castsi256_si128((__m256i)v), high = _mm256_extracti128_si256((__m256i)v, 1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packus_epi32(low, high));
  }
  static F from_fp16(uint16_t const* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)));
  }
  static void to_fp16(uint16_t* p, F v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }

  static F decode(uint8_t const* codes) {
    int32_t word;
    __builtin_memcpy(&word, codes, sizeof word);
    return lookup(_mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)));
  }
  static void decode_pairs(uint8_t const* bytes, F& even, F& odd) {
    __m256i const x = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(bytes)));
    even = lookup(x);
    odd = lookup(_mm256_srli_epi32(x, 4));
  }

  static void store_codes(uint8_t* p, I codes) {
    __m256i const x = (__m256i)codes;
    __m256i const bytes = _mm256_or_si256(x, _mm256_srli_epi64(x, 28));  // one a 64-bit lane, in its lowest byte
    __m256i const gathered = _mm256_shuffle_epi8(bytes, _mm256_set1_epi64x(0x0800));
    __m128i const four = _mm_unpacklo_epi16(_mm256_castsi256_si128(gathered), _mm256_extracti128_si256(gathered, 1));
    int32_t const word = _mm_cvtsi128_si32(four);
    __builtin_memcpy(p, &word, sizeof word);
  }

 private:
  // Bit 3 of a lane is its sign; the permutation looks at bits 0..2 only, bits above 3 do not matter.
  static F lookup(__m256i codes) {
    __m256 const magnitude = _mm256_permutevar8x32_ps(_mm256_setr_ps(0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f), codes);
    __m256i const sign = _mm256_and_si256(_mm256_slli_epi32(codes, 28), _mm256_set1_epi32(INT32_MIN));
    return _mm256_or_ps(magnitude, _mm256_castsi256_ps(sign));
  }
};

}  // namespace
}  // namespace fp4aot::cpu

#endif
