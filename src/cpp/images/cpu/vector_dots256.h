// Integer dot products of codes with 256-bit instructions of AVX2: the same for Avx2 and Avx512, whose K need not be a
// multiple of a longer vector's.
#ifndef FP4AOT_IMAGES_CPU_VECTOR_DOTS256_H_
#define FP4AOT_IMAGES_CPU_VECTOR_DOTS256_H_

#include <immintrin.h>

#include <cstdint>

namespace fp4aot::cpu {
namespace {

struct Dots256 {
  typedef float Dots __attribute__((vector_size(32)));
  struct Weights {
    __m256i values, magnitudes;
  };

  static Weights weights(uint8_t const* codes) {
    __m256i const both = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<__m128i const*>(codes)));
    __m256i const shifted = _mm256_srlv_epi32(both, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
    __m256i const nibbles = _mm256_and_si256(shifted, _mm256_set1_epi8(15));
    __m256i const doubled =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
    __m256i const values = _mm256_shuffle_epi8(doubled, nibbles);
    return {values, _mm256_abs_epi8(values)};
  }
  static void store_weights(int8_t* p, Weights const& weights) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), weights.values);
  }

  static Dots dots(Weights const& weights, int8_t const* a) {
    __m256i const other = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(a));
    __m256i const pairs = _mm256_maddubs_epi16(weights.magnitudes, _mm256_sign_epi8(other, weights.values));
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }

  static Dots pair_scales(float const* two) {
    __m256 const repeated = _mm256_castpd_ps(_mm256_broadcast_sd(reinterpret_cast<double const*>(two)));
    return _mm256_unpacklo_ps(repeated, repeated);  // 0 0 1 1 in both halves
  }
  static Dots set_dots(float x) { return _mm256_set1_ps(x); }
  static Dots multiply_add(Dots a, Dots b, Dots c) { return _mm256_fmadd_ps(a, b, c); }

  static float sum_dots(Dots v) {
    __m128 const four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 const two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
};

}  // namespace
}  // namespace fp4aot::cpu

#endif
