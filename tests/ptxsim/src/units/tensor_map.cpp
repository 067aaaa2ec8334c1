#include "units/tensor_map.h"

#include <algorithm>
#include <cstring>

namespace ptxsim {
namespace {

struct TypeInfo {
  char const* name;
  int bits;
  bool floating;
};
constexpr TypeInfo kTypes[kTensorTypes] = {
    {"UINT8", 8, false},        {"UINT16", 16, false},      {"UINT32", 32, false},       {"INT32", 32, false},
    {"UINT64", 64, false},      {"INT64", 64, false},       {"FLOAT16", 16, true},       {"FLOAT32", 32, true},
    {"FLOAT64", 64, true},      {"BFLOAT16", 16, true},     {"FLOAT32_FTZ", 32, true},   {"TFLOAT32", 32, true},
    {"TFLOAT32_FTZ", 32, true}, {"16U4_ALIGN8B", 4, false}, {"16U4_ALIGN16B", 4, false}, {"16U6_ALIGN16B", 6, false},
};

bool padded(TensorType type) { return type == TensorType::k16U4Align16B || type == TensorType::k16U6Align16B; }

// Codes of tensormap.replace's .elemtype, in order.
constexpr TensorType kPtxTypes[] = {
    TensorType::kU8,      TensorType::kU16,         TensorType::kU32,          TensorType::kS32,
    TensorType::kU64,     TensorType::kS64,         TensorType::kF16,          TensorType::kF32,
    TensorType::kF32Ftz,  TensorType::kF64,         TensorType::kBf16,         TensorType::kTf32,
    TensorType::kTf32Ftz, TensorType::k16U4Align8B, TensorType::k16U4Align16B, TensorType::k16U6Align16B,
};

// Swizzle modes and atoms as tensormap.replace has them; the two fields are set apart, so the bytes keep both.
constexpr uint8_t kMode128B = 3;
struct SwizzlePair {
  uint8_t mode, atom;
};
constexpr SwizzlePair kSwizzlePairs[kTensorSwizzles] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {3, 1}, {3, 2}, {3, 3}};
constexpr uint8_t kNoSwizzle = 0xFF;

constexpr char kMagic[8] = {'P', 'T', 'X', 'S', 'I', 'M', 'T', '1'};

struct Packed {
  uint64_t address;
  char magic[8];  // the second word: CUTLASS clears bit 21 of it where rows have gaps, which is clear in kMagic
  uint64_t size[5];
  uint64_t stride[4];
  uint16_t box[5];
  uint8_t element_stride[5];
  uint8_t type, rank, interleave, mode, atom, l2_promotion, fill;
  uint8_t spare[18];
};
static_assert(sizeof(Packed) == kTensorMapBytes, "the opaque object has 128 bytes");

bool load(void const* bytes, Packed* packed_map) {
  std::memcpy(packed_map, bytes, sizeof(Packed));
  return std::memcmp(packed_map->magic, kMagic, sizeof(kMagic)) == 0;
}

std::string at(char const* what, uint32_t index) { return std::string(what) + "[" + std::to_string(index) + "]"; }

std::string size_fault(TensorMap const& map, uint32_t d) {
  if (map.size[d] == 0 || map.size[d] > (uint64_t{1} << 32))
    return at("globalDim", d) + " = " + std::to_string(map.size[d]) + ", must be 1..2^32";
  if (d == 0 && padded(map.type) && map.size[0] % 128 != 0)
    return "globalDim[0] must be a multiple of 128 for this type";
  if (d == 0 && map.type == TensorType::k16U4Align8B && map.size[0] % 2 != 0)
    return "globalDim[0] must be even for 16U4";
  if (map.box[d] == 0 || map.box[d] > 256)
    return at("boxDim", d) + " = " + std::to_string(map.box[d]) + ", must be 1..256";
  // Without interleaving the stride of dimension 0 is ignored.
  if (!(d == 0 && map.interleave == 0) && (map.element_stride[d] == 0 || map.element_stride[d] > 8))
    return at("elementStrides", d) + " = " + std::to_string(map.element_stride[d]) + ", must be 1..8";
  return "";
}

std::string swizzle_fault(TensorMap const& map) {
  if (static_cast<int>(map.swizzle) >= kTensorSwizzles) return "no such swizzle";
  if (map.interleave == 2 && map.swizzle != TensorSwizzle::k32B) return "interleave 32B demands swizzle 32B";
  if (map.interleave == 0 && map.swizzle != TensorSwizzle::kNone) {
    uint64_t const inner = tensor_shared_bytes(map.type, map.box[0]);
    uint64_t const span = map.swizzle == TensorSwizzle::k32B ? 32 : map.swizzle == TensorSwizzle::k64B ? 64 : 128;
    if (inner > span)
      return "boxDim[0] is " + std::to_string(inner) + " bytes, more than the swizzle's " + std::to_string(span);
  }
  if (padded(map.type)) {
    bool const atom_64 = map.type == TensorType::k16U6Align16B && map.swizzle == TensorSwizzle::k128BAtom64B;
    if (map.swizzle != TensorSwizzle::kNone && map.swizzle != TensorSwizzle::k128B &&
        map.swizzle != TensorSwizzle::k128BAtom32B && !atom_64)
      return "this swizzle does not exist for the type";
  }
  return "";
}

}  // namespace

