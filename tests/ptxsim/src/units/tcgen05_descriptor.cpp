// The 32-bit instruction descriptor of tcgen05.mma (PTX ISA, instruction descriptor tables; field names as there).
#include "units/tcgen05.h"

#include <initializer_list>

namespace ptxsim {
namespace {

struct Fields {
  uint32_t word;
  uint32_t operator()(int low, int count) const { return word >> low & ((1u << count) - 1); }
};

// Element types by the 3-bit format fields.
bool type_16(uint32_t code, MmaType* type) {
  *type = code == 0 ? MmaType::kFp16 : MmaType::kBf16;
  return code <= 1;
}
bool type_8(uint32_t code, MmaType* type) {
  switch (code) {
    case 0:
      *type = MmaType::kE4m3;
      return true;
    case 1:
      *type = MmaType::kE5m2;
      return true;
    case 3:
      *type = MmaType::kE2m3;
      return true;
    case 4:
      *type = MmaType::kE3m2;
      return true;
    case 5:
      *type = MmaType::kE2m1;
      return true;
    default:
      return false;
  }
}

std::string shape_fault(Tcgen05Mma const& mma) {
  bool const scaled = mma.scale_block != 0;
  std::string const shape = "M = " + std::to_string(mma.m) + ", N = " + std::to_string(mma.n) +
                            " with cta_group::" + std::to_string(mma.ctas);
  bool const m_ok = mma.ctas == 2 ? mma.m == 128 || mma.m == 256 : mma.m == 128 || (mma.m == 64 && !scaled);
  // N in steps of 8 up to 256; of 16 where a pair shares it or where M = 128 of the unscaled kinds fills all lanes.
  int const step = mma.ctas == 2 || (!scaled && mma.m == 128) ? 16 : 8;
  if (!m_ok || mma.n < step || mma.n > 256 || mma.n % step != 0) return shape + " is no shape of this kind";
  if (scaled && mma.ctas == 2 && mma.m == 128)
    return shape + " has no model for block-scaled kinds (where its scales lie is not sure)";
  return "";
}

std::string decode_plain(Fields field, Tcgen05Mma* mma) {
  if (field(0, 3) != 0) return "sparse products have no model";
  if (field(3, 1) != 0) return "saturation is for integers";
  if (field(6, 1) != 0 || field(23, 1) != 0 || field(29, 1) != 0 || field(30, 2) != 0)
    return "reserved bits of the instruction descriptor are set";
  if (field(4, 2) > 1) return "the D format must be F16 or F32";
  mma->fp16_accumulator = field(4, 2) == 0;
  if (mma->kind == Tcgen05Kind::kF16) {
    mma->k = 16;
    if (!type_16(field(7, 3), &mma->a) || !type_16(field(10, 3), &mma->b)) return "no such type in kind::f16";
    // (Fp16 with bf16 in one product is not excluded by the tables; nothing of ours uses it.)
    if (mma->a != mma->b) return "A and B of different 16-bit types have no model";
    if (mma->fp16_accumulator && mma->a == MmaType::kBf16) return "bf16 has no fp16 accumulator";
  } else if (mma->kind == Tcgen05Kind::kTf32) {
    mma->k = 8;
    if (field(7, 3) != 2 || field(10, 3) != 2) return "kind::tf32 has the types code 2";
    if (mma->fp16_accumulator) return "tf32 has no fp16 accumulator";
    mma->a = mma->b = MmaType::kTf32;
  } else {
    mma->k = 32;
    if (!type_8(field(7, 3), &mma->a) || !type_8(field(10, 3), &mma->b)) return "no such type in kind::f8f6f4";
    // The 6- and 4-bit types stand in shared memory with gaps that only a padded tensor map makes.
    if (mma->a > MmaType::kE5m2 || mma->b > MmaType::kE5m2) return "6- and 4-bit types of this kind have no model";
  }
  mma->major_a = field(15, 1) != 0 ? Major::kMn : Major::kK;
  mma->major_b = field(16, 1) != 0 ? Major::kMn : Major::kK;
  mma->m = static_cast<int>(field(24, 5)) << 4;
  return "";
}

std::string decode_scaled(Fields field, Tcgen05Mma* mma) {
  if (field(2, 1) != 0) return "sparse products have no model";
  if (field(0, 2) != 0 || field(3, 1) != 0 || field(6, 1) != 0 || field(24, 3) != 0)
    return "reserved bits of the instruction descriptor are set";
  mma->sf_id_b = static_cast<int>(field(4, 2));
  mma->sf_id_a = static_cast<int>(field(29, 2));
  mma->scale = field(23, 1) != 0 ? ScaleType::kUe8m0 : ScaleType::kUe4m3;
  mma->m = static_cast<int>(field(27, 2)) << 7;
  int const block = mma->scale_block;
  if (mma->kind == Tcgen05Kind::kMxf8f6f4) {
    mma->k = 32;
    if (field(31, 1) != 0) return "reserved bits of the instruction descriptor are set";
    if (!type_8(field(7, 3), &mma->a) || !type_8(field(10, 3), &mma->b)) return "no such type in kind::mxf8f6f4";
    if (mma->a > MmaType::kE5m2 || mma->b > MmaType::kE5m2) return "6- and 4-bit types of this kind have no model";
    if (block != 32 || mma->scale != ScaleType::kUe8m0) return "kind::mxf8f6f4 has one ue8m0 scale for 32 elements";
    mma->major_a = field(15, 1) != 0 ? Major::kMn : Major::kK;
    mma->major_b = field(16, 1) != 0 ? Major::kMn : Major::kK;
    return "";
  }
  if (field(12, 1) != 0 || field(15, 2) != 0) return "reserved bits of the instruction descriptor are set";
  if (field(7, 3) != 1 || field(10, 2) != 1) return "the 4-bit kinds have the type code 1 (e2m1)";
  mma->a = mma->b = MmaType::kE2m1;
  mma->k = field(31, 1) != 0 ? 96 : 64;
  if (mma->kind == Tcgen05Kind::kMxf4 && (block != 32 || mma->scale != ScaleType::kUe8m0))
    return "kind::mxf4 has a ue8m0 scale for 32 elements";
  if (block != 16 && block != 32) return "kind::mxf4nvf4 has a scale for 16 or 32 elements";
  if (block == 32 && mma->scale != ScaleType::kUe8m0) return "blocks of 32 have ue8m0 scales";
  // Which bytes of the scale words a product may start at (PTX, table of scale factor ids).
  for (int id : {mma->sf_id_a, mma->sf_id_b}) {
    bool const ok = mma->k == 64 ? (block == 16 ? id == 0 : id % 2 == 0) : (block == 16 ? id % 2 == 0 : true);
    if (!ok) return "the scale factor id " + std::to_string(id) + " does not suit the scales of this kind";
  }
  return "";
}

}  // namespace

std::string decode_tcgen05(Tcgen05Kind kind, int ctas, int qualifier_block, uint32_t descriptor, Tcgen05Mma* mma) {
  *mma = Tcgen05Mma();
  mma->kind = kind;
  mma->ctas = ctas;
  mma->scale_block = qualifier_block;
  Fields const field{descriptor};
  bool const scaled = kind == Tcgen05Kind::kMxf8f6f4 || kind == Tcgen05Kind::kMxf4 || kind == Tcgen05Kind::kMxf4nvf4;
  if (scaled != (qualifier_block != 0)) return "scale factors do not go with this kind";
  mma->negate_a = field(13, 1) != 0;
  mma->negate_b = field(14, 1) != 0;
  mma->n = static_cast<int>(field(17, 6)) << 3;
  std::string const fault = scaled ? decode_scaled(field, mma) : decode_plain(field, mma);
  return fault.empty() ? shape_fault(*mma) : fault;
}

}  // namespace ptxsim
