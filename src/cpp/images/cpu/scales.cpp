// Scale layout conversions of tensors.
#include <algorithm>

#include "images/cpu/policy.h"
#include "images/cpu/slot.h"
#include "images/cpu/thread_pool.h"
#include "kernels/scales/cpu.h"

namespace fp4aot::cpu {
namespace {

template <class Body>
void for_each_row(int64_t rows, int64_t columns, Body const& body) {
  int64_t const rows_an_item = std::max<int64_t>(1, kScaleBytesPerItem / columns);
  parallel_for((rows + rows_an_item - 1) / rows_an_item, [&](int64_t item) {
    int64_t const end = std::min(rows, (item + 1) * rows_an_item);
    for (int64_t row = item * rows_an_item; row < end; ++row) body(row);
  });
}

void swizzle(fp4aot_scale_layout_params const& p) {
  clear_last_atoms(p.rows, p.columns, p.swizzled);
  for_each_row(p.rows, p.columns, [&](int64_t row) {
    write_swizzled(p.linear + row * p.linear_stride, row, 0, p.columns, p.columns, p.swizzled);
  });
}

void unswizzle(fp4aot_scale_layout_params const& p) {
  for_each_row(p.rows, p.columns, [&](int64_t row) {
    read_swizzled(p.swizzled, row, 0, p.columns, p.columns, p.linear + row * p.linear_stride);
  });
}

}  // namespace
}  // namespace fp4aot::cpu

namespace fp4aot {

FP4AOT_CPU_SLOT(swizzle_scales, fp4aot_scale_layout_params, cpu::swizzle)
FP4AOT_CPU_SLOT(unswizzle_scales, fp4aot_scale_layout_params, cpu::unswizzle)

}  // namespace fp4aot