int tensor_type_bits(TensorType type) { return kTypes[static_cast<int>(type)].bits; }
char const* tensor_type_name(TensorType type) { return kTypes[static_cast<int>(type)].name; }

uint64_t tensor_global_bytes(TensorType type, uint64_t elements) { return elements * tensor_type_bits(type) / 8; }
uint64_t tensor_shared_bytes(TensorType type, uint64_t elements) {
  return padded(type) ? elements : tensor_global_bytes(type, elements);  // 16 values take 16 bytes
}

std::string tensor_map_fault(TensorMap const& map) {
  if (static_cast<int>(map.type) >= kTensorTypes) return "no such data type";
  if (map.rank < 1 || map.rank > 5) return "tensorRank = " + std::to_string(map.rank) + ", must be 1..5";
  if (map.interleave > 2) return "no such interleave";
  if (map.interleave != 0 && map.rank < 3) return "an interleaved tensor has at least rank 3";
  if (map.interleave != 0 && map.type == TensorType::k16U6Align16B) return "16U6 cannot be interleaved";
  if (map.l2_promotion > 3) return "no such L2 promotion";
  uint64_t const alignment = map.interleave == 2 || padded(map.type) ? 32 : 16;
  if (map.address % alignment != 0) return "globalAddress must be aligned to " + std::to_string(alignment) + " bytes";
  for (uint32_t d = 0; d < map.rank; ++d)
    if (std::string fault = size_fault(map, d); !fault.empty()) return fault;
  for (uint32_t d = 0; d + 1 < map.rank; ++d)
    if (map.stride[d] % alignment != 0 || map.stride[d] >= (uint64_t{1} << 40))
      return at("globalStrides", d) + " = " + std::to_string(map.stride[d]) + ", must be a multiple of " +
             std::to_string(alignment) + " below 2^40";
  if (padded(map.type) && map.box[0] != 128) return "boxDim[0] must be 128 for this type";
  if (map.interleave == 0 && map.box[0] * static_cast<uint64_t>(tensor_type_bits(map.type)) % 128 != 0)
    return "boxDim[0] must be a multiple of 16 bytes";
  if (std::string fault = swizzle_fault(map); !fault.empty()) return fault;
  if (map.fill > 1) return "no such out-of-bounds fill";
  if (map.fill == 1 && !kTypes[static_cast<int>(map.type)].floating) return "NaN fill demands a floating-point type";
  return "";
}

std::string tensor_map_unsupported(TensorMap const& map) {
  if (map.interleave != 0) return "interleaved tensor maps have no model";
  if (map.fill != 0) return "tensor maps with NaN fill have no model (the constant is not documented)";
  if (map.type == TensorType::k16U6Align16B) return "6-bit tensor maps have no model";
  return "";
}

void pack_tensor_map(TensorMap const& map, void* bytes) {
  Packed p{};
  std::memcpy(p.magic, kMagic, sizeof(kMagic));
  p.address = map.address;
  std::copy(map.size.begin(), map.size.end(), p.size);
  std::copy(map.stride.begin(), map.stride.end(), p.stride);
  for (int d = 0; d < 5; ++d) {
    p.box[d] = static_cast<uint16_t>(map.box[d]);
    p.element_stride[d] = static_cast<uint8_t>(map.element_stride[d]);
  }
  p.type = static_cast<uint8_t>(map.type);
  p.rank = static_cast<uint8_t>(map.rank);
  p.interleave = static_cast<uint8_t>(map.interleave);
  bool const known = static_cast<int>(map.swizzle) < kTensorSwizzles;
  p.mode = known ? kSwizzlePairs[static_cast<int>(map.swizzle)].mode : kNoSwizzle;
  p.atom = known ? kSwizzlePairs[static_cast<int>(map.swizzle)].atom : kNoSwizzle;
  p.l2_promotion = static_cast<uint8_t>(map.l2_promotion);
  p.fill = static_cast<uint8_t>(map.fill);
  std::memcpy(bytes, &p, sizeof(p));
}

