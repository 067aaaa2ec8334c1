// Vectors of floats that the kernels in kernels/*/cpu*.h are written with, once for all instruction sets.
//
// An instruction set is a struct V in an unnamed namespace of its own translation unit (vector_<isa>.h):
//   kWidth                      floats in a vector
//   F, I                        GCC vectors of kWidth floats and int32: operators and comparisons are built in
//   kTileRows, kTileVectors     size of the register tile of the matrix product
//   set1(float)                 broadcast
//   fma(a, b, c)                a * b + c, fused where the instruction set has it
//   max(I)                      over all lanes
//   widen(uint8_t const*), widen(uint16_t const*), narrow(uint16_t*, I)      kWidth unsigned integers
//   from_fp16(uint16_t const*), to_fp16(uint16_t*, F)   kWidth values; round to nearest even
//   decode(uint8_t const*)      kWidth / 2 bytes of codes -> kWidth values in their order
//   decode_pairs(uint8_t const*, F& even, F& odd)       kWidth bytes: low nibbles, high nibbles
//   store_codes(uint8_t*, I)    kWidth codes (0..15) -> kWidth / 2 bytes
// and for exact dot products of 32 codes, in integers:
//   Weights                     32 codes as integers, twice their values, in an order of V's own
//   weights(uint8_t const*), store_weights(int8_t*, Weights)
//   Dots                        a GCC vector of at most 8 floats
//   dots(Weights, int8_t const*)          products with stored weights, each lane the sum over its share of the 32
//   pair_scales(float const*)             for the lanes of dots: the first number for shares of k < 16, else the second
//   set_dots(float), multiply_add(a, b, c), sum_dots(Dots)
//
// Everything that is compiled with an instruction set's flags must have internal linkage: the linker keeps one copy of
// an inline function or template that several units emit, and if it kept the AVX one, the portable path would run it.
// Templates over V have internal linkage because V has. So in those units, and in kernels/*/cpu*.h but for scales, no
// function of a shared header (formats.h, the standard library) is called, only their constants are used:
// nm must list no weak code in kernels_<isa>.o.
#ifndef FP4AOT_IMAGES_CPU_VECTOR_H_
#define FP4AOT_IMAGES_CPU_VECTOR_H_

#include <cstdint>

#include "fp4aot/formats.h"

namespace fp4aot::cpu {

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

template <class V>
struct Values {
  using F = typename V::F;
  using I = typename V::I;

  static I bits(F x) { return (I)x; }
  static F floats(I x) { return (F)x; }
  static I set1(int32_t x) { return I{} + x; }

  static F load(float const* p) {
    F v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static F load(Bf16 const* p) { return floats(V::widen(&p->bits) << 16); }
  static F load(Fp16 const* p) { return V::from_fp16(&p->bits); }

  static void store(float* p, F v) { __builtin_memcpy(p, &v, sizeof v); }
  static void store(Bf16* p, F v) { V::narrow(&p->bits, (bits(v) + bf16_increment(v)) >> 16 & 0xFFFF); }
  static void store(Fp16* p, F v) { V::to_fp16(&p->bits, v); }

  // What store would keep of v.
  static F round_to(float const*, F v) { return v; }
  static F round_to(Bf16 const*, F v) { return floats((bits(v) + bf16_increment(v)) & ~0xFFFF); }
  static F round_to(Fp16 const*, F v) {
    uint16_t half[V::kWidth];
    V::to_fp16(half, v);
    return V::from_fp16(half);
  }

 private:
  // Rounds the upper half of the bits to nearest even. A NaN must neither carry into the sign nor lose its last set
  // bit: setting the quiet bit does neither.
  static I bf16_increment(F v) {
    I const b = bits(v);
    I const is_nan = (b & 0x7FFFFFFF) > 0x7F800000;
    return is_nan ? (b | 0x00400000) - b : 0x7FFF + (b >> 16 & 1);
  }
};

// Scale bytes -> floats, NaN included, `count` rounded up to kWidth: that many bytes are read. MXFP4's are 2^-2 too
// small, which 6 * 2^127 would be too large for.
template <class V, Format kFormat>
void decode_scales(uint8_t const* bytes, int64_t count, float* out) {
  using I = typename V::I;
  using F = typename V::F;
  I const nan = Values<V>::set1(0x7FC00000);
  for (int64_t i = 0; i < count; i += V::kWidth) {
    I const byte = V::widen(bytes + i);
    if constexpr (kFormat == Format::kNvfp4) {
      F const value = (F)(byte << 20) * 0x1p+120f;  // rebiases the exponent, exactly; subnormals too
      Values<V>::store(out + i, (F)(byte == kE4m3Nan ? nan : (I)value));
    } else {
      F const value = (F)(byte == 0 ? I{} + 0x400000 : byte << 23) * 0.25f;
      Values<V>::store(out + i, (F)(byte == kUe8m0Nan ? nan : (I)value));
    }
  }
}

// Loads of fewer than a vector's values: the rest is zero.
template <class V, class T>
typename V::F load_part(T const* p, int64_t count) {
  T padded[V::kWidth] = {};
  for (int64_t i = 0; i < count; ++i) padded[i] = p[i];
  return Values<V>::load(padded);
}

}  // namespace fp4aot::cpu

#endif
