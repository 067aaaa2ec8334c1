// Vectors of floats that the kernels in kernels/*/cpu*.h are written with, once for all instruction sets.
//
// An instruction set is a struct V in an unnamed namespace of its own translation unit (vector_<isa>.h):
//   kWidth                      floats in a vector
//   F, I                        GCC vectors of kWidth floats and int32: + - * / & | << >> ?: and comparisons are built in
//   kTileRows, kTileVectors     size of the register tile of the matrix product
//   set1(float)                 broadcast
//   fma(a, b, c)                a * b + c, fused where the instruction set has it
//   sum(F), max(I)              over all lanes
//   from_fp16(uint16_t const*), to_fp16(uint16_t*, F)   kWidth values; round to nearest even
//   decode(uint8_t const*)      kWidth / 2 bytes of codes -> kWidth values in their order
//   decode_pairs(uint8_t const*, F& even, F& odd)       kWidth bytes: low nibbles, high nibbles
//   store_codes(uint8_t*, I)    kWidth codes (0..15) -> kWidth / 2 bytes
//
// Everything that is compiled with an instruction set's flags must have internal linkage: the linker keeps one copy of an
// inline function or template that several units emit, and if it kept the AVX one, the portable path would run it.
// Templates over V have internal linkage because V has. Functions from shared headers (formats.h) may be called only below
// an entry point marked FP4AOT_CPU_ENTRY, which inlines all it calls; a test checks that the objects define no weak code.
#ifndef FP4AOT_IMAGES_CPU_VECTOR_H_
#define FP4AOT_IMAGES_CPU_VECTOR_H_

#include <cstdint>

#define FP4AOT_CPU_ENTRY [[gnu::flatten]]

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
  typedef uint16_t H __attribute__((vector_size(V::kWidth * 2)));

  static I bits(F x) { return (I)x; }
  static F floats(I x) { return (F)x; }
  static I set1(int32_t x) { return I{} + x; }

  static F load(float const* p) {
    F v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static F load(Bf16 const* p) {
    H half;
    __builtin_memcpy(&half, p, sizeof half);
    return floats(__builtin_convertvector(half, I) << 16);
  }
  static F load(Fp16 const* p) { return V::from_fp16(&p->bits); }

  static void store(float* p, F v) { __builtin_memcpy(p, &v, sizeof v); }
  static void store(Bf16* p, F v) {
    H const half = __builtin_convertvector((bits(v) + bf16_increment(v)) >> 16, H);
    __builtin_memcpy(p, &half, sizeof half);
  }
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
  // Rounds the upper half of the bits to nearest even. A NaN must neither carry into the sign nor lose its last set bit:
  // setting the quiet bit does neither.
  static I bf16_increment(F v) {
    I const b = bits(v);
    I const is_nan = (b & 0x7FFFFFFF) > 0x7F800000;
    return is_nan ? (b | 0x00400000) - b : 0x7FFF + (b >> 16 & 1);
  }
};

// Loads of fewer than a vector's values: the rest is zero.
template <class V, class T>
typename V::F load_part(T const* p, int64_t count) {
  T padded[V::kWidth] = {};
  for (int64_t i = 0; i < count; ++i) padded[i] = p[i];
  return Values<V>::load(padded);
}

}  // namespace fp4aot::cpu

#endif