bool unpack_tensor_map(void const* bytes, TensorMap* map) {
  Packed p;
  if (!load(bytes, &p)) return false;
  map->type = static_cast<TensorType>(p.type);
  map->rank = p.rank;
  map->address = p.address;
  std::copy(p.size, p.size + 5, map->size.begin());
  std::copy(p.stride, p.stride + 4, map->stride.begin());
  std::copy(p.box, p.box + 5, map->box.begin());
  std::copy(p.element_stride, p.element_stride + 5, map->element_stride.begin());
  map->interleave = p.interleave;
  map->swizzle = static_cast<TensorSwizzle>(kNoSwizzle);
  for (int i = 0; i < kTensorSwizzles; ++i)
    if (kSwizzlePairs[i].mode == p.mode && kSwizzlePairs[i].atom == p.atom)
      map->swizzle = static_cast<TensorSwizzle>(i);
  map->l2_promotion = p.l2_promotion;
  map->fill = p.fill;
  return true;
}

bool tensor_type_of_ptx(uint64_t code, TensorType* type) {
  if (code >= std::size(kPtxTypes)) return false;
  *type = kPtxTypes[code];
  return true;
}

std::string replace_tensor_map_field(void* bytes, TensorMapField field, int ordinal, uint64_t value) {
  Packed p;
  if (!load(bytes, &p)) return "the object is not a tensor map";
  int const ordinals = field == TensorMapField::kGlobalStride ? 4
                       : field == TensorMapField::kBoxDim || field == TensorMapField::kGlobalDim ||
                               field == TensorMapField::kElementStride
                           ? 5
                           : 1;
  if (ordinal < 0 || ordinal >= ordinals)
    return "ordinal " + std::to_string(ordinal) + " of at most " + std::to_string(ordinals - 1);
  // What each field's bits can hold; the finer rules are those of the whole map, when it is used.
  uint64_t limit = UINT64_MAX;
  switch (field) {
    case TensorMapField::kGlobalAddress:
      p.address = value;
      break;
    case TensorMapField::kGlobalDim:
      p.size[ordinal] = value, limit = UINT32_MAX;
      break;
    case TensorMapField::kGlobalStride:
      p.stride[ordinal] = value, limit = (uint64_t{1} << 40) - 1;
      break;
    case TensorMapField::kBoxDim:
      p.box[ordinal] = static_cast<uint16_t>(value), limit = 256;
      break;
    case TensorMapField::kElementStride:
      p.element_stride[ordinal] = static_cast<uint8_t>(value), limit = 8;
      break;
    case TensorMapField::kRank:
      p.rank = static_cast<uint8_t>(value + 1), limit = 4;
      break;
    case TensorMapField::kInterleaveLayout:
      p.interleave = static_cast<uint8_t>(value), limit = 2;
      break;
    case TensorMapField::kSwizzleMode:
      p.mode = static_cast<uint8_t>(value), limit = kMode128B;
      break;
    case TensorMapField::kSwizzleAtomicity:
      p.atom = static_cast<uint8_t>(value), limit = 3;
      break;
    case TensorMapField::kFillMode:
      p.fill = static_cast<uint8_t>(value), limit = 1;
      break;
    case TensorMapField::kElementType: {
      TensorType type;
      if (!tensor_type_of_ptx(value, &type)) return "no element type has the code " + std::to_string(value);
      p.type = static_cast<uint8_t>(type);
      break;
    }
  }
  if (value > limit) return "the value " + std::to_string(value) + " does not fit, at most " + std::to_string(limit);
  std::memcpy(bytes, &p, sizeof(p));
  return "";
}

