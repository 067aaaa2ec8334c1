// The rules of formats.h are IEEE with subnormals and rounding to nearest; a caller may have set flush-to-zero (as
// torch.set_flush_denormal does) or another rounding, also in effect for threads it starts.
#ifndef FP4AOT_IMAGES_CPU_FLOAT_ENVIRONMENT_H_
#define FP4AOT_IMAGES_CPU_FLOAT_ENVIRONMENT_H_

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace fp4aot::cpu {

#if defined(__x86_64__)
constexpr unsigned kDefaultMxcsr = 0x1F80;  // all exceptions masked, round to nearest, no FTZ, no DAZ
inline void set_default_float_environment() { _mm_setcsr(kDefaultMxcsr); }

class ScopedFloatEnvironment {
 public:
  ScopedFloatEnvironment() : before_(_mm_getcsr()) { set_default_float_environment(); }
  ~ScopedFloatEnvironment() { _mm_setcsr(before_); }
  ScopedFloatEnvironment(ScopedFloatEnvironment const&) = delete;
  ScopedFloatEnvironment& operator=(ScopedFloatEnvironment const&) = delete;

 private:
  unsigned before_;
};
#else
inline void set_default_float_environment() {}
struct ScopedFloatEnvironment {
  ~ScopedFloatEnvironment() {}
};
#endif

}  // namespace fp4aot::cpu

#endif
