// sm120a: a plain MXFP4 product and a grouped NVFP4 product by the block-scaled mma.sync.
#include "product.h"

namespace {

using namespace cute;

struct Plain {
  using Problem = cutlass_product::PlainProblem;
  using Arch = cutlass::arch::Sm120;
  using Element = cutlass_product::Mxfp4;
  using Tile = Shape<_128, _128, _128>;
  using Cluster = Shape<_1, _1, _1>;
  using Schedule = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
  using EpilogueArch = cutlass::arch::Sm120;
  using EpilogueClass = cutlass::arch::OpClassBlockScaledTensorOp;
  using EpilogueTile = cutlass::epilogue::collective::EpilogueTileAuto;
  using EpilogueSchedule = cutlass::epilogue::collective::EpilogueScheduleAuto;
};

struct Grouped : Plain {
  using Problem = cutlass_product::GroupedProblem;
  using Element = cutlass_product::Nvfp4;
  using Schedule = cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong;
  using EpilogueSchedule = cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong;
};

}  // namespace

extern "C" {

char const* plain(cutlass_product::Operands const* x, bool pdl) { return cutlass_product::plain<Plain>(*x, pdl); }

char const* grouped(cutlass_product::Operands const* x, int groups, bool pdl, bool late) {
  return cutlass_product::grouped<Grouped>({x, x + groups}, pdl, late);
}

}  // extern "C"
