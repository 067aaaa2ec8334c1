// sm103a: a plain and a grouped NVFP4 product of two SMs by the K = 96 instructions.
#include "product.h"

namespace {

using namespace cute;

struct Plain {
  using Problem = cutlass_product::PlainProblem;
  using Arch = cutlass::arch::Sm103;
  using Element = cutlass_product::UltraNvfp4;
  using Tile = Shape<_256, _128, Int<768>>;
  using Cluster = Shape<_2, _1, _1>;
  using Schedule = cutlass::gemm::KernelTmaWarpSpecialized2SmBlockScaledMxNvf4UltraVs16Sm103;
  using EpilogueArch = cutlass::arch::Sm100;
  using EpilogueClass = cutlass::arch::OpClassTensorOp;
  using EpilogueTile = cutlass::epilogue::collective::EpilogueTileAuto;
  using EpilogueSchedule = cutlass::epilogue::NoSmemWarpSpecialized2Sm;
};

struct Grouped : Plain {
  using Problem = cutlass_product::GroupedProblem;
  using Schedule = cutlass::gemm::KernelPtrArrayTmaWarpSpecialized2SmBlockScaledMxNvf4UltraVs16Sm103;
  using EpilogueSchedule = cutlass::epilogue::PtrArrayTmaWarpSpecialized2Sm;
};

}  // namespace

extern "C" {

char const* plain(cutlass_product::Operands const* x, bool pdl) { return cutlass_product::plain<Plain>(*x, pdl); }

char const* grouped(cutlass_product::Operands const* x, int groups, bool pdl, bool late) {
  return cutlass_product::grouped<Grouped>({x, x + groups}, pdl, late);
}

}  // extern "C"
