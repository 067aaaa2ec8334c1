// Which CUTLASS kernel serves which problem: tactics, when they are valid, and the default, from an image's table of
// tiles (its policy.h).
#ifndef FP4AOT_KERNELS_GEMM_CUTLASS_RULE_H_
#define FP4AOT_KERNELS_GEMM_CUTLASS_RULE_H_

#include <algorithm>
#include <cstdint>

#include "fp4aot/formats.h"
#include "fp4aot/fp4aot.h"
#include "images/image.h"

namespace fp4aot {

enum class Store : uint8_t {
  kElement,  // any D
  kTma,      // D and its rows at multiples of 16 bytes
  kWide      // 32 bytes a store: D and its rows at multiples of 32 bytes, and whole vectors in a row
};

constexpr int64_t store_alignment(Store store) { return store == Store::kElement ? 1 : store == Store::kTma ? 16 : 32; }

// A kernel. Its D has `rows` x `columns` a tile, where rows are rows of its A: of ours, or of our B if `swap`.
struct CutlassTile {
  char const* name;
  int rows, columns;
  int step;  // values along k that are loaded at once
  bool swap;
  bool ping_pong;  // mma.sync: two groups of warps take tiles in turn
  int sms;         // multiprocessors that share a tile
  Store store;
  int step_ns;   // time of a step
  int fixed_ns;  // of filling the pipeline and storing the tile
};

// Tactics, counted from 0 (the C ABI counts from 1):
//   number = 64 * kernel + 16 * cluster + 8 * along_n + slices
// kernel: in the image's table. cluster: in kClusters, times multiprocessors that share a tile. along_n: neighbouring
// CTAs take tiles along the columns of the kernel's D, not the rows. slices: in kSlices, how many parts k is cut into;
// each writes fp32 partial sums to the workspace, which a second kernel adds in a fixed order.
constexpr int kTacticsAKernel = 64;
constexpr int kClusterChoices = 4, kSliceChoices = 8;
constexpr int kClusters[kClusterChoices][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};
constexpr int kSlices[kSliceChoices] = {1, 2, 3, 4, 6, 8, 12, 16};

struct CutlassTactic {
  int kernel;
  int cluster_m, cluster_n;  // in CTAs
  bool along_n;
  int slices;
};

// The largest problem: int32 strides of scales, and strides of a tensor map, which are less than 2^40 bytes.
constexpr int64_t kCutlassMaxK = int64_t{1} << 27;
constexpr int64_t kCutlassMaxStride = (int64_t{1} << 40) - 16;
// Of one launch: at most 32768 tiles along either dimension of a grid.
constexpr int64_t kCutlassMaxTiles = 32768;
constexpr int64_t kMaxPartialBytes = int64_t{256} << 20;

constexpr int64_t cutlass_divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows of A (of B) that one launch may have: a multiple of kScaleAtomRows.
constexpr int64_t cutlass_max_rows(CutlassTile const& tile, int64_t k, bool of_b) {
  int64_t const scales = std::max<int64_t>(1, k / kNvfp4Vector);  // the finer format
  int64_t const by_scales = (int64_t{1} << 31) / scales;
  int64_t const by_tiles = kCutlassMaxTiles * (of_b != tile.swap ? tile.columns : tile.rows);
  int64_t const rows = std::min({by_scales, by_tiles, int64_t{1} << 22});
  return std::max<int64_t>(kScaleAtomRows, rows / kScaleAtomRows * kScaleAtomRows);
}

// A size or stride of a problem that no kernel takes, and the most it may be.
struct CutlassExcess {
  char const* name;  // null: there is none
  int64_t value, most;
};

// A single row's stride may be anything: the launch replaces it.
inline CutlassExcess cutlass_excess(fp4aot_gemm_params const& p) {
  if (p.k > kCutlassMaxK) return {"k", p.k, kCutlassMaxK};
  if (p.m > 1 && p.a_stride > kCutlassMaxStride) return {"a_stride", p.a_stride, kCutlassMaxStride};
  if (p.n > 1 && p.b_stride > kCutlassMaxStride) return {"b_stride", p.b_stride, kCutlassMaxStride};
  return {nullptr, 0, 0};
}

// Policy: kTiles, kTileCount, kClusterCount (how many of kClusters its kernels take), kSms.
template <class Policy, Format kFormat>
struct CutlassRule {
  static constexpr int kTacticCount = Policy::kTileCount * kTacticsAKernel;

  static constexpr CutlassTactic tactic(int number) {
    int const kernel = number / kTacticsAKernel;
    int const cluster = number % kTacticsAKernel / 16;
    return {kernel, kClusters[cluster][0] * Policy::kTiles[kernel].sms, kClusters[cluster][1], number / 8 % 2 != 0,
            kSlices[number % kSliceChoices]};
  }

