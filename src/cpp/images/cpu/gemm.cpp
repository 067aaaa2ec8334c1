// W4A4 matrix products: division of D into items of work, scratch space, and the loops around the kernels.
#include <algorithm>

#include "fp4aot/formats.h"
#include "images/cpu/gemm_work.h"
#include "images/cpu/kernel_table.h"
#include "images/cpu/slot.h"
#include "kernels/scales/cpu.h"

namespace fp4aot::cpu {
namespace {

// The kernels' sums times this are those of the operands' values: MXFP4 is decoded 2^-2 too small, both operands.
template <Format kFormat>
constexpr float kUnscale = kFormat == Format::kNvfp4 ? 1.0f : 16.0f;

struct Operand {
  uint8_t const* codes;
  int64_t stride;
  uint8_t const* scales;  // swizzled
};

// A product being computed, the same for every item.
struct Product {
  fp4aot_gemm_params const& p;
  KernelTable const& kernel;
  int format;
  int64_t vec;
  float alpha, unscale;
  int threads;

  // Rows [row, row + rows), k in [k0, k0 + kc), with the scales gathered into `scales`, kc / 16 bytes
  // a row at most, and kScaleSlack.
  Block block(Operand const& x, int64_t row, int64_t rows, int64_t k0, int64_t kc, uint8_t* scales) const {
    int64_t const count = kc / vec, stride = round_up(count, kScaleAtomColumns);
    read_swizzled_block(x.scales, row, rows, k0 / vec, count, p.k / vec, scales, stride);
    return {x.codes + row * x.stride + k0 / 2, x.stride, scales, stride};
  }
  Operand a() const { return {p.a_codes, p.a_stride, p.a_scales}; }
  Operand b() const { return {p.b_codes, p.b_stride, p.b_scales}; }
};

void multiply_blocked(Product const& product) {
  fp4aot_gemm_params const& p = product.p;
  KernelTable const& kernel = product.kernel;
  TileSize const tile = tile_size(p.m, p.n, product.threads);
  constexpr int64_t kScales = std::max(kNTile, kMBlock) * kKBlock / kNvfp4Vector + kScaleSlack;
  constexpr int64_t kScratch = Scratch::bytes_of<float>(kNTile * kKBlock) +
                               Scratch::bytes_of<float>(kMBlock * kKBlock) +
                               Scratch::bytes_of<float>(kMSuper * kNTile) + Scratch::bytes_of<float>(kNTile) +
                               Scratch::bytes_of<uint8_t>(kScales);
  for_each_item(product.threads, tile.items(p.m, p.n), [&](int64_t item) {
    auto const [row, column, rows, columns] = tile.region(item, p.m, p.n);
    int64_t const padded = round_up(columns, kernel.tile_columns);
    Scratch scratch(kScratch);
    float* const panels = scratch.take<float>(kNTile * kKBlock);
    float* const a = scratch.take<float>(kMBlock * kKBlock);
    float* const sums = scratch.take<float>(kMSuper * kNTile);
    float* const bias = scratch.take<float>(kNTile);
    uint8_t* const scales = scratch.take<uint8_t>(kScales);
    for (int64_t k0 = 0; k0 < p.k; k0 += kKBlock) {
      int64_t const kc = std::min(kKBlock, p.k - k0);
      Block const b = product.block(product.b(), column, columns, k0, kc, scales);
      kernel.decode_panels[product.format](b, columns, kc, panels);
      for (int64_t r = 0; r < rows; r += kMBlock) {
        int64_t const count = std::min(kMBlock, rows - r);
        kernel.decode_rows[product.format](product.block(product.a(), row + r, count, k0, kc, scales), count, kc, a,
                                           kKBlock);
        kernel.multiply(a, count, panels, padded, kc, k0 == 0, sums + r * padded, padded);
      }
    }
    store_tile(p, kernel, product.alpha, product.unscale, sums, padded, {row, column, rows, columns}, bias);
  });
}

void multiply_streaming(Product const& product) {
  fp4aot_gemm_params const& p = product.p;
  KernelTable const& kernel = product.kernel;
  // Whole scale atoms of columns, and few enough for each thread to get some.
  int64_t const width =
      std::clamp(round_up(divide_up(p.n, 2 * product.threads), kScaleAtomRows), kStreamColumnsMin, kStreamColumns);
  constexpr int64_t kScales = kScaleAtomRows * kStreamKBlock / kNvfp4Vector + kScaleSlack;
  constexpr int64_t kScratch = Scratch::bytes_of<int8_t>(kStreamRows * kStreamKBlock) +
                               Scratch::bytes_of<float>(kStreamRows * kStreamKBlock / 4) +
                               Scratch::bytes_of<float>(kStreamRows * kStreamColumns) +
                               Scratch::bytes_of<float>(kStreamColumns) + Scratch::bytes_of<uint8_t>(kScales);
  for_each_item(product.threads, divide_up(p.n, width), [&](int64_t item) {
    int64_t const column = item * width, columns = std::min(width, p.n - column);
    Scratch scratch(kScratch);
    int8_t* const a = scratch.take<int8_t>(kStreamRows * kStreamKBlock);
    float* const a_scales = scratch.take<float>(kStreamRows * kStreamKBlock / 4);  // 8 for 32
    float* const sums = scratch.take<float>(kStreamRows * kStreamColumns);
    float* const bias = scratch.take<float>(kStreamColumns);
    uint8_t* const scales = scratch.take<uint8_t>(kScales);
    std::fill(sums, sums + p.m * columns, 0.0f);
    for (int64_t k0 = 0; k0 < p.k; k0 += kStreamKBlock) {
      int64_t const kc = std::min(kStreamKBlock, p.k - k0);
      kernel.prepare_stream[product.format](product.block(product.a(), 0, p.m, k0, kc, scales), p.m, kc, a, a_scales);
      for (int64_t c = 0; c < columns; c += kScaleAtomRows) {
        int64_t const count = std::min<int64_t>(kScaleAtomRows, columns - c);
        Block const b = product.block(product.b(), column + c, count, k0, kc, scales);
        kernel.stream[product.format][p.m - 1](a, a_scales, b, count, kc, sums + c, columns);
      }
    }
    store_tile(p, kernel, product.alpha, product.unscale / 4.0f, sums, columns, {0, column, p.m, columns}, bias);
  });
}

template <Format kFormat>
void gemm(fp4aot_gemm_params const& p) {
  if (p.m == 0 || p.n == 0) return;
  Product const product{p,
                        kernels(),
                        static_cast<int>(kFormat),
                        kVector<kFormat>,
                        p.alpha ? *p.alpha : 1.0f,
                        kUnscale<kFormat>,
                        threads_for(p.m, p.n, p.k)};
  if (p.m <= kStreamRows) {
    multiply_streaming(product);
  } else {
    multiply_blocked(product);
  }
}

}  // namespace
}  // namespace fp4aot::cpu

namespace fp4aot {

FP4AOT_CPU_SLOT(gemm_nvfp4, fp4aot_gemm_params, cpu::gemm<Format::kNvfp4>)
FP4AOT_CPU_SLOT(gemm_mxfp4, fp4aot_gemm_params, cpu::gemm<Format::kMxfp4>)

}  // namespace fp4aot
