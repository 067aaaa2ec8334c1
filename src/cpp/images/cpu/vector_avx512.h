#ifndef FP4AOT_IMAGES_CPU_VECTOR_AVX512_H_
#define FP4AOT_IMAGES_CPU_VECTOR_AVX512_H_

// GCC 12 warns about its own headers' undefined vectors (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

#include "images/cpu/vector_dots256.h"

namespace fp4aot::cpu {
namespace {

struct Avx512 : Dots256 {
  static constexpr int kWidth = 16;
  static constexpr int kTileRows = 12, kTileVectors = 2;
  typedef float F __attribute__((vector_size(64)));
  typedef int32_t I __attribute__((vector_size(64)));

  static F set1(float x) { return _mm512_set1_ps(x); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static int32_t max(I v) { return _mm512_reduce_max_epi32((__m512i)v); }

  static I widen(uint8_t const* p) {
    return (I)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)));
  }
  static I widen(uint16_t const* p) {
    return (I)_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(p)));
  }
  static void narrow(uint16_t* p, I v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16((__m512i)v));
  }
  static F from_fp16(uint16_t const* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(p)));
  }
  static void to_fp16(uint16_t* p, F v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }

  static F decode(uint8_t const* codes) {
    __m512i const both = _mm512_broadcastq_epi64(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(codes)));
    __m512i const words = _mm512_mask_srli_epi64(both, 0xF0, both, 32);  // lanes 0..7 the low word, 8..15 the high one
    __m512i const spread = _mm512_shuffle_epi32(words, _MM_PERM_CCAA);   // a word in both halves of each 64-bit lane
    return lookup(
        _mm512_srlv_epi32(spread, _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28)));
  }
  static void decode_pairs(uint8_t const* bytes, F& even, F& odd) {
    __m512i const x = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(bytes)));
    even = lookup(x);
    odd = lookup(_mm512_srli_epi32(x, 4));
  }

  static void store_codes(uint8_t* p, I codes) {
    __m512i const x = (__m512i)codes;
    __m512i const bytes = _mm512_or_si512(x, _mm512_srli_epi64(x, 28));  // one a 64-bit lane, in its lowest byte
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm512_cvtepi64_epi8(bytes));
  }

 private:
  static F lookup(__m512i codes) {  // the permutation looks at bits 0..3 only
    return _mm512_permutexvar_ps(codes, _mm512_setr_ps(0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f, -0.f, -.5f, -1.f, -1.5f,
                                                       -2.f, -3.f, -4.f, -6.f));
  }
};

}  // namespace
}  // namespace fp4aot::cpu

#endif
