#ifndef FP4AOT_IMAGES_CPU_VECTOR_PORTABLE_H_
#define FP4AOT_IMAGES_CPU_VECTOR_PORTABLE_H_

#include <cstdint>

namespace fp4aot::cpu {
namespace {

// Four floats: what every 64-bit CPU has registers for (SSE2, NEON). No fused multiply-add.
struct Portable {
  static constexpr int kWidth = 4;
  static constexpr int kTileRows = 3, kTileVectors = 4;
  typedef float F __attribute__((vector_size(16)));
  typedef int32_t I __attribute__((vector_size(16)));
  typedef uint16_t H __attribute__((vector_size(8)));

  static F set1(float x) { return F{x, x, x, x}; }
  static F fma(F a, F b, F c) { return a * b + c; }
  static int32_t max(I v) {
    int32_t const a = v[0] > v[1] ? v[0] : v[1], b = v[2] > v[3] ? v[2] : v[3];
    return a > b ? a : b;
  }

  static I widen(uint8_t const* p) { return I{p[0], p[1], p[2], p[3]}; }
  static I widen(uint16_t const* p) {
    H half;
    __builtin_memcpy(&half, p, sizeof half);
    return __builtin_convertvector(half, I);
  }
  static void narrow(uint16_t* p, I v) {
    H const half = __builtin_convertvector(v, H);
    __builtin_memcpy(p, &half, sizeof half);
  }

  // The exponent is rebiased by an exact multiplication, which normalises subnormals too.
  static F from_fp16(uint16_t const* p) {
    I const x = widen(p);
    I const magnitude = x & 0x7FFF;
    F const scaled = (F)(magnitude << 13) * 0x1p+112f;
    I const special = magnitude >= 0x7C00;  // infinity or NaN, made quiet as the hardware does
    I const quiet = (magnitude > 0x7C00) & 0x00400000;
    return (F)((special ? (I)scaled | 0x7F800000 | quiet : (I)scaled) | (x & 0x8000) << 16);
  }
  static void to_fp16(uint16_t* p, F v) {
    I const magnitude = (I)v & 0x7FFFFFFF;
    I const normal = ((magnitude + 0xFFF + (magnitude >> 13 & 1)) >> 13) - (112 << 10);
    I const subnormal = (I)((F)magnitude + 0.5f) - 0x3F000000;  // units of 2^-24, the last place of 0.5
    I finite = magnitude < 0x38800000 ? subnormal : normal;
    finite = magnitude >= 0x477FF000 ? I{} + 0x7C00 : finite;  // 65520 and above
    I const nan = 0x7E00 | (magnitude >> 13 & 0x1FF);
    I const result = (magnitude > 0x7F800000 ? nan : finite) | ((I)v >> 16 & 0x8000);
    narrow(p, result);
  }

  static F decode(uint8_t const* codes) {
    return F{kCodeValues[codes[0] & 15], kCodeValues[codes[0] >> 4], kCodeValues[codes[1] & 15],
             kCodeValues[codes[1] >> 4]};
  }
  static void decode_pairs(uint8_t const* bytes, F& even, F& odd) {
    for (int i = 0; i < kWidth; ++i) {
      even[i] = kCodeValues[bytes[i] & 15];
      odd[i] = kCodeValues[bytes[i] >> 4];
    }
  }

  static void store_codes(uint8_t* p, I codes) {
    p[0] = static_cast<uint8_t>(codes[0] | codes[1] << 4);
    p[1] = static_cast<uint8_t>(codes[2] | codes[3] << 4);
  }

  typedef F Dots;
  struct Weights {
    int8_t values[32];
  };
  static Weights weights(uint8_t const* codes) {
    Weights result;
    for (int i = 0; i < 16; ++i) {
      result.values[2 * i] = kDoubled[codes[i] & 15];
      result.values[2 * i + 1] = kDoubled[codes[i] >> 4];
    }
    return result;
  }
  static void store_weights(int8_t* p, Weights const& weights) { __builtin_memcpy(p, weights.values, 32); }
  static Dots dots(Weights const& weights, int8_t const* a) {
    Dots result;
    for (int lane = 0; lane < kWidth; ++lane) {
      int32_t sum = 0;
      for (int i = 8 * lane; i < 8 * lane + 8; ++i) sum += weights.values[i] * a[i];
      result[lane] = static_cast<float>(sum);
    }
    return result;
  }
  static Dots pair_scales(float const* two) { return Dots{two[0], two[0], two[1], two[1]}; }
  static Dots set_dots(float x) { return set1(x); }
  static Dots multiply_add(Dots a, Dots b, Dots c) { return a * b + c; }
  static float sum_dots(Dots v) { return (v[0] + v[2]) + (v[1] + v[3]); }

 private:
  static constexpr int8_t kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  static constexpr float kCodeValues[16] = {0.f,  .5f,  1.f,  1.5f,  2.f,  3.f,  4.f,  6.f,
                                            -0.f, -.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, -6.f};
};

}  // namespace
}  // namespace fp4aot::cpu

#endif
