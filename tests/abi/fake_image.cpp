// An image that only answers: which ABI, how many slots, what its ops do. Configured by macros of the test.
// The structs are written out here, not included: they are the contract between core and images of any age.
#include <cstddef>
#include <cstdint>
#include <cstdio>

struct Message {
  char text[512];
};

struct Slot {
  int (*launch)(void const*, Message*);
  size_t (*workspace_size)(void const*);
  int32_t tactic_count;
  char const* (*tactic_name)(int32_t);
  bool (*tactic_valid)(void const*, int32_t);
  int32_t (*default_tactic)(void const*);
  void (*preload)();
#ifdef CHECKED
  int (*check)(void const*, Message*);
#endif
#ifdef NEWER
  void* appended[4];  // a field this core does not know
#endif
};

struct Image {
  uint32_t abi_major, abi_minor, slot_count, slot_size;
  char const* name;
  int32_t cuda_toolkit;
  Slot const* const* slots;
#if MINOR >= 1
  void (*set_executor)(void const*);
#endif
};

static int launch(void const*, Message* message) {
  char const text[] = "the fake image was reached";
  for (size_t i = 0; i < sizeof text; i++) message->text[i] = text[i];
  return 7;  // FP4AOT_LAUNCH_FAILED
}

#ifdef CHECKED
static int check(void const*, Message* message) {
  std::snprintf(message->text, sizeof message->text, "k is too large");
  return 1;  // FP4AOT_INVALID_ARGUMENT
}
#endif

static size_t workspace(void const*) { return WORKSPACE; }
static char const* tactic_name(int32_t tactic) { return tactic == 1 ? "one" : tactic == 2 ? "two" : "three"; }
static bool tactic_valid(void const*, int32_t tactic) { return tactic != 2; }
static int32_t default_tactic(void const*) { return 3; }

static Slot make_slot() {
  Slot slot{};
  slot.launch = launch;
  slot.workspace_size = WORKSPACE > 0 ? workspace : nullptr;
  slot.tactic_count = 3;
  slot.tactic_name = tactic_name;
  slot.tactic_valid = tactic_valid;
  slot.default_tactic = default_tactic;
#ifdef CHECKED
  slot.check = check;
#endif
  return slot;
}

static Slot const slot = make_slot();

struct Slots {
  Slot const* pointers[64] = {};
  Slots() {
    // What lies behind an image's slots is not null: a core that reads beyond slot_count must be seen to.
    for (int i = 0; i < 64; i++) pointers[i] = i == MISSING ? nullptr : &slot;
  }
};

static Slots const slots;
#if MINOR >= 1
static void set_executor(void const* executor) { std::puts(executor != nullptr ? "executor" : "no executor"); }
static Image const image = {MAJOR, MINOR, SLOTS, sizeof(Slot), NAME, TOOLKIT, slots.pointers, set_executor};
#else
static Image const image = {MAJOR, MINOR, SLOTS, sizeof(Slot), NAME, TOOLKIT, slots.pointers};
#endif

#ifndef NO_ENTRY
extern "C" __attribute__((visibility("default"))) Image const* fp4aot_image() { return &image; }
#else
extern "C" __attribute__((visibility("default"))) Image const* something_else() { return &image; }
#endif
