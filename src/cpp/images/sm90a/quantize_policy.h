// What the quantise family of this image is built from.
#ifndef FP4AOT_IMAGES_SM90A_QUANTIZE_POLICY_H_
#define FP4AOT_IMAGES_SM90A_QUANTIZE_POLICY_H_

#include "device/convert.cuh"

namespace fp4aot {

struct QuantizePolicy {
  using E2m1 = SoftwareE2m1;  // Hopper has no e2m1 conversion

  // Blocks that a thread of quantize_* loads before it converts the first.
  template <Format kFormat, class T, bool kSiluMul>
  static constexpr int quantize_tiles() {
    return kVector<kFormat> * sizeof(T) * (kSiluMul ? 2 : 1) <= 32 ? 2 : 1;
  }
};

}  // namespace fp4aot

#endif
