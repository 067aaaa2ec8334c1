// kernels/gemm/tile_schedule.h's divisions for test_tile_divisors.py.
#include "kernels/gemm/tile_schedule.h"

extern "C" int32_t quotient(int32_t x, int32_t divisor) { return fp4aot::Divisor(divisor)(x); }

// The schedule of a product whose tiles may be cut: 0 if every shared step belongs to one cluster, and a cluster helps with at
// most one tile and owns at most one that others help with; else what is wrong. -1: no tile is shared.
extern "C" int cut_schedule_fault(int64_t m, int64_t n, int64_t k, int tokens, int sms) {
  using namespace fp4aot;
  TileSchedule const s = schedule_tiles(m, n, k, tokens, true, sms);
  if (s.whole == s.tiles) return -1;
  TileDivisors const by(s, tokens);
  int32_t const shared = (s.tiles - s.whole) * s.steps;
  if (s.whole % s.clusters != 0 || s.range_begin(0) != 0 || s.range_begin(s.clusters) != shared) return 1;
  for (int32_t cluster = 0; cluster < s.clusters; ++cluster) {
    int32_t const begin = s.range_begin(cluster), end = s.range_begin(cluster + 1);
    int parts[2] = {};  // of tiles whose first steps are another's; of tiles whose last steps are
    for (int32_t step = begin; step < end;) {
      int32_t const tile = by.steps(step), next = std::min(end, (tile + 1) * s.steps);
      if (step > tile * s.steps) ++parts[0];
      if (step == tile * s.steps && next < (tile + 1) * s.steps) ++parts[1];
      if (by.cluster_of(s, step) != cluster || by.cluster_of(s, next - 1) != cluster) return 2;
      step = next;
    }
    if (parts[0] > 1 || parts[1] > 1) return 3;
  }
  return 0;
}
