// Sizes that the cpu image's kernels and loops use. Numbers were chosen by timing on 2 cores of a Zen 3 (512 KiB of L2
// a core); none of them changes a result except kKBlock, the length of a fresh accumulation.
#ifndef FP4AOT_IMAGES_CPU_POLICY_H_
#define FP4AOT_IMAGES_CPU_POLICY_H_

#include <cstdint>

namespace fp4aot::cpu {

// Quantising and dequantising: elements a row kernel is given at once (a multiple of 4 scales of either format), and
// how many elements are worth an item of parallel work.
constexpr int64_t kColumnChunk = 4096;
constexpr int64_t kElementsPerItem = 32768;
constexpr int64_t kScaleBytesPerItem = 65536;

// GEMM, blocked: an item of work is a tile of D of up to kMSuper x kNTile. For each kKBlock of K, kNTile rows of B are
// decoded into panels once, kMBlock rows of A at a time.
constexpr int64_t kKBlock = 256;
constexpr int64_t kMBlock = 96;   // a multiple of every ISA's tile rows (6, 12, 3)
constexpr int64_t kMSuper = 576;  // a multiple of kMBlock
constexpr int64_t kNTile = 256;   // a multiple of every ISA's tile columns (16, 32)
constexpr int64_t kNTileMin = 64;

// GEMM, streaming: up to kStreamRows rows of A stay in L1 as integers while each row of B is decoded once, in
// registers.
constexpr int64_t kStreamRows = 8;
constexpr int64_t kStreamKBlock = 1024;
constexpr int64_t kStreamColumns = 512;  // of D an item, and the least
constexpr int64_t kStreamColumnsMin = 128;

// Below this many multiply-adds waking a thread costs more than it saves.
constexpr int64_t kSerialProducts = int64_t{1} << 19;

}  // namespace fp4aot::cpu

#endif
