// Slots of the cpu image: a body that takes the op's params and returns when the work is done.
#ifndef FP4AOT_IMAGES_CPU_SLOT_H_
#define FP4AOT_IMAGES_CPU_SLOT_H_

#include <cstdio>
#include <new>

#include "images/cpu/float_environment.h"
#include "images/image.h"

namespace fp4aot {
namespace cpu {

template <class Params, void (*kBody)(Params const&)>
fp4aot_status launch(void const* params, Message* message) {
  try {
    ScopedFloatEnvironment const environment;
    kBody(*static_cast<Params const*>(params));
    return FP4AOT_OK;
  } catch (std::bad_alloc const&) {
    std::snprintf(message->text, sizeof message->text, "out of memory for the scratch space of the CPU's threads");
    return FP4AOT_LAUNCH_FAILED;
  }
}

}  // namespace cpu

namespace ops {
#define FP4AOT_OP(name, params) extern Slot const name;
#include "fp4aot/ops.def"
#undef FP4AOT_OP
}  // namespace ops

// Needs no workspace, has no tactics and nothing to preload.
#define FP4AOT_CPU_SLOT(name, params, ...) \
  Slot const ops::name = {cpu::launch<params, __VA_ARGS__>, nullptr, 0, nullptr, nullptr, nullptr, nullptr};

}  // namespace fp4aot

#endif
