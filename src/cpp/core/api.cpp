// The functions of fp4aot.h: check, bind, call the slot.
#include <cstddef>
#include <cstring>

#include "core/checks.h"
#include "core/images.h"
#include "core/info.h"
#include "core/switches.h"

namespace fp4aot::core {

namespace {

struct OpInfo {
  char const* name;
  size_t params_size;
};

constexpr OpInfo kOps[] = {
#define FP4AOT_OP(name, params) {#name, sizeof(params)},
#include "fp4aot/ops.def"
#undef FP4AOT_OP
};

// The caller's struct as this library knows it: shorter ones (an older header) get zeros for the missing fields, longer
// ones (a newer header) are fine as long as what this library does not know is zero.
template <typename Params>
fp4aot_status adapt(fp4aot_op op, Params const* given, Params* storage, Params const** adapted) {
  constexpr size_t kOldest = sizeof(Params);  // of ABI 1.0; stays when fields are appended
  constexpr size_t kRoomToGrow = 1024;        // beyond it struct_size is garbage, and reading so far would be unsafe
  if (given == nullptr) return fail(FP4AOT_INVALID_ARGUMENT, "%s: params is NULL.", kOps[op].name);
  size_t const size = given->struct_size;
  *adapted = given;
  if (size == sizeof(Params)) return FP4AOT_OK;
  if (size < kOldest) {
    return fail(FP4AOT_INVALID_ARGUMENT,
                "%s: struct_size = %zu is not allowed; set it to sizeof(the struct), which is at least %zu.",
                kOps[op].name, size, kOldest);
  }
  if (size > sizeof(Params) + kRoomToGrow) {
    return fail(
        FP4AOT_INVALID_ARGUMENT,
        "%s: struct_size = %zu is larger than any version of the struct (%zu here). Set it to sizeof(the struct).",
        kOps[op].name, size, sizeof(Params));
  }
  auto const* const bytes = reinterpret_cast<unsigned char const*>(given);
  for (size_t i = sizeof(Params); i < size; i++) {
    if (bytes[i] != 0) {
      return fail(
          FP4AOT_INVALID_ARGUMENT,
          "%s: struct_size = %zu and a field beyond byte %zu is set, which this libfp4aot.so (ABI %d.%d) does not "
          "know. Install a newer fp4aot.",
          kOps[op].name, size, sizeof(Params), FP4AOT_ABI_MAJOR, FP4AOT_ABI_MINOR);
    }
  }
  std::memcpy(storage, given, size < sizeof(Params) ? size : sizeof(Params));
  storage->struct_size = sizeof(Params);
  *adapted = storage;
  return FP4AOT_OK;
}

fp4aot_status check_tactic(fp4aot_op op, Slot const& slot, void const* params, int32_t tactic) {
  if (tactic == FP4AOT_TACTIC_DEFAULT) return FP4AOT_OK;
  if (slot.tactic_count == 0) {
    return fail(FP4AOT_INVALID_ARGUMENT,
                "%s: tactic = %d does not exist; this image has no choice of tactics. Use 0, the default.",
                kOps[op].name, tactic);
  }
  if (tactic < 1 || tactic > slot.tactic_count) {
    return fail(FP4AOT_INVALID_ARGUMENT, "%s: tactic = %d does not exist; this image has 1..%d, and 0 for the default.",
                kOps[op].name, tactic, slot.tactic_count);
  }
  if (slot.tactic_valid(params, tactic)) return FP4AOT_OK;
  return fail(
      FP4AOT_INVALID_ARGUMENT,
      "%s: tactic %d (%s) cannot run these sizes, strides or types. fp4aot_list_tactics gives those that can; 0 is "
      "always valid.",
      kOps[op].name, tactic, slot.tactic_name(tactic));
}

// Whether the image has a kernel for these sizes, strides and types.
fp4aot_status check_problem(fp4aot_op op, Binding const& binding, Slot const& slot, void const* params) {
  bool const known = offsetof(Slot, check) < binding.image->slot_size;  // not in an older image's slots
  if (!known || slot.check == nullptr) return FP4AOT_OK;
  Message message;
  message.text[0] = '\0';
  fp4aot_status const status = slot.check(params, &message);
  if (status == FP4AOT_OK) return FP4AOT_OK;
  return fail(status, "%s on %s (image %s): %s.", kOps[op].name, binding.device.c_str(), binding.image->name,
              message.text);
}

// Ops with more than the common fields:
template <typename Params>
fp4aot_status check_special(fp4aot_op, Slot const&, Params const&) {
  return FP4AOT_OK;
}

template <typename Params>
fp4aot_status check_workspace(fp4aot_op op, Slot const& slot, Params const& p) {
  size_t const needed = slot.workspace_size != nullptr ? slot.workspace_size(&p) : 0;
  if (needed == 0) return FP4AOT_OK;
  if (p.workspace == nullptr || p.workspace_bytes < needed) {
    return fail(FP4AOT_WORKSPACE_TOO_SMALL,
                "%s: the workspace has %zu bytes; %zu are needed (fp4aot_%s_workspace_size).", kOps[op].name,
                p.workspace == nullptr ? size_t{0} : p.workspace_bytes, needed, kOps[op].name);
  }
  if (reinterpret_cast<uintptr_t>(p.workspace) % 16 != 0) {
    return fail(FP4AOT_INVALID_ARGUMENT, "%s: workspace = %p is misaligned; it must be a multiple of 16 bytes.",
                kOps[op].name, p.workspace);
  }
  return FP4AOT_OK;
}

template <>
fp4aot_status check_special(fp4aot_op op, Slot const& slot, fp4aot_global_scale_params const& p) {
  return check_workspace(op, slot, p);
}

template <>
fp4aot_status check_special(fp4aot_op op, Slot const& slot, fp4aot_gemm_params const& p) {
  FP4AOT_RETURN_IF_ERROR(check_tactic(op, slot, &p, p.tactic));
  FP4AOT_RETURN_IF_ERROR(check_workspace(op, slot, p));
  return check_scale_padding(op, p);
}

template <>
fp4aot_status check_special(fp4aot_op op, Slot const& slot, fp4aot_gemm_w4a16_params const& p) {
  FP4AOT_RETURN_IF_ERROR(check_tactic(op, slot, &p, p.tactic));
  return check_workspace(op, slot, p);
}

template <typename Params>
fp4aot_status run(fp4aot_op op, Params const* given) {
  FP4AOT_RETURN_IF_ERROR(check_switches());
  Params storage;
  Params const* p = nullptr;
  FP4AOT_RETURN_IF_ERROR(adapt(op, given, &storage, &p));
  FP4AOT_RETURN_IF_ERROR(check_sizes(op, *p));
  Binding const* binding = nullptr;
  Slot const* slot = nullptr;
  FP4AOT_RETURN_IF_ERROR(find_slot(op, p->device, &binding, &slot));
  if (is_empty(*p)) return FP4AOT_OK;
  FP4AOT_RETURN_IF_ERROR(check_buffers(op, *p));
  FP4AOT_RETURN_IF_ERROR(check_problem(op, *binding, *slot, p));
  ContextScope const scope(binding->context);
  FP4AOT_RETURN_IF_ERROR(scope.status());
  FP4AOT_RETURN_IF_ERROR(check_special(op, *slot, *p));
  Message message;
  message.text[0] = '\0';
  fp4aot_status const status = slot->launch(p, &message);
  if (status == FP4AOT_OK) return FP4AOT_OK;
  return fail(status, "%s on %s (image %s): %s", kOps[op].name, binding->device.c_str(), binding->image->name,
              message.text);
}

template <typename Params>
fp4aot_status workspace_size(fp4aot_op op, Params const* given, size_t* bytes) {
  if (bytes == nullptr) return fail(FP4AOT_INVALID_ARGUMENT, "%s_workspace_size: bytes is NULL.", kOps[op].name);
  *bytes = 0;
  Params storage;
  Params const* p = nullptr;
  FP4AOT_RETURN_IF_ERROR(adapt(op, given, &storage, &p));
  FP4AOT_RETURN_IF_ERROR(check_sizes(op, *p));
  Binding const* binding = nullptr;
  Slot const* slot = nullptr;
  FP4AOT_RETURN_IF_ERROR(find_slot(op, p->device, &binding, &slot));
  if (is_empty(*p)) return FP4AOT_OK;
  FP4AOT_RETURN_IF_ERROR(check_problem(op, *binding, *slot, p));
  if (slot->workspace_size == nullptr) return FP4AOT_OK;
  ContextScope const scope(binding->context);  // the size may depend on the device
  FP4AOT_RETURN_IF_ERROR(scope.status());
  *bytes = slot->workspace_size(p);
  return FP4AOT_OK;
}

// Calls f(params as the op's struct), or fails for an op that does not exist.
template <typename F>
fp4aot_status with_params(fp4aot_op op, void const* params, F&& f) {
  switch (op) {
#define FP4AOT_OP(name, Params) \
  case FP4AOT_OP_##name:        \
    return f(static_cast<Params const*>(params));
#include "fp4aot/ops.def"
#undef FP4AOT_OP
    default:
      return fail(FP4AOT_INVALID_ARGUMENT, "op = %d does not exist; this library has 0..%d.", static_cast<int>(op),
                  FP4AOT_OP_COUNT - 1);
  }
}

// Checks params, finds the slot, and calls f(params, slot) with the device current.
template <typename F>
fp4aot_status with_slot(fp4aot_op op, void const* params, F&& f) {
  return with_params(op, params, [&](auto const* given) {
    std::remove_const_t<std::remove_pointer_t<decltype(given)>> storage;
    decltype(given) p = nullptr;
    FP4AOT_RETURN_IF_ERROR(adapt(op, given, &storage, &p));
    FP4AOT_RETURN_IF_ERROR(check_sizes(op, *p));
    Binding const* binding = nullptr;
    Slot const* slot = nullptr;
    FP4AOT_RETURN_IF_ERROR(find_slot(op, p->device, &binding, &slot));
    if (!is_empty(*p)) {
      FP4AOT_RETURN_IF_ERROR(check_problem(op, *binding, *slot, p));
    } else {
      storage = with_a_row(*p);
      p = &storage;
    }
    ContextScope const scope(binding->context);
    FP4AOT_RETURN_IF_ERROR(scope.status());
    return f(static_cast<void const*>(p), *slot);
  });
}

}  // namespace

}  // namespace fp4aot::core

