#include "program.h"

namespace {

#define CASE(name, text)                                                                                      \
  struct name {                                                                                               \
    static __device__ uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {                                    \
      uint32_t d;                                                                                             \
      asm volatile(                                                                                           \
          "{ .reg .b32 A, B, C, D; .reg .f32 x, y, z, r; .reg .b16 h, l, g; .reg .b64 w, v; .reg .pred p, q;" \
          "mov.b32 A, %1; mov.b32 B, %2; mov.b32 C, %3; mov.b32 x, A; mov.b32 y, B; mov.b32 z, C;" text       \
          "; mov.b32 %0, D; }"                                                                                \
          : "=r"(d)                                                                                           \
          : "r"(a), "r"(b), "r"(c));                                                                          \
      return d;                                                                                               \
    }                                                                                                         \
  };
#include "cases.def"
#undef CASE

constexpr unsigned kValues = 128;

template <class Op>
__global__ void elementwise(uint32_t* out, uint32_t const* in) {
  unsigned const i = threadIdx.x;
  out[i] = Op::apply(in[i], in[(i + 37) % kValues], in[(i * 5 + 11) % kValues]);
}

std::vector<uint32_t> inputs() {
  std::vector<uint32_t> values = {
      0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001,
      0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0x3E800000, 0x3F400000,
      0x40200000, 0x40600000, 0x40A00000, 0x40C00000, 0xC0C80000, 0x43E00000, 0x43E80000, 0x43E8A000, 0xC3F00000,
      0x477FE000, 0x477FF000, 0x47800000, 0x33800000, 0x33000000, 0x3B000000, 0x3A800000, 0x3F808000, 0x3F818000,
      0x3F807FFF, 0x7F7F8000, 0x4F000000, 0xCF000000, 0x4EFFFFFF, 0x5F000000, 0x3FFFFFFF, 0xC2F00000, 0x42FE0000,
      0x7C007E00, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F80FF80, 0x0001FFFF};
  Random random(7);
  while (values.size() < kValues) {
    uint32_t const bits = random();
    // Half of them of moderate size.
    values.push_back(values.size() % 2 == 0 ? bits : (bits & 0x81FFFFFFu) | 0x3E000000u);
  }
  return values;
}

}  // namespace

void elementwise_cases() {
  DeviceArray<uint32_t> in(inputs());
#define CASE(name, text) run(#name, elementwise<name>, 1, kValues, kValues, in.data());
#include "cases.def"
#undef CASE
}
