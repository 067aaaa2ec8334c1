// A slot from an implementation: a type with launch(op name, params, message), preload() and, if it needs a workspace,
// workspace_size(params).
#ifndef FP4AOT_KERNELS_OP_SLOT_H_
#define FP4AOT_KERNELS_OP_SLOT_H_

#include "images/image.h"

namespace fp4aot {

template <class Op, class Params, char const* kName>
constexpr Slot op_slot(size_t (*workspace_size)(void const*) = nullptr) {
  Slot slot = {};
  slot.launch = [](void const* params, Message* message) {
    return Op::launch(kName, *static_cast<Params const*>(params), message);
  };
  slot.workspace_size = workspace_size;
  slot.preload = &Op::preload;
  return slot;
}

}  // namespace fp4aot

// Defines the slot of op `name`; the trailing arguments are the implementation's type.
#define FP4AOT_DEFINE_SLOT(name, Params, workspace_size, ...)                       \
  namespace fp4aot {                                                                \
  namespace ops {                                                                   \
  namespace {                                                                       \
  constexpr char kName_##name[] = #name;                                            \
  }                                                                                 \
  extern Slot const name;                                                           \
  constexpr Slot name = op_slot<__VA_ARGS__, Params, kName_##name>(workspace_size); \
  }                                                                                 \
  }

#endif