  static bool d_aligned(fp4aot_gemm_params const& p, int64_t alignment) {
    int64_t const row = p.d_stride * element_bytes(p.d_dtype);
    return reinterpret_cast<uintptr_t>(p.d) % static_cast<uintptr_t>(alignment) == 0 &&
           (p.m <= 1 || (row % alignment == 0 && row <= kCutlassMaxStride));
  }

  // Whether a kernel can store this D. Slices never ask: their partial sums are aligned.
  static bool can_store(fp4aot_gemm_params const& p, CutlassTile const& tile) {
    int64_t const alignment = store_alignment(tile.store);
    return alignment == 1 || (d_aligned(p, alignment) && p.n * element_bytes(p.d_dtype) % alignment == 0);
  }

  static bool can_slice(fp4aot_gemm_params const& p, CutlassTile const& tile, int slices) {
    int64_t const atom = int64_t{kVector<kFormat>} * kScaleAtomColumns;  // slices begin with one
    return p.k % (slices * atom) == 0 && p.k / slices >= tile.step && p.m <= cutlass_max_rows(tile, p.k, false) &&
           p.n <= cutlass_max_rows(tile, p.k, true) && p.m * p.n <= kMaxPartialBytes / 4 / slices;
  }

  static bool valid(fp4aot_gemm_params const& p, int number) {
    if (number < 0 || number >= kTacticCount) return false;
    if (number % kTacticsAKernel / 16 >= Policy::kClusterCount || cutlass_excess(p).name != nullptr) return false;
    CutlassTactic const t = tactic(number);
    CutlassTile const& tile = Policy::kTiles[t.kernel];
    if (t.slices > 1 ? !can_slice(p, tile, t.slices) : !can_store(p, tile)) return false;
    int64_t const tiles_m = cutlass_divide_up(tile.swap ? p.n : p.m, tile.rows);
    int64_t const tiles_n = cutlass_divide_up(tile.swap ? p.m : p.n, tile.columns);
    if (t.along_n && (tiles_m == 1 || tiles_n == 1)) return false;  // the same as without
    // No cluster with a CTA that has nothing to do.
    return tiles_m % (t.cluster_m / tile.sms) == 0 && tiles_n % t.cluster_n == 0;
  }

  // Nanoseconds: waves of tiles times a tile's time, and what slices add.
  static int64_t cost(fp4aot_gemm_params const& p, CutlassTile const& tile, int slices, int sms) {
    int64_t const tiles = cutlass_divide_up(tile.swap ? p.n : p.m, tile.rows) *
                          cutlass_divide_up(tile.swap ? p.m : p.n, tile.columns) * slices;
    int64_t const waves = cutlass_divide_up(tiles, std::max(1, sms / tile.sms));
    int64_t const steps = cutlass_divide_up(p.k / slices, tile.step);
    int64_t const reduce = slices > 1 ? 2000 + p.m * p.n * slices / 250 : 0;
    return waves * (steps * tile.step_ns + tile.fixed_ns) + reduce;
  }

  // Number of the cheapest kernel and slices, the first of equals. Its cluster is the smallest; tiles are taken along
  // the shorter side, so that CTAs at work together share what they load.
  // D's address is looked at last: whoever asks for the size of the workspace may not have it yet.
  static int32_t default_number(fp4aot_gemm_params const& p, int sms) {
    fp4aot_gemm_params aligned = p;
    aligned.d = nullptr;
    int32_t const best = cheapest(aligned, sms, kSliceChoices);
    return valid(p, best) ? best : cheapest(p, sms, 1);
  }

 private:
  static int32_t cheapest(fp4aot_gemm_params const& p, int sms, int slice_choices) {
    int32_t best = 0;
    int64_t best_cost = INT64_MAX;
    for (int kernel = 0; kernel < Policy::kTileCount; ++kernel) {
      CutlassTile const& tile = Policy::kTiles[kernel];
      for (int i = 0; i < slice_choices; ++i) {
        if (i == 0 ? !can_store(p, tile) : !can_slice(p, tile, kSlices[i])) continue;
        int64_t const now = cost(p, tile, kSlices[i], sms);
        if (now >= best_cost) continue;
        best_cost = now;
        int64_t const tiles_m = cutlass_divide_up(tile.swap ? p.n : p.m, tile.rows);
        int64_t const tiles_n = cutlass_divide_up(tile.swap ? p.m : p.n, tile.columns);
        best = kernel * kTacticsAKernel + (tiles_n > 1 && tiles_n < tiles_m ? 8 : 0) + i;
      }
    }
    return best;
  }
};

}  // namespace fp4aot

#endif
