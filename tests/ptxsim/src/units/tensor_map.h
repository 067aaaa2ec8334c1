// Tensor maps: what cuTensorMapEncodeTiled is told, its rules, the 128 opaque bytes, and the boxes that a copy moves.
//
// The bytes are a format of our own: hardware's is not public and no kernel may look inside. Only the tiled mode
// without interleaving exists here; im2col maps are never made, so a map always means a box.
#ifndef PTXSIM_UNITS_TENSOR_MAP_H_
#define PTXSIM_UNITS_TENSOR_MAP_H_

#include <array>
#include <cstdint>
#include <string>

namespace ptxsim {

constexpr int kTensorMapBytes = 128;
constexpr uint64_t kTensorMapAlignment = 64;

// Values of the enumerations are the driver's (CUtensorMapDataType, CUtensorMapSwizzle).
enum class TensorType : uint8_t {
  kU8,
  kU16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kF32,
  kF64,
  kBf16,
  kF32Ftz,
  kTf32,
  kTf32Ftz,
  k16U4Align8B,   // 16 values in 8 bytes, on both sides
  k16U4Align16B,  // 16 values in 8 bytes of global memory, in 16 of shared memory (the upper 8 are padding)
  k16U6Align16B,  // 16 values in 12 bytes of global memory, in 16 of shared memory (the upper 4 are padding)
};
constexpr int kTensorTypes = 16;

enum class TensorSwizzle : uint8_t { kNone, k32B, k64B, k128B, k128BAtom32B, k128BAtom32BFlip8B, k128BAtom64B };
constexpr int kTensorSwizzles = 7;

// The arguments of cuTensorMapEncodeTiled. Dimension 0 is the contiguous one; entries from rank on are ignored.
struct TensorMap {
  TensorType type = TensorType::kU8;
  uint32_t rank = 0;
  uint64_t address = 0;
  std::array<uint64_t, 5> size{};            // elements
  std::array<uint64_t, 4> stride{};          // bytes, of dimensions 1..rank-1
  std::array<uint32_t, 5> box{};             // elements
  std::array<uint32_t, 5> element_stride{};  // of dimension 0 ignored
  uint32_t interleave = 0;                   // 0 none, 1 16 B, 2 32 B
  TensorSwizzle swizzle = TensorSwizzle::kNone;
  uint32_t l2_promotion = 0;  // 0..3, without effect
  uint32_t fill = 0;          // 0: out-of-bounds elements are zero, 1: NaN
};

// Bits of an element in global memory, and bytes of a whole row of `elements` there and in shared memory.
int tensor_type_bits(TensorType type);
uint64_t tensor_global_bytes(TensorType type, uint64_t elements);
uint64_t tensor_shared_bytes(TensorType type, uint64_t elements);
char const* tensor_type_name(TensorType type);

// Why cuTensorMapEncodeTiled answers CUDA_ERROR_INVALID_VALUE; empty if it accepts. (Alignment of the 128 bytes
// themselves is not looked at: kTensorMapAlignment.)
std::string tensor_map_fault(TensorMap const& map);
// What is legal but has no model here (interleaved layouts, NaN fill); empty if nothing.
std::string tensor_map_unsupported(TensorMap const& map);

// To and from the opaque bytes. unpack: false if the bytes are not a map of ours (`map` is then unchanged). A map whose
// fields were replaced one by one may be faulty in between: call tensor_map_fault when it is used.
void pack_tensor_map(TensorMap const& map, void* bytes);
bool unpack_tensor_map(void const* bytes, TensorMap* map);

// One field as tensormap.replace names it. `ordinal` is the dimension (of strides: 0 is the stride of dimension 1).
enum class TensorMapField : uint8_t {
  kGlobalAddress,
  kRank,  // the value is rank - 1
  kBoxDim,
  kGlobalDim,
  kGlobalStride,  // bytes
  kElementStride,
  kElementType,       // PTX's codes, see tensor_type_of_ptx
  kInterleaveLayout,  // 0 none, 1 16 B, 2 32 B
  kSwizzleMode,       // 0 none, 1 32 B, 2 64 B, 3 128 B, 4 96 B (not modelled)
  kSwizzleAtomicity,  // 0 16 B, 1 32 B, 2 32 B + flip 8 B, 3 64 B
  kFillMode,          // 0 zero, 1 NaN
};
// Replaces one field in the opaque bytes. Returns what is wrong (not a map, ordinal or value out of range), else empty.
std::string replace_tensor_map_field(void* bytes, TensorMapField field, int ordinal, uint64_t value);

// PTX's element type codes of tensormap.replace (not the driver's numbers). False: no such code.
bool tensor_type_of_ptx(uint64_t code, TensorType* type);

// Where the byte of the unswizzled shared address `address` really is. The pattern is a function of absolute address
// bits, so a buffer that is not aligned to the pattern's repeat is still consistent between all who use it.
uint32_t swizzle_address(TensorSwizzle swizzle, uint32_t address);
// Bytes that stay together under the swizzle: 16, 32, 64 or 8; 0: everything (no swizzle).
uint32_t swizzle_atom(TensorSwizzle swizzle);

// Shared bytes of a whole box: what a load's complete_tx counts, whether or not parts are out of bounds.
uint64_t tensor_box_bytes(TensorMap const& map);
// Required alignment of the shared address of a box.
constexpr uint32_t kTensorSharedAlignment = 128;

// A piece of a box that is contiguous on both sides and wholly in or out of bounds.
struct TensorRun {
  bool in_bounds;
  uint64_t global;  // address of the first byte; meaningless out of bounds
  uint32_t shared;  // address of the first byte, swizzled
  uint32_t bytes;
};

// Calls visit(TensorRun const&) for all pieces of the box whose first element is at `coordinates` (dimension 0 first),
// stored compactly at shared address `shared`, in the order of unswizzled addresses. Padding bytes of the 16-byte
// packed types belong to no run. The map must have no fault.
template <class Visit>
void for_each_tensor_run(TensorMap const& map, int32_t const* coordinates, uint32_t shared, Visit&& visit);

// What the coordinates of a copy may not be for this type; empty if they are fine. store: starts must be >= 0 is not
// demanded of hardware-skipped elements, but a negative start of a store is outside of what PTX defines.
std::string tensor_coordinates_fault(TensorMap const& map, int32_t const* coordinates, bool store);

// Stores end at a multiple of 16 bytes of a row, not at the tensor's last element: seen on an H200
// (conformance/copy.cu; loads are exact). Makes a copy of the map for stores so.
void round_up_for_stores(TensorMap* map);

namespace tensor_map_internal {
// Runs of one row of the box: `elements` from coordinate c0, global row start (of coordinate 0), unswizzled row
// address.
struct Row {
  bool in_bounds;  // in the dimensions above 0
  int64_t c0;
  uint64_t global;
  uint32_t shared;
};
int split_row(TensorMap const& map, Row const& row, TensorRun* runs);
constexpr int kMaxRunsPerRow =
    512;  // 256 elements of 8 bytes in atoms of 8 bytes, and the boundary of the tensor twice
}  // namespace tensor_map_internal

template <class Visit>
void for_each_tensor_run(TensorMap const& map, int32_t const* coordinates, uint32_t shared, Visit&& visit) {
  uint32_t count[5] = {1, 1, 1, 1, 1};
  for (uint32_t d = 1; d < map.rank; ++d) count[d] = (map.box[d] + map.element_stride[d] - 1) / map.element_stride[d];
  uint32_t const row_bytes = static_cast<uint32_t>(tensor_shared_bytes(map.type, map.box[0]));
  TensorRun runs[tensor_map_internal::kMaxRunsPerRow];
  uint32_t index[5] = {0, 0, 0, 0, 0};
  for (uint64_t row = 0;; ++row) {
    tensor_map_internal::Row piece{true, coordinates[0], map.address, shared + static_cast<uint32_t>(row) * row_bytes};
    for (uint32_t d = 1; d < map.rank; ++d) {
      int64_t const c = static_cast<int64_t>(coordinates[d]) + static_cast<int64_t>(index[d]) * map.element_stride[d];
      if (c < 0 || static_cast<uint64_t>(c) >= map.size[d]) piece.in_bounds = false;
      piece.global += static_cast<uint64_t>(c) * map.stride[d - 1];
    }
    int const n = tensor_map_internal::split_row(map, piece, runs);
    for (int i = 0; i < n; ++i) visit(static_cast<TensorRun const&>(runs[i]));
    uint32_t d = 1;
    while (d < 5 && ++index[d] == count[d]) index[d++] = 0;
    if (d == 5) break;
  }
}

}  // namespace ptxsim

#endif
