// sm100a: a plain NVFP4 product of two SMs, the same with the builder's own epilogue tile, and a grouped MXFP4 product.
#include "product.h"

namespace {

using namespace cute;

template <class EpilogueTile_>
struct Plain {
  using Problem = cutlass_product::PlainProblem;
  using Arch = cutlass::arch::Sm100;
  using Element = cutlass_product::Nvfp4;
  using Tile = Shape<_256, _256, _256>;
  using Cluster = Shape<_2, _1, _1>;
  using Schedule = cutlass::gemm::KernelTmaWarpSpecialized2SmNvf4Sm100;
  using EpilogueArch = cutlass::arch::Sm100;
  using EpilogueClass = cutlass::arch::OpClassTensorOp;
  using EpilogueTile = EpilogueTile_;
  using EpilogueSchedule = cutlass::epilogue::TmaWarpSpecialized2Sm;
};

struct Grouped {
  using Problem = cutlass_product::GroupedProblem;
  using Arch = cutlass::arch::Sm100;
  using Element = cutlass_product::Mxfp4;
  using Tile = Shape<_128, _128, _256>;
  using Cluster = Shape<_1, _1, _1>;
  using Schedule = cutlass::gemm::KernelPtrArrayTmaWarpSpecialized1SmMxf4Sm100;
  using EpilogueArch = cutlass::arch::Sm100;
  using EpilogueClass = cutlass::arch::OpClassTensorOp;
  using EpilogueTile = cutlass::epilogue::collective::EpilogueTileAuto;
  using EpilogueSchedule = cutlass::epilogue::PtrArrayTmaWarpSpecialized1Sm;
};

}  // namespace

extern "C" {

char const* plain(cutlass_product::Operands const* x, bool pdl) {
  return cutlass_product::plain<Plain<Shape<_128, _64>>>(*x, pdl);
}

// Two accumulators of 256 columns overlap by as much as an epilogue tile of 32 columns leaves, which is not enough for
// the scales beside them: they are copied beyond the last column of tensor memory.
char const* plain_automatic_tile(cutlass_product::Operands const* x, bool pdl) {
  return cutlass_product::plain<Plain<cutlass::epilogue::collective::EpilogueTileAuto>>(*x, pdl);
}

char const* grouped(cutlass_product::Operands const* x, int groups, bool pdl, bool late) {
  return cutlass_product::grouped<Grouped>({x, x + groups}, pdl, late);
}

}  // extern "C"
