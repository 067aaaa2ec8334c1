// FP4AOT_CHECK_SCALES=1 (debugging): reads the block scales of a W4A4 product and refuses those whose padding along k is
// not zero: Blackwell's tensor cores would multiply a NaN there into a real row. Waits for the stream.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/checks.h"
#include "core/driver.h"
#include "core/switches.h"
#include "fp4aot/formats.h"

namespace fp4aot::core {

namespace {

fp4aot_status check_padding(fp4aot_op op, fp4aot_device device, char const* name, uint8_t const* scales, int64_t rows,
                            int64_t columns) {
  int64_t const padded = round_up(columns, kScaleAtomColumns);
  if (columns == padded) return FP4AOT_OK;
  for (int64_t first = 0; first < rows; first += kScaleAtomRows) {
    // The last atom along k of these 128 rows.
    std::array<uint8_t, kScaleAtomBytes> atom;
    uint8_t const* const source = scales + scale_offset(first, padded - kScaleAtomColumns, columns);
    if (device.type == FP4AOT_CPU) {
      std::memcpy(atom.data(), source, atom.size());
    } else {
      FP4AOT_RETURN_IF_ERROR(read_device_memory(atom.data(), source, atom.size()));
    }
    for (int64_t row = 0; row < std::min<int64_t>(kScaleAtomRows, rows - first); ++row) {
      for (int64_t column = columns; column < padded; ++column) {
        uint8_t const byte =
            atom[static_cast<size_t>(scale_offset(row, column % kScaleAtomColumns, kScaleAtomColumns))];
        if (byte == 0) continue;
        return fail(FP4AOT_INVALID_ARGUMENT,
                    "%s: %s has 0x%02x at row %lld, column %lld, which is padding along k (k/vec = %lld) and must be "
                    "zero. Pass the scales through unswizzle_scales and swizzle_scales.",
                    fp4aot_op_name(op), name, byte, static_cast<long long>(first + row), static_cast<long long>(column),
                    static_cast<long long>(columns));
      }
    }
  }
  return FP4AOT_OK;
}

}  // namespace

fp4aot_status check_scale_padding(fp4aot_op op, fp4aot_gemm_params const& p) {
  if (!switches.check_scales) return FP4AOT_OK;
  if (p.device.type == FP4AOT_CUDA) {
    bool capturing = false;
    FP4AOT_RETURN_IF_ERROR(wait_for_stream(p.stream, &capturing));
    if (capturing) return FP4AOT_OK;  // nothing may be waited for
  }
  int64_t const columns = p.k / (op == FP4AOT_OP_gemm_mxfp4 ? kMxfp4Vector : kNvfp4Vector);
  FP4AOT_RETURN_IF_ERROR(check_padding(op, p.device, "a_scales", p.a_scales, p.m, columns));
  return check_padding(op, p.device, "b_scales", p.b_scales, p.n, columns);
}

}  // namespace fp4aot::core
