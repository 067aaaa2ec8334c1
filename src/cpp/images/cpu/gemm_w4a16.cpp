// W4A16 matrix products, and the preparing of their weights.
#include <algorithm>
#include <cstring>

#include "fp4aot/w4a16_layout.h"
#include "images/cpu/gemm_work.h"
#include "images/cpu/kernel_table.h"
#include "images/cpu/slot.h"
#include "images/cpu/thread_pool.h"

namespace fp4aot::cpu {
namespace {

// Items and blocks of k are whole tiles of prepared weights.
static_assert(kKBlock % kW4a16TileK == 0 && kStreamKBlock % kW4a16TileK == 0);
static_assert(kNTileMin % kW4a16TileRows == 0 && kStreamColumnsMin % kW4a16TileRows == 0);

// The scale byte of (row, column) of weights with `columns` scales a row.
uint8_t* scale_at(fp4aot_w4a16_weights_params const& p, int64_t row, int64_t column, int64_t columns) {
  bool const linear = p.scale_layout == FP4AOT_SCALES_LINEAR;
  return p.scales + (linear ? row * p.scales_stride + column : scale_offset(row, column, columns));
}

template <Format kFormat>
void prepare_tile(fp4aot_w4a16_weights_params const& p, int64_t row0, int64_t k0, uint8_t* tile) {
  int const rows = static_cast<int>(std::min<int64_t>(kW4a16TileRows, p.n - row0));
  int const count = static_cast<int>(std::min<int64_t>(kW4a16TileK, p.k - k0));
  uint32_t words[kW4a16CodeBytes / 4] = {};
  for (int row = 0; row < rows; ++row) {
    uint8_t const* const codes = p.codes + (row0 + row) * p.codes_stride + k0 / 2;
    for (int k = 0; k < count; k += 2) {
      words[w4a16_code_word(row, k)] |= static_cast<uint32_t>(codes[k / 2]) << 8 * w4a16_code_register(row, k);
    }
  }
  for (uint32_t& word : words) word = w4a16_pack_codes(word);
  std::memcpy(tile, words, sizeof words);

  constexpr int kVec = kVector<kFormat>;
  uint8_t scales[w4a16_scale_bytes(kFormat)] = {};
  for (int row = 0; row < rows; ++row) {
    for (int block = 0; block * kVec < count; ++block) {
      uint8_t const byte = *scale_at(p, row0 + row, k0 / kVec + block, p.k / kVec);
      scales[w4a16_scale_byte(kFormat, row, block)] = w4a16_encode_scale(kFormat, byte);
    }
  }
  std::memcpy(tile + kW4a16CodeBytes, scales, sizeof scales);
}

template <Format kFormat>
void prepare(fp4aot_w4a16_weights_params const& p) {
  parallel_for(w4a16_row_tiles(p.n), [&](int64_t row_tile) {
    for (int64_t k_tile = 0; k_tile < w4a16_k_tiles(p.k); ++k_tile) {
      prepare_tile<kFormat>(p, row_tile * kW4a16TileRows, k_tile * kW4a16TileK,
                            p.prepared + w4a16_tile_offset(kFormat, row_tile, k_tile, p.k));
    }
  });
}

template <Format kFormat>
void restore(fp4aot_w4a16_weights_params const& p) {
  constexpr int64_t kVec = kVector<kFormat>, kBlocks = kW4a16TileK / kVec;
  int64_t const columns = p.k / kVec;
  if (p.scale_layout == FP4AOT_SCALES_SWIZZLED) {
    std::memset(p.scales, 0, static_cast<size_t>(swizzled_scale_bytes(p.n, columns)));
  }
  auto const unprepare = kernels().unprepare[static_cast<int>(kFormat)];
  parallel_for(w4a16_row_tiles(p.n), [&](int64_t row_tile) {
    int64_t const row0 = row_tile * kW4a16TileRows, rows = std::min<int64_t>(kW4a16TileRows, p.n - row0);
    for (int64_t k_tile = 0; k_tile < w4a16_k_tiles(p.k); ++k_tile) {
      uint8_t codes[kW4a16CodeBytes], scales[kW4a16TileRows * kBlocks];
      unprepare(p.prepared + w4a16_tile_offset(kFormat, row_tile, k_tile, p.k), 1, codes, kW4a16TileK / 2, scales,
                kBlocks);
      int64_t const k0 = k_tile * kW4a16TileK, count = std::min<int64_t>(kW4a16TileK, p.k - k0);
      for (int64_t row = 0; row < rows; ++row) {
        std::memcpy(p.codes + (row0 + row) * p.codes_stride + k0 / 2, codes + row * (kW4a16TileK / 2),
                    static_cast<size_t>(count / 2));
        for (int64_t block = 0; block < count / kVec; ++block) {
          *scale_at(p, row0 + row, k0 / kVec + block, columns) = scales[row * kBlocks + block];
        }
      }
    }
  });
}

constexpr float unscale(Format format) {
  return format == Format::kNvfp4 ? 1.0f : 4.0f;
}  // MXFP4 is decoded 2^-2 too small

// A product being computed, the same for every item.
template <Format kFormat>
struct Product {
  static constexpr int kIndex = static_cast<int>(kFormat);
  static constexpr int64_t kVec = kVector<kFormat>;

