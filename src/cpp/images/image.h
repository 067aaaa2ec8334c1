// What an image (libfp4aot_<name>.so) exports to core: one symbol, fp4aot_image(), that returns its slot table.
// Core checks every argument before it calls a slot, makes the device's primary context current, and formats errors;
// a slot only chooses a kernel and launches it.
//
// In an image: define fp4aot::ops::<op> (a `Slot`, in any translation unit) for each op the image has and name them in
// FP4AOT_IMAGE_OPS of its image.cpp (see images/cpu/image.cpp); slot_table.h builds the table from that and ops.def.
#ifndef FP4AOT_IMAGES_IMAGE_H_
#define FP4AOT_IMAGES_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "fp4aot/fp4aot.h"

namespace fp4aot {

// Bytes of an element of a fp4aot_dtype.
constexpr int64_t element_bytes(int32_t dtype) { return dtype == FP4AOT_FP32 ? 4 : 2; }

// Where a slot writes why a launch failed (one line, no newline at the end).
struct Message {
  char text[512];
};

// Layout is part of the image ABI: fields are only appended, core reads Image::slot_size bytes.
struct Slot {
  fp4aot_status (*launch)(void const* params, Message* message);
  size_t (*workspace_size)(void const* params);  // null: needs none
  int32_t tactic_count;                          // tactics are numbered 1..tactic_count; 0: no choice
  char const* (*tactic_name)(int32_t tactic);
  bool (*tactic_valid)(void const* params, int32_t tactic);  // for these sizes, strides and types
  int32_t (*default_tactic)(void const* params);             // always a valid one
  void (*preload)();  // load the op's kernels on the current device; null: nothing to do
  // Refuses, with a sentence, problems that no tactic can run; core asks before it calls anything above but preload, for
  // problems that are not empty. Only sizes, strides and types are set. Null: none is refused.
  fp4aot_status (*check)(void const* params, Message* message) = nullptr;
};

struct Image {
  uint32_t abi_major, abi_minor;
  uint32_t slot_count, slot_size;
  char const* name;          // "sm90a", "cpu"
  int32_t cuda_toolkit;      // CUDART_VERSION the image was built with (13000 = 13.0); 0 for cpu
  Slot const* const* slots;  // slot_count pointers in the order of ops.def; null: not in this image
  // Since minor 1. Copies the executor (null: none) for the image's CPU threads; null: has no use for one.
  void (*set_executor)(fp4aot_executor const* executor);
};

}  // namespace fp4aot

extern "C" __attribute__((visibility("default"))) fp4aot::Image const* fp4aot_image();

#endif