using namespace fp4aot::core;

extern "C" {

#define FP4AOT_OP(name, params)                                                     \
  fp4aot_status fp4aot_##name(params const* p) { return run(FP4AOT_OP_##name, p); } \
  fp4aot_status fp4aot_##name##_workspace_size(params const* p, size_t* bytes) {    \
    return workspace_size(FP4AOT_OP_##name, p, bytes);                              \
  }
#include "fp4aot/ops.def"
#undef FP4AOT_OP

fp4aot_status fp4aot_list_tactics(fp4aot_op op, void const* params, int32_t* tactics, size_t* count) {
  if (count == nullptr) return fail(FP4AOT_INVALID_ARGUMENT, "fp4aot_list_tactics: count is NULL.");
  return with_slot(op, params, [&](void const* p, fp4aot::Slot const& slot) {
    size_t valid = 0;
    for (int32_t tactic = 1; tactic <= slot.tactic_count; tactic++) {
      if (!slot.tactic_valid(p, tactic)) continue;
      if (tactics != nullptr && valid < *count) tactics[valid] = tactic;
      valid++;
    }
    *count = valid;
    return FP4AOT_OK;
  });
}

fp4aot_status fp4aot_default_tactic(fp4aot_op op, void const* params, int32_t* tactic) {
  if (tactic == nullptr) return fail(FP4AOT_INVALID_ARGUMENT, "fp4aot_default_tactic: tactic is NULL.");
  return with_slot(op, params, [&](void const* p, fp4aot::Slot const& slot) {
    *tactic = slot.tactic_count > 0 ? slot.default_tactic(p) : FP4AOT_TACTIC_DEFAULT;
    return FP4AOT_OK;
  });
}

fp4aot_status fp4aot_tactic_name(fp4aot_op op, fp4aot_device device, int32_t tactic, char const** name) {
  if (name == nullptr) return fail(FP4AOT_INVALID_ARGUMENT, "fp4aot_tactic_name: name is NULL.");
  if (fp4aot_op_name(op) == nullptr) return with_params(op, nullptr, [](auto) { return FP4AOT_OK; });
  Binding const* binding = nullptr;
  fp4aot::Slot const* slot = nullptr;
  FP4AOT_RETURN_IF_ERROR(find_slot(op, device, &binding, &slot));
  if (tactic < 1 || tactic > slot->tactic_count) {
    return fail(FP4AOT_INVALID_ARGUMENT, "%s: tactic = %d does not exist; image %s has %d of them.", fp4aot_op_name(op),
                tactic, binding->image->name, slot->tactic_count);
  }
  *name = slot->tactic_name(tactic);
  return FP4AOT_OK;
}

char const* fp4aot_last_error(void) { return last_error().c_str(); }

char const* fp4aot_op_name(fp4aot_op op) {
  return static_cast<unsigned>(op) < FP4AOT_OP_COUNT ? kOps[op].name : nullptr;
}

char const* fp4aot_version(void) { return FP4AOT_VERSION; }

uint32_t fp4aot_abi_version(void) { return static_cast<uint32_t>(FP4AOT_ABI_MAJOR) << 16 | FP4AOT_ABI_MINOR; }

int fp4aot_supports(fp4aot_op op, fp4aot_device device) {
  Binding const* binding = nullptr;
  fp4aot::Slot const* slot = nullptr;
  if (fp4aot_op_name(op) == nullptr) {
    with_params(op, nullptr, [](auto) { return FP4AOT_OK; });
    return 0;
  }
  return find_slot(op, device, &binding, &slot) == FP4AOT_OK;
}

fp4aot_status fp4aot_preload(fp4aot_device device) {
  Binding const* binding = nullptr;
  FP4AOT_RETURN_IF_ERROR(bind(device, &binding));
  ContextScope const scope(binding->context);
  FP4AOT_RETURN_IF_ERROR(scope.status());
  fp4aot::Image const& image = *binding->image;
  for (uint32_t i = 0; i < image.slot_count; i++) {
    if (image.slots[i] != nullptr && image.slots[i]->preload != nullptr) image.slots[i]->preload();
  }
  return FP4AOT_OK;
}

fp4aot_status fp4aot_set_cpu_executor(fp4aot_executor const* executor) { return set_cpu_executor(executor); }

fp4aot_status fp4aot_image_name(fp4aot_device device, char const** name) {
  if (name == nullptr) return fail(FP4AOT_INVALID_ARGUMENT, "fp4aot_image_name: name is NULL.");
  Binding const* binding = nullptr;
  FP4AOT_RETURN_IF_ERROR(bind(device, &binding));
  *name = binding->image->name;
  return FP4AOT_OK;
}

char const* fp4aot_info_json(void) {
  thread_local std::string json;
  json = info_json();
  return json.c_str();
}

}  // extern "C"