  fp4aot_gemm_w4a16_params const& p;
  KernelTable const& kernel;
  float alpha;
  int threads;

  // Rows [row, row + rows) of A, k in [k0, k0 + valid), as floats; zero up to kc, where the weights' padding ends.
  void load(int64_t row, int64_t rows, int64_t k0, int64_t valid, int64_t kc, float* to, int64_t ld) const {
    auto const* const from = static_cast<char const*>(p.a);
    for (int64_t r = 0; r < rows; ++r) {
      int64_t const at = (row + r) * p.a_stride + k0;
      kernel.load_row[p.a_dtype - 1](from + at * element_bytes(p.a_dtype), valid, to + r * ld);
      std::fill(to + r * ld + valid, to + r * ld + kc, 0.0f);
    }
  }

  // The canonical form of `columns` rows of weights, rounded up to tiles, kc of k.
  Block restore(int64_t column, int64_t columns, int64_t k0, int64_t kc, int64_t k_block, uint8_t* codes,
                uint8_t* scales) const {
    Block const block{codes, k_block / 2, scales, k_block / kVec};
    for (int64_t c = 0; c < columns; c += kW4a16TileRows) {
      int64_t const offset = w4a16_tile_offset(kFormat, (column + c) / kW4a16TileRows, k0 / kW4a16TileK, p.k);
      kernel.unprepare[kIndex](p.prepared + offset, kc / kW4a16TileK, codes + c * block.stride, block.stride,
                               scales + c * block.scale_stride, block.scale_stride);
    }
    return block;
  }