uint32_t swizzle_address(TensorSwizzle swizzle, uint32_t a) {
  uint32_t const row = a >> 7;  // 128-byte rows; the patterns repeat after 2, 4 or 8 of them
  switch (swizzle) {
    case TensorSwizzle::k32B:
      return a ^ (row & 1) << 4;
    case TensorSwizzle::k64B:
      return a ^ (row & 3) << 4;
    case TensorSwizzle::k128B:
      return a ^ (row & 7) << 4;
    case TensorSwizzle::k128BAtom32B:
      return a ^ (row & 3) << 5;
    case TensorSwizzle::k128BAtom32BFlip8B:
      return a ^ (row & 3) << 5 ^ (row & 1) << 3;
    case TensorSwizzle::k128BAtom64B:
      return a ^ (row & 1) << 6;
    default:
      return a;
  }
}

uint32_t swizzle_atom(TensorSwizzle swizzle) {
  constexpr uint32_t kAtoms[kTensorSwizzles] = {0, 16, 16, 16, 32, 8, 64};
  return kAtoms[static_cast<int>(swizzle)];
}

uint64_t tensor_box_bytes(TensorMap const& map) {
  uint64_t bytes = tensor_shared_bytes(map.type, map.box[0]);
  for (uint32_t d = 1; d < map.rank; ++d) bytes *= (map.box[d] + map.element_stride[d] - 1) / map.element_stride[d];
  return bytes;
}

std::string tensor_coordinates_fault(TensorMap const& map, int32_t const* coordinates, bool store) {
  // Half a byte cannot be addressed, and the padded types move whole groups of 128 values.
  if (map.type == TensorType::k16U4Align8B && coordinates[0] % 2 != 0)
    return "an odd coordinate of packed 4-bit values";
  if (padded(map.type) && coordinates[0] % 128 != 0)
    return "the coordinate of a padded packed type must be a multiple of 128";
  // Seen on an H200: anything else is an illegal instruction (conformance/copy.cu).
  if (!padded(map.type) && static_cast<int64_t>(coordinates[0]) * tensor_type_bits(map.type) % 128 != 0)
    return at("coordinate", 0) + " = " + std::to_string(coordinates[0]) + " is not a multiple of 16 bytes";
  if (store) {
    if (padded(map.type)) return "a store of a padded packed type has no model";
    for (uint32_t d = 0; d < map.rank; ++d)
      if (coordinates[d] < 0) return "a store starts at the negative " + at("coordinate", d);
  }
  return "";
}

void round_up_for_stores(TensorMap* map) {
  if (padded(map->type)) return;
  uint64_t const unit = 128 / static_cast<uint64_t>(tensor_type_bits(map->type));
  map->size[0] = (map->size[0] + unit - 1) / unit * unit;
}

namespace tensor_map_internal {

int split_row(TensorMap const& map, Row const& row, TensorRun* runs) {
  // Everything in units of bytes of the unswizzled row; the tensor's edges in dimension 0 fall on whole bytes, because
  // packed sizes and coordinates are even.
  bool const gaps = padded(map.type);
  int64_t const bytes = static_cast<int64_t>(tensor_shared_bytes(map.type, map.box[0]));
  int64_t const bits = gaps ? 8 : tensor_type_bits(map.type);
  int64_t const first = -row.c0 * bits / 8;  // byte of the row where the tensor begins
  int64_t const last = (static_cast<int64_t>(map.size[0]) - row.c0) * bits / 8;
  uint32_t const atom = gaps ? 16 : swizzle_atom(map.swizzle);
  int n = 0;
  for (int64_t b = 0; b < bytes;) {
    bool const inside = row.in_bounds && b >= first && b < last;
    int64_t end = bytes;
    if (row.in_bounds && b < first) end = std::min(end, first);
    if (row.in_bounds && b < last) end = std::min(end, last);
    // Atoms are those of the absolute address: a row need not begin on one.
    uint32_t const a = row.shared + static_cast<uint32_t>(b);
    if (atom != 0) end = std::min<int64_t>(end, b + atom - (a & (atom - 1)));
    int64_t const offset = gaps ? (row.c0 + b) / 2 : row.c0 * bits / 8 + b;
    uint32_t const length = static_cast<uint32_t>(gaps ? 8 : end - b);
    runs[n++] = {inside, row.global + static_cast<uint64_t>(offset), swizzle_address(map.swizzle, a), length};
    b = end;
  }
  return n;
}

}  // namespace tensor_map_internal
}  // namespace ptxsim
