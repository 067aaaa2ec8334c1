// Tensor maps: the driver's rules, the opaque bytes, and boxes against an element-by-element definition.
#include "units/tensor_map.h"

#include <cstring>
#include <map>
#include <vector>

#include "units/check.h"

using namespace ptxsim;

namespace {

TensorMap plain() {
  TensorMap m;
  m.type = TensorType::kU8;
  m.rank = 2;
  m.address = 0x10000;
  m.size = {256, 100, 1, 1, 1};
  m.stride = {512, 0, 0, 0};
  m.box = {64, 8, 1, 1, 1};
  m.element_stride = {1, 1, 1, 1, 1};
  return m;
}

template <class Change>
bool refused(Change change) {
  TensorMap m = plain();
  change(m);
  return !tensor_map_fault(m).empty();
}

void rules() {
  CHECK(!refused([](TensorMap&) {}));
  CHECK(refused([](TensorMap& m) { m.rank = 0; }));
  CHECK(refused([](TensorMap& m) { m.rank = 6; }));
  CHECK(refused([](TensorMap& m) { m.address += 8; }));
  CHECK(!refused([](TensorMap& m) { m.address += 16; }));
  CHECK(refused([](TensorMap& m) { m.size[1] = 0; }));
  CHECK(!refused([](TensorMap& m) { m.size[1] = uint64_t{1} << 32; }));
  CHECK(refused([](TensorMap& m) { m.size[1] = (uint64_t{1} << 32) + 1; }));
  CHECK(refused([](TensorMap& m) { m.stride[0] = 520; }));
  CHECK(refused([](TensorMap& m) { m.stride[0] = uint64_t{1} << 40; }));
  CHECK(!refused([](TensorMap& m) { m.stride[0] = (uint64_t{1} << 40) - 16; }));
  CHECK(!refused([](TensorMap& m) { m.stride[0] = 0; }));
  CHECK(refused([](TensorMap& m) { m.box[1] = 0; }));
  CHECK(refused([](TensorMap& m) { m.box[1] = 257; }));
  CHECK(!refused([](TensorMap& m) { m.box[1] = 256; }));
  CHECK(refused([](TensorMap& m) { m.box[0] = 8; }));  // 8 bytes
  CHECK(refused([](TensorMap& m) { m.element_stride[1] = 0; }));
  CHECK(refused([](TensorMap& m) { m.element_stride[1] = 9; }));
  CHECK(!refused([](TensorMap& m) { m.element_stride[0] = 0; }));  // ignored
  CHECK(refused([](TensorMap& m) { m.interleave = 1; }));          // rank 2
  CHECK(refused([](TensorMap& m) { m.swizzle = TensorSwizzle::k32B; }));
  CHECK(!refused([](TensorMap& m) { m.swizzle = TensorSwizzle::k64B; }));
  CHECK(!refused([](TensorMap& m) { m.swizzle = TensorSwizzle::k128BAtom64B; }));
  CHECK(refused([](TensorMap& m) { m.fill = 1; }));  // integers
  CHECK(!refused([](TensorMap& m) { m.fill = 1, m.type = TensorType::kBf16; }));
  CHECK(refused([](TensorMap& m) { m.l2_promotion = 4; }));
  // Packed types.
  auto const packed = [](TensorMap& m) { m.type = TensorType::k16U4Align8B, m.box[0] = 128; };
  CHECK(!refused(packed));
  CHECK(refused([&](TensorMap& m) { packed(m), m.size[0] = 255; }));
  CHECK(refused([&](TensorMap& m) { packed(m), m.box[0] = 16; }));
  CHECK(refused([&](TensorMap& m) { packed(m), m.swizzle = TensorSwizzle::k32B; }));
  CHECK(!refused([&](TensorMap& m) { packed(m), m.swizzle = TensorSwizzle::k64B; }));
  auto const padded = [](TensorMap& m) { m.type = TensorType::k16U4Align16B, m.box[0] = 128; };
  CHECK(!refused(padded));
  CHECK(refused([&](TensorMap& m) { padded(m), m.address += 16; }));
  CHECK(refused([&](TensorMap& m) { padded(m), m.stride[0] = 528; }));
  CHECK(refused([&](TensorMap& m) { padded(m), m.size[0] = 192; }));
  CHECK(refused([&](TensorMap& m) { padded(m), m.box[0] = 64; }));
  CHECK(refused([&](TensorMap& m) { padded(m), m.swizzle = TensorSwizzle::k64B; }));
  CHECK(!refused([&](TensorMap& m) { padded(m), m.swizzle = TensorSwizzle::k128BAtom32B; }));
  TensorMap nan = plain();
  nan.type = TensorType::kF32, nan.fill = 1;
  CHECK(!tensor_map_unsupported(nan).empty());
  CHECK(tensor_map_unsupported(plain()).empty());
}

void swizzles() {
  struct Case {
    TensorSwizzle swizzle;
    uint32_t from, to;
  };
  constexpr Case kCases[] = {
      {TensorSwizzle::kNone, 0x3F4, 0x3F4},        {TensorSwizzle::k32B, 0x080, 0x090},
      {TensorSwizzle::k32B, 0x100, 0x100},         {TensorSwizzle::k32B, 0x19F, 0x18F},
      {TensorSwizzle::k64B, 0x180, 0x1B0},         {TensorSwizzle::k64B, 0x200, 0x200},
      {TensorSwizzle::k128B, 0x080, 0x090},        {TensorSwizzle::k128B, 0x3F4, 0x384},
      {TensorSwizzle::k128B, 0x400, 0x400},        {TensorSwizzle::k128BAtom32B, 0x080, 0x0A0},
      {TensorSwizzle::k128BAtom32B, 0x187, 0x1E7}, {TensorSwizzle::k128BAtom32BFlip8B, 0x080, 0x0A8},
      {TensorSwizzle::k128BAtom64B, 0x080, 0x0C0}, {TensorSwizzle::k128BAtom64B, 0x100, 0x100},
  };
  for (Case const& c : kCases) CHECK(swizzle_address(c.swizzle, c.from) == c.to);
}

void opaque_bytes() {
  TensorMap m = plain();
  m.rank = 5;
  m.size = {2, 3, 4, 5, 6};
  m.stride = {16, 32, 48, 64};
  m.box = {16, 2, 3, 4, 256};
  m.element_stride = {1, 2, 3, 4, 8};
  m.swizzle = TensorSwizzle::k128BAtom32B;
  uint8_t bytes[kTensorMapBytes];
  pack_tensor_map(m, bytes);
  TensorMap back;
  CHECK(unpack_tensor_map(bytes, &back));
  CHECK(back.type == m.type && back.rank == 5 && back.address == m.address && back.size == m.size);
  CHECK(back.stride == m.stride && back.box == m.box && back.element_stride == m.element_stride);
  CHECK(back.swizzle == m.swizzle);
  auto const replace = [&](TensorMapField field, int ordinal, uint64_t value) {
    return replace_tensor_map_field(bytes, field, ordinal, value).empty();
  };
  CHECK(replace(TensorMapField::kGlobalAddress, 0, 0xABCDE0));
  CHECK(replace(TensorMapField::kRank, 0, 3));
  CHECK(replace(TensorMapField::kGlobalDim, 4, 77));
  CHECK(replace(TensorMapField::kGlobalStride, 3, 4096));
  CHECK(replace(TensorMapField::kBoxDim, 1, 9));
  CHECK(replace(TensorMapField::kElementStride, 2, 7));
  CHECK(replace(TensorMapField::kElementType, 0, 10));
  CHECK(replace(TensorMapField::kSwizzleMode, 0, 2));
  CHECK(replace(TensorMapField::kSwizzleAtomicity, 0, 0));
  CHECK(unpack_tensor_map(bytes, &back));
  CHECK(back.address == 0xABCDE0 && back.rank == 4 && back.size[4] == 77 && back.size[3] == 5);
  CHECK(back.stride[3] == 4096 && back.box[1] == 9 && back.element_stride[2] == 7);
  CHECK(back.type == TensorType::kBf16 && back.swizzle == TensorSwizzle::k64B);
  CHECK(!replace(TensorMapField::kGlobalStride, 4, 16));
  CHECK(!replace(TensorMapField::kGlobalDim, 5, 1));
  CHECK(!replace(TensorMapField::kElementType, 0, 16));
  CHECK(!replace(TensorMapField::kBoxDim, 0, 257));
  CHECK(!replace(TensorMapField::kGlobalStride, 0, uint64_t{1} << 40));
  // An atom other than 16 bytes goes with 128 bytes only.
  CHECK(replace(TensorMapField::kSwizzleAtomicity, 0, 1));
  CHECK(unpack_tensor_map(bytes, &back) && !tensor_map_fault(back).empty());
  std::memset(bytes, 0, sizeof bytes);
  CHECK(!unpack_tensor_map(bytes, &back));
}

// Every element on its own: (global bit, or out of bounds) -> shared bit, by the definition.
void box_by_elements(TensorMap const& m, int32_t const* at, uint32_t shared) {
  int const bits = tensor_type_bits(m.type);
  bool const padded = m.type == TensorType::k16U4Align16B;
  std::map<uint32_t, int64_t> expected;  // shared byte -> global byte, -1 out of bounds
  uint32_t count[5] = {1, 1, 1, 1, 1};
  for (uint32_t d = 0; d < m.rank; ++d)
    count[d] = d == 0 ? m.box[0] : (m.box[d] + m.element_stride[d] - 1) / m.element_stride[d];
  uint64_t linear = 0;
  for (uint32_t i4 = 0; i4 < count[4]; ++i4)
    for (uint32_t i3 = 0; i3 < count[3]; ++i3)
      for (uint32_t i2 = 0; i2 < count[2]; ++i2)
        for (uint32_t i1 = 0; i1 < count[1]; ++i1)
          for (uint32_t i0 = 0; i0 < count[0]; ++i0, ++linear) {
            uint32_t const index[5] = {i0, i1, i2, i3, i4};
            bool inside = true;
            int64_t bit = 0;
            for (uint32_t d = 0; d < m.rank; ++d) {
              int64_t const c = at[d] + static_cast<int64_t>(index[d]) * (d == 0 ? 1 : m.element_stride[d]);
              inside = inside && c >= 0 && c < static_cast<int64_t>(m.size[d]);
              bit += d == 0 ? c * bits : c * static_cast<int64_t>(m.stride[d - 1]) * 8;
            }
            uint64_t const shared_bit =
                padded ? linear / 16 * 128 + linear % 16 * 4 : linear * static_cast<uint64_t>(bits);
            for (int b = 0; b < (bits + 7) / 8; ++b) {
              uint32_t const byte = swizzle_address(m.swizzle, shared + static_cast<uint32_t>(shared_bit / 8) + b);
              expected[byte] = inside ? static_cast<int64_t>(m.address) + bit / 8 + b : -1;
            }
          }
  std::map<uint32_t, int64_t> found;
  bool twice = false;
  for_each_tensor_run(m, at, shared, [&](TensorRun const& run) {
    for (uint32_t b = 0; b < run.bytes; ++b) {
      twice = twice || found.count(run.shared + b) != 0;
      found[run.shared + b] = run.in_bounds ? static_cast<int64_t>(run.global) + b : -1;
    }
  });
  CHECK(!twice);
  CHECK(found == expected);
  CHECK(tensor_box_bytes(m) == found.size() * (padded ? 2 : 1));
}

void boxes() {
  constexpr TensorType kTypes[] = {TensorType::kU8,  TensorType::kU16,         TensorType::kF32,
                                   TensorType::kU64, TensorType::k16U4Align8B, TensorType::k16U4Align16B};
  int accepted = 0, outside = 0;
  for (int round = 0; round < 1000; ++round) {
    TensorMap m;
    m.type = kTypes[check::random_below(6)];
    m.rank = 1 + check::random_below(5);
    m.address = 0x100000 + 32 * check::random_below(8);
    m.swizzle = static_cast<TensorSwizzle>(check::random_below(kTensorSwizzles));
    uint64_t stride = 0;
    for (uint32_t d = 0; d < 5; ++d) {
      m.size[d] = d == 0 ? 2 * (1 + check::random_below(100)) : 1 + check::random_below(6);
      m.box[d] = d == 0 ? 16 * (1 + check::random_below(16)) : 1 + check::random_below(5);
      m.element_stride[d] = 1 + (check::random_below(4) == 0 ? check::random_below(3) : 0);
      if (m.type == TensorType::k16U4Align16B && d == 0) m.size[0] = 128 * (1 + check::random_below(2)), m.box[0] = 128;
      if (d < 4) {
        stride = d == 0 ? (tensor_global_bytes(m.type, m.size[0]) + 31) / 32 * 32 : stride * m.size[d];
        m.stride[d] = stride;
      }
    }
    if (!tensor_map_fault(m).empty()) continue;
    int32_t at[5];
    for (uint32_t d = 0; d < 5; ++d) at[d] = static_cast<int32_t>(check::random_below(12)) - 4;
    // Whole units of 16 bytes.
    at[0] = m.type == TensorType::k16U4Align16B
                ? 128 * (static_cast<int32_t>(check::random_below(4)) - 1)
                : 128 / tensor_type_bits(m.type) * (static_cast<int32_t>(check::random_below(12)) - 3);
    CHECK(tensor_coordinates_fault(m, at, false).empty());
    box_by_elements(m, at, 128 * check::random_below(16));
    ++accepted;
    outside += at[0] < 0;
  }
  CHECK(accepted > 200);
  CHECK(outside > 20);
  TensorMap m = plain();
  m.type = TensorType::kU8;
  for (int32_t x : {-16, -1, 0, 4, 8, 16}) {
    int32_t const start[2] = {x, 0};
    CHECK(tensor_coordinates_fault(m, start, false).empty() == (x % 16 == 0));
  }
  m.size[0] = 157;
  round_up_for_stores(&m);
  CHECK(m.size[0] == 160);
  m.type = TensorType::kF32, m.size[0] = 9;
  round_up_for_stores(&m);
  CHECK(m.size[0] == 12);
  m.type = TensorType::k16U4Align8B, m.box[0] = 128;
  int32_t const odd[2] = {1, 0}, negative[2] = {0, -1};
  CHECK(!tensor_coordinates_fault(m, odd, false).empty());
  CHECK(tensor_coordinates_fault(m, negative, false).empty());
  CHECK(!tensor_coordinates_fault(m, negative, true).empty());
}

}  // namespace

int main() {
  rules();
  swizzles();
  opaque_bytes();
  boxes();
  return check::report();
}