  void store(float const* sums, int64_t ld, Region const& region, float* bias) const {
    store_tile(p, kernel, alpha, unscale(kFormat), sums, ld, region, bias);
  }
};

template <Format kFormat>
void multiply_blocked(Product<kFormat> const& product) {
  fp4aot_gemm_w4a16_params const& p = product.p;
  KernelTable const& kernel = product.kernel;
  TileSize const tile = tile_size(p.m, p.n, product.threads);
  constexpr int64_t kScales = kNTile * kKBlock / kVector<kFormat> + kScaleSlack;
  constexpr int64_t kScratch = Scratch::bytes_of<float>(kNTile * kKBlock) +
                               Scratch::bytes_of<float>(kMBlock * kKBlock) +
                               Scratch::bytes_of<float>(kMSuper * kNTile) + Scratch::bytes_of<float>(kNTile) +
                               Scratch::bytes_of<uint8_t>(kNTile * kKBlock / 2) + Scratch::bytes_of<uint8_t>(kScales);
  for_each_item(product.threads, tile.items(p.m, p.n), [&](int64_t item) {
    auto const [row, column, rows, columns] = tile.region(item, p.m, p.n);
    int64_t const padded = round_up(columns, kernel.tile_columns);
    Scratch scratch(kScratch);
    float* const panels = scratch.take<float>(kNTile * kKBlock);
    float* const a = scratch.take<float>(kMBlock * kKBlock);
    float* const sums = scratch.take<float>(kMSuper * kNTile);
    float* const bias = scratch.take<float>(kNTile);
    uint8_t* const codes = scratch.take<uint8_t>(kNTile * kKBlock / 2);
    uint8_t* const scales = scratch.take<uint8_t>(kScales);
    for (int64_t k0 = 0; k0 < p.k; k0 += kKBlock) {
      int64_t const valid = std::min(kKBlock, p.k - k0), kc = round_up(valid, kW4a16TileK);
      Block const b = product.restore(column, columns, k0, kc, kKBlock, codes, scales);
      kernel.decode_panels[product.kIndex](b, columns, kc, panels);
      for (int64_t r = 0; r < rows; r += kMBlock) {
        int64_t const count = std::min(kMBlock, rows - r);
        product.load(row + r, count, k0, valid, kc, a, kKBlock);
        kernel.multiply(a, count, panels, padded, kc, k0 == 0, sums + r * padded, padded);
      }
    }
    product.store(sums, padded, {row, column, rows, columns}, bias);
  });
}

template <Format kFormat>
void multiply_streaming(Product<kFormat> const& product) {
  fp4aot_gemm_w4a16_params const& p = product.p;
  int64_t const width =
      std::clamp(round_up(divide_up(p.n, 2 * product.threads), kW4a16TileRows), kStreamColumnsMin, kStreamColumns);
  constexpr int64_t kScales = kW4a16TileRows * kStreamKBlock / kVector<kFormat> + kScaleSlack;
  constexpr int64_t kScratch =
      Scratch::bytes_of<float>(kStreamRows * kStreamKBlock) + Scratch::bytes_of<float>(kStreamRows * kStreamColumns) +
      Scratch::bytes_of<float>(kStreamColumns) + Scratch::bytes_of<uint8_t>(kW4a16TileRows * kStreamKBlock / 2) +
      Scratch::bytes_of<uint8_t>(kScales);
  for_each_item(product.threads, divide_up(p.n, width), [&](int64_t item) {
    int64_t const column = item * width, columns = std::min(width, p.n - column);
    Scratch scratch(kScratch);
    float* const a = scratch.take<float>(kStreamRows * kStreamKBlock);
    float* const sums = scratch.take<float>(kStreamRows * kStreamColumns);
    float* const bias = scratch.take<float>(kStreamColumns);
    uint8_t* const codes = scratch.take<uint8_t>(kW4a16TileRows * kStreamKBlock / 2);
    uint8_t* const scales = scratch.take<uint8_t>(kScales);
    std::fill(sums, sums + p.m * columns, 0.0f);
    for (int64_t k0 = 0; k0 < p.k; k0 += kStreamKBlock) {
      int64_t const valid = std::min(kStreamKBlock, p.k - k0), kc = round_up(valid, kW4a16TileK);
      product.load(0, p.m, k0, valid, kc, a, kStreamKBlock);
      for (int64_t c = 0; c < columns; c += kW4a16TileRows) {
        int64_t const count = std::min<int64_t>(kW4a16TileRows, columns - c);
        Block const b = product.restore(column + c, count, k0, kc, kStreamKBlock, codes, scales);
        product.kernel.stream_w4a16[product.kIndex][p.m - 1](a, b, count, kc, sums + c, columns);
      }
    }
    product.store(sums, columns, {0, column, p.m, columns}, bias);
  });
}

template <Format kFormat>
void gemm(fp4aot_gemm_w4a16_params const& p) {
  if (p.m == 0 || p.n == 0) return;
  Product<kFormat> const product{p, kernels(), p.alpha ? *p.alpha : 1.0f, threads_for(p.m, p.n, p.k)};
  if (p.m <= kStreamRows) {
    multiply_streaming(product);
  } else {
    multiply_blocked(product);
  }
}

}  // namespace
}  // namespace fp4aot::cpu

namespace fp4aot {

FP4AOT_CPU_SLOT(prepare_w4a16_nvfp4, fp4aot_w4a16_weights_params, cpu::prepare<Format::kNvfp4>)
FP4AOT_CPU_SLOT(prepare_w4a16_mxfp4, fp4aot_w4a16_weights_params, cpu::prepare<Format::kMxfp4>)
FP4AOT_CPU_SLOT(restore_w4a16_nvfp4, fp4aot_w4a16_weights_params, cpu::restore<Format::kNvfp4>)
FP4AOT_CPU_SLOT(restore_w4a16_mxfp4, fp4aot_w4a16_weights_params, cpu::restore<Format::kMxfp4>)
FP4AOT_CPU_SLOT(gemm_w4a16_nvfp4, fp4aot_gemm_w4a16_params, cpu::gemm<Format::kNvfp4>)
FP4AOT_CPU_SLOT(gemm_w4a16_mxfp4, fp4aot_gemm_w4a16_params, cpu::gemm<Format::kMxfp4>)

}  // namespace fp4aot
