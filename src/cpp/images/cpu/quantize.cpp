// Quantising and dequantising tensors: strides, scale layouts and threads around the row kernels.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "fp4aot/formats.h"
#include "images/cpu/kernel_table.h"
#include "images/cpu/slot.h"
#include "images/cpu/thread_pool.h"
#include "kernels/scales/cpu.h"

namespace fp4aot::cpu {
namespace {

constexpr int64_t kChunkScales = kColumnChunk / kNvfp4Vector;  // the most scales a chunk has

// Address of the element at (row, column) of a tensor whose stride is in elements.
template <class Void>
Void* element_at(Void* base, int32_t dtype, int64_t stride, int64_t row, int64_t column) {
  using Byte = std::conditional_t<std::is_const_v<Void>, char const, char>;
  return static_cast<Byte*>(base) + (row * stride + column) * element_bytes(dtype);
}

// Calls body(row, first, count) for each piece of at most `chunk` columns of each row.
template <class Body>
void for_each_piece(int64_t rows, int64_t columns, int64_t chunk, Body const& body) {
  int64_t const pieces_a_row = (columns + chunk - 1) / chunk;
  int64_t const pieces = rows * pieces_a_row;
  if (pieces == 0) return;
  int64_t const pieces_an_item = std::max<int64_t>(1, kElementsPerItem / std::min(columns, chunk));
  parallel_for((pieces + pieces_an_item - 1) / pieces_an_item, [&](int64_t item) {
    int64_t const end = std::min(pieces, (item + 1) * pieces_an_item);
    for (int64_t piece = item * pieces_an_item; piece < end; ++piece) {
      int64_t const row = piece / pieces_a_row, first = piece % pieces_a_row * chunk;
      body(row, first, std::min(chunk, columns - first));
    }
  });
}

BlockRule rule_of(fp4aot_quantize_params const& p) {
  float const global_scale = p.global_scale ? *p.global_scale : 1.0f;
  return {global_scale, !(is_finite(global_scale) && global_scale > 0.0f), p.rounding == FP4AOT_ROUND_FLOOR};
}

// Calls quantize(row, first, count, codes, scales) with where the codes of the piece go and a place for its scales, and
// puts those into the layout asked for.
template <class Quantize>
void quantize_pieces(fp4aot_quantize_params const& p, int64_t vec, Quantize const& quantize) {
  int64_t const columns = p.k / vec;
  bool const linear = p.scale_layout == FP4AOT_SCALES_LINEAR;
  if (!linear) clear_last_atoms(p.rows, columns, p.scales);
  for_each_piece(p.rows, p.k, kColumnChunk, [&](int64_t row, int64_t first, int64_t count) {
    uint8_t* const codes = p.codes + row * p.codes_stride + first / 2;
    if (linear) return quantize(row, first, count, codes, p.scales + row * columns + first / vec);
    uint8_t scales[kChunkScales];
    quantize(row, first, count, codes, scales);
    write_swizzled(scales, row, first / vec, count / vec, columns, p.scales);
  });
}

template <Format kFormat>
void quantize(fp4aot_quantize_params const& p) {
  auto const kernel = kernels().quantize[static_cast<int>(kFormat)][p.input_dtype - 1];
  BlockRule const rule = rule_of(p);
  quantize_pieces(p, kVector<kFormat>, [&](int64_t row, int64_t first, int64_t count, uint8_t* codes, uint8_t* scales) {
    kernel(element_at(p.input, p.input_dtype, p.input_stride, row, first), count, rule, codes, scales);
  });
}

template <Format kFormat>
void silu_mul_quantize(fp4aot_quantize_params const& p) {
  auto const kernel = kernels().silu_mul_quantize[static_cast<int>(kFormat)][p.input_dtype - 1];
  BlockRule const rule = rule_of(p);
  quantize_pieces(p, kVector<kFormat>, [&](int64_t row, int64_t first, int64_t count, uint8_t* codes, uint8_t* scales) {
    kernel(element_at(p.input, p.input_dtype, p.input_stride, row, first),
           element_at(p.input, p.input_dtype, p.input_stride, row, p.k + first), count, rule, codes, scales);
  });
}

void rmsnorm_quantize(fp4aot_quantize_params const& p) {
  auto const square_sum = kernels().square_sum[p.input_dtype - 1];
  auto const scale_quantize = kernels().scale_quantize[p.input_dtype - 1];
  BlockRule const rule = rule_of(p);
  int64_t const columns = p.k / kNvfp4Vector;
  bool const linear = p.scale_layout == FP4AOT_SCALES_LINEAR;
  if (!linear) clear_last_atoms(p.rows, columns, p.scales);
  for_each_piece(p.rows, p.k, p.k, [&](int64_t row, int64_t, int64_t) {
    void const* const input = element_at(p.input, p.input_dtype, p.input_stride, row, 0);
    void* const residual = p.residual ? element_at(p.residual, p.input_dtype, p.residual_stride, row, 0) : nullptr;
    float const mean = static_cast<float>(square_sum(input, residual, p.k) / static_cast<double>(p.k));
    float const root = std::sqrt(mean + p.epsilon);
    char const* const x = static_cast<char const*>(residual ? residual : input);
    char const* const weight = static_cast<char const*>(p.weight);
    uint8_t* const codes = p.codes + row * p.codes_stride;
    for (int64_t first = 0; first < p.k; first += kColumnChunk) {
      int64_t const count = std::min(kColumnChunk, p.k - first), offset = first * element_bytes(p.input_dtype);
      uint8_t scales[kChunkScales];
      uint8_t* const to = linear ? p.scales + row * columns + first / kNvfp4Vector : scales;
      scale_quantize(x + offset, weight + offset, root, count, rule, codes + first / 2, to);
      if (!linear) write_swizzled(scales, row, first / kNvfp4Vector, count / kNvfp4Vector, columns, p.scales);
    }
  });
}

template <Format kFormat>
void dequantize(fp4aot_dequantize_params const& p) {
  constexpr int64_t kVec = kVector<kFormat>;
  auto const kernel = kernels().dequantize[static_cast<int>(kFormat)][p.output_dtype - 1];
  float const global_scale = p.global_scale ? *p.global_scale : 1.0f;
  int64_t const columns = p.k / kVec;
  bool const linear = p.scale_layout == FP4AOT_SCALES_LINEAR;
  for_each_piece(p.rows, p.k, kColumnChunk, [&](int64_t row, int64_t first, int64_t count) {
    uint8_t scales[kChunkScales + kScaleSlack] = {};
    if (linear) {
      std::memcpy(scales, p.scales + row * columns + first / kVec, static_cast<size_t>(count / kVec));
    } else {
      read_swizzled(p.scales, row, first / kVec, count / kVec, columns, scales);
    }
    kernel(p.codes + row * p.codes_stride + first / 2, scales, count, global_scale,
           element_at(p.output, p.output_dtype, p.output_stride, row, first));
  });
}

void global_scale(fp4aot_global_scale_params const& p) {
  auto const kernel = kernels().finite_amax_bits[p.input_dtype - 1];
  std::atomic<int32_t> largest{0};
  for_each_piece(p.rows, p.k, kColumnChunk, [&](int64_t row, int64_t first, int64_t count) {
    int32_t const amax = kernel(element_at(p.input, p.input_dtype, p.input_stride, row, first), count);
    int32_t seen = largest.load(std::memory_order_relaxed);
    while (amax > seen && !largest.compare_exchange_weak(seen, amax, std::memory_order_relaxed)) {
    }
  });
  *p.global_scale = nvfp4_global_scale_of(bits_float(static_cast<uint32_t>(largest.load(std::memory_order_relaxed))));
}

}  // namespace
}  // namespace fp4aot::cpu

namespace fp4aot {

FP4AOT_CPU_SLOT(quantize_nvfp4, fp4aot_quantize_params, cpu::quantize<Format::kNvfp4>)
FP4AOT_CPU_SLOT(quantize_mxfp4, fp4aot_quantize_params, cpu::quantize<Format::kMxfp4>)
FP4AOT_CPU_SLOT(silu_mul_quantize_nvfp4, fp4aot_quantize_params, cpu::silu_mul_quantize<Format::kNvfp4>)
FP4AOT_CPU_SLOT(silu_mul_quantize_mxfp4, fp4aot_quantize_params, cpu::silu_mul_quantize<Format::kMxfp4>)
FP4AOT_CPU_SLOT(rmsnorm_quantize_nvfp4, fp4aot_quantize_params, cpu::rmsnorm_quantize)
FP4AOT_CPU_SLOT(dequantize_nvfp4, fp4aot_dequantize_params, cpu::dequantize<Format::kNvfp4>)
FP4AOT_CPU_SLOT(dequantize_mxfp4, fp4aot_dequantize_params, cpu::dequantize<Format::kMxfp4>)
FP4AOT_CPU_SLOT(nvfp4_global_scale, fp4aot_global_scale_params, cpu::global_scale)

}  // namespace fp4aot
