// How wgmma_stream_cut.cuh shares its work out, for host and device.
#ifndef FP4AOT_KERNELS_GEMM_STREAM_SCHEDULE_H_
#define FP4AOT_KERNELS_GEMM_STREAM_SCHEDULE_H_

#include "kernels/gemm/tile_schedule.h"

namespace fp4aot {

constexpr int kStreamStep = 128;      // values along k
constexpr int kStreamWarps = 16;      // that multiply, each 16 rows of weights and its group's steps
constexpr int kStreamMaxK = 1 << 22;  // so that all rounds of a launch are counted in 31 bits
constexpr int kStreamMaxParts = 2;    // of tiles that a CTA shares with others: its first and its last

// Tiles, one block of tokens after the other and then the next rows, have `rounds` rounds along k each. A CTA has `range`
// consecutive ones of them all, whichever tiles they belong to.
struct StreamSchedule {
  int32_t rounds;  // of a tile
  int32_t range;   // of a CTA; the last one may have fewer
  int32_t tiles, token_blocks;

  FP4AOT_HOST_DEVICE int32_t total() const { return tiles * rounds; }
  FP4AOT_HOST_DEVICE int32_t ctas() const { return (total() + range - 1) / range; }
};

// Tiles of rows x tokens, whose warps share k in 256 / rows steps a round. sms: multiprocessors of the device.
constexpr StreamSchedule stream_schedule(int64_t m, int64_t n, int64_t k, int rows, int tokens, int sms) {
  int64_t const depth = 256 / rows, whole_rows = rows > kScaleAtomRows ? rows : kScaleAtomRows;
  StreamSchedule s = {};
  s.rounds = static_cast<int32_t>((k + kStreamStep * depth - 1) / (kStreamStep * depth));
  s.token_blocks = static_cast<int32_t>((m + tokens - 1) / tokens);
  // All tiles of a row block, whose groups of 64 rows are not neighbours.
  s.tiles = static_cast<int32_t>((n + whole_rows - 1) / whole_rows * (whole_rows / rows)) * s.token_blocks;
  s.range = (s.tiles * s.rounds + sms - 1) / sms;
  return s;
}

}  // namespace fp4aot

#endif
