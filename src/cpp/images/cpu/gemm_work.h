// What the matrix products of the cpu image share: scratch space, the division of D into tiles, and the end of a tile.
#ifndef FP4AOT_IMAGES_CPU_GEMM_WORK_H_
#define FP4AOT_IMAGES_CPU_GEMM_WORK_H_

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "fp4aot/formats.h"
#include "images/cpu/kernel_table.h"
#include "images/cpu/thread_pool.h"
#include "images/image.h"

namespace fp4aot::cpu {

// Each thread's own scratch space, of a size that the policy bounds, whatever the product's is.
class Scratch {
 public:
  explicit Scratch(int64_t bytes) {
    struct Free {
      void operator()(char* p) const { std::free(p); }
    };
    thread_local std::unique_ptr<char, Free> memory;
    thread_local int64_t size = 0;
    if (size < bytes) {
      memory.reset();
      size = 0;
      memory.reset(static_cast<char*>(std::aligned_alloc(kAlignment, static_cast<size_t>(bytes))));
      if (!memory) throw std::bad_alloc();
      size = bytes;
    }
    next_ = memory.get();
  }

  template <class T>
  T* take(int64_t count) {
    T* const taken = reinterpret_cast<T*>(next_);
    next_ += bytes_of<T>(count);
    return taken;
  }

  template <class T>
  static constexpr int64_t bytes_of(int64_t count) {
    return round_up(count * int64_t{sizeof(T)}, kAlignment);
  }

 private:
  static constexpr int64_t kAlignment = 64;
  char* next_;
};

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Region {
  int64_t row, column, rows, columns;
};

// Tiles of D of up to kMSuper x kNTile, numbered down its columns.
struct TileSize {
  int64_t height, width;

  int64_t items(int64_t m, int64_t n) const { return divide_up(m, height) * divide_up(n, width); }
  Region region(int64_t item, int64_t m, int64_t n) const {
    int64_t const tiles_down = divide_up(m, height);
    int64_t const row = item % tiles_down * height, column = item / tiles_down * width;
    return {row, column, std::min(height, m - row), std::min(width, n - column)};
  }
};

// Equal heights; then smaller tiles, until there are a few for each thread.
inline TileSize tile_size(int64_t m, int64_t n, int threads) {
  TileSize tile{round_up(divide_up(m, divide_up(m, kMSuper)), 4), kNTile};
  while (threads > 1 && tile.width > kNTileMin && tile.items(m, n) < 4 * threads) tile.width /= 2;
  while (threads > 1 && tile.height > kMBlock && tile.items(m, n) < 2 * threads) {
    tile.height = round_up(tile.height / 2, 4);
  }
  return tile;
}

inline int threads_for(int64_t m, int64_t n, int64_t k) {
  // In floating point, because the number may be beyond int64.
  bool const serial = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < kSerialProducts;
  return serial ? 1 : thread_count();
}

template <class Body>
void for_each_item(int threads, int64_t items, Body const& body) {
  if (threads > 1) return parallel_for(items, body);
  for (int64_t item = 0; item < items; ++item) body(item);
}

// Writes a region of D from fp32 sums; bias_scratch has room for its columns.
template <class Params>
void store_tile(Params const& p, KernelTable const& kernel, float alpha, float unscale, float const* sums, int64_t ld,
                Region const& region, float* bias_scratch) {
  int64_t const size = element_bytes(p.d_dtype), bias_size = element_bytes(p.bias_dtype);
  float const* bias = nullptr;
  if (p.bias != nullptr) {
    kernel.load_row[p.bias_dtype - 1](static_cast<char const*>(p.bias) + region.column * bias_size, region.columns,
                                      bias_scratch);
    bias = bias_scratch;
  }
  StoreRow const store_row = kernel.store_row[p.d_dtype - 1];
  for (int64_t r = 0; r < region.rows; ++r) {
    void* const to = static_cast<char*>(p.d) + ((region.row + r) * p.d_stride + region.column) * size;
    store_row(sums + r * ld, region.columns, unscale, alpha, bias, to);
  }
}

}  // namespace fp4aot::cpu

#endif
