// The e2m1 conversion of architectures that have one (convert.cuh has the codec of those that do not).
#ifndef FP4AOT_DEVICE_E2M1_CUH_
#define FP4AOT_DEVICE_E2M1_CUH_

#include "device/convert.cuh"

namespace fp4aot {

// Eight e2m1 codes in a word, lowest nibble first: e2m1_rn_satfinite(x[i] * r), as SoftwareE2m1. The instruction has
// formats.h's rules for every input: ties to even, magnitudes beyond 6 and infinity give 6, the sign is kept, for zero
// too, and NaN gives +6. So that nothing is left to correct: a product that overflows saturates like any other.
struct HardwareE2m1 {
  static constexpr float kFactor = 1.0f;

  static __device__ __forceinline__ uint32_t encode8(float const* x, float r, uint32_t /*signs*/) {
    float y[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) y[i] = __fmul_rn(x[i], r);
    uint32_t codes;
    asm("{\n"
        ".reg .b8 b0, b1, b2, b3;\n"
        "cvt.rn.satfinite.e2m1x2.f32 b0, %2, %1;\n"
        "cvt.rn.satfinite.e2m1x2.f32 b1, %4, %3;\n"
        "cvt.rn.satfinite.e2m1x2.f32 b2, %6, %5;\n"
        "cvt.rn.satfinite.e2m1x2.f32 b3, %8, %7;\n"
        "mov.b32 %0, {b0, b1, b2, b3};\n"
        "}"
        : "=r"(codes)
        : "f"(y[0]), "f"(y[1]), "f"(y[2]), "f"(y[3]), "f"(y[4]), "f"(y[5]), "f"(y[6]), "f"(y[7]));
    return codes;
  }
};

}  // namespace fp4aot

#endif
