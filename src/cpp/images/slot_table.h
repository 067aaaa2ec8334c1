// Builds an image's slot table from ops.def. Included once, by the image's image.cpp, after it has defined
// FP4AOT_IMAGE_OPS(OP): OP(name) for each op that the image has. Ops not named get a null slot.
#ifndef FP4AOT_IMAGES_SLOT_TABLE_H_
#define FP4AOT_IMAGES_SLOT_TABLE_H_

#include "images/image.h"

namespace fp4aot {

namespace ops {  // defined in the image's other translation units
#define FP4AOT_DECLARE_SLOT(name) extern Slot const name;
FP4AOT_IMAGE_OPS(FP4AOT_DECLARE_SLOT)
#undef FP4AOT_DECLARE_SLOT
}  // namespace ops

namespace {

struct SlotPointers {
  Slot const* pointers[FP4AOT_OP_COUNT] = {};
  constexpr SlotPointers() {
#define FP4AOT_SET_SLOT(name) pointers[FP4AOT_OP_##name] = &ops::name;
    FP4AOT_IMAGE_OPS(FP4AOT_SET_SLOT)
#undef FP4AOT_SET_SLOT
  }
};

constexpr SlotPointers kSlots;

}  // namespace

constexpr Image make_image(char const* name, int32_t cuda_toolkit,
                           void (*set_executor)(fp4aot_executor const*) = nullptr) {
  return {FP4AOT_ABI_MAJOR, FP4AOT_ABI_MINOR, FP4AOT_OP_COUNT, sizeof(Slot), name,
          cuda_toolkit,     kSlots.pointers,  set_executor};
}

}  // namespace fp4aot

#endif
