// What each instruction set offers to the cpu image's loops: functions on rows and tiles, without threads, strides of
// tensors or scale layouts. kernels_<isa>.cpp fills one table from the templates in kernels/*/cpu*.h.
#ifndef FP4AOT_IMAGES_CPU_KERNEL_TABLE_H_
#define FP4AOT_IMAGES_CPU_KERNEL_TABLE_H_

#include <cstdint>

#include "images/cpu/policy.h"

namespace fp4aot::cpu {

// Bytes behind the last scale that decoding kernels may read.
constexpr int64_t kScaleSlack = 16;

// How a block's scale follows from its amax: global_scale for NVFP4 (poisoned: not finite and positive), floor_rounding
// for MXFP4.
struct BlockRule {
  float global_scale;
  bool poisoned;
  bool floor_rounding;
};

// A block of a packed FP4 matrix, rows x kc: where its first row begins, with its scales gathered into rows.
struct Block {
  uint8_t const* codes;
  int64_t stride;  // bytes
  uint8_t const* scales;
  int64_t scale_stride;
};

// d[row][0..columns) += 4 * a * b^T over kc; d is [rows][ldd], columns a multiple of 8, kc at most kStreamKBlock.
// a is as prepare_stream leaves it.
using StreamKernel = void (*)(int8_t const* a, float const* a_scales, Block const& b, int64_t columns, int64_t kc,
                              float* d, int64_t ldd);

// The same for float rows of A, [rows][kStreamKBlock], and without the factor 4; columns even, kc a multiple of 32.
using StreamW4a16Kernel = void (*)(float const* a, Block const& b, int64_t columns, int64_t kc, float* d, int64_t ldd);

// d[0..n) = alpha * (unscale * c) + bias, converted once; unscale is a power of two; bias may be null.
using StoreRow = void (*)(float const* c, int64_t n, float unscale, float alpha, float const* bias, void* d);

// First index of an array: the format (0 NVFP4, 1 MXFP4); index of a type: fp4aot_dtype - 1.
struct KernelTable {
  char const* name;

  // x[0..k) -> codes[k/2], scales[k/vec].
  void (*quantize[2][3])(void const* x, int64_t k, BlockRule rule, uint8_t* codes, uint8_t* scales);
  void (*silu_mul_quantize[2][3])(void const* gate, void const* up, int64_t k, BlockRule rule, uint8_t* codes,
                                  uint8_t* scales);
  // sum of x^2 over the row, where x = input + residual (rounded to the type, written back to residual) if there is
  // one.
  double (*square_sum[3])(void const* input, void* residual, int64_t k);
  // Quantises x[i] / root * weight[i].
  void (*scale_quantize[3])(void const* x, void const* weight, float root, int64_t k, BlockRule rule, uint8_t* codes,
                            uint8_t* scales);
  // codes[k/2], scales[k/vec] and kScaleSlack more -> out[0..k); k at most kColumnChunk.
  void (*dequantize[2][3])(uint8_t const* codes, uint8_t const* scales, int64_t k, float global_scale, void* out);
  // Largest bit pattern of a finite |x| in x[0..k).
  int32_t (*finite_amax_bits[3])(void const* x, int64_t k);

  // Matrix product; MXFP4's operands are decoded 2^-2 too small. Columns of D that multiply computes at once:
  int64_t tile_columns;
  // rows x kc -> out[r * ld + k].
  void (*decode_rows[2])(Block const& a, int64_t rows, int64_t kc, float* out, int64_t ld);
  // The same of B, transposed into panels of tile_columns rows: out[panel][k][tile_columns], rows that are missing to a
  // whole panel as zeros.
  void (*decode_panels[2])(Block const& b, int64_t rows, int64_t kc, float* out);
  // c[rows][columns] (+)= a[rows][kc] * panels; a's rows are kKBlock floats apart; columns a multiple of tile_columns.
  void (*multiply)(float const* a, int64_t rows, float const* panels, int64_t columns, int64_t kc, bool first, float* c,
                   int64_t ldc);
  // rows x kc -> integers [rows][kc] and scales [rows][kc / 32][8], for stream.
  void (*prepare_stream[2])(Block const& a, int64_t rows, int64_t kc, int8_t* out, float* scales);
  StreamKernel stream[2][kStreamRows];  // by rows of A - 1
  // `count` tiles of prepared weights (w4a16_layout.h) one after another -> 16 rows of canonical codes and scale bytes.
  void (*unprepare[2])(uint8_t const* tiles, int64_t count, uint8_t* codes, int64_t stride, uint8_t* scales,
                       int64_t scale_stride);
  StreamW4a16Kernel stream_w4a16[2][kStreamRows];  // by rows of A - 1
  StoreRow store_row[3];
  void (*load_row[3])(void const* x, int64_t n, float* out);
};

extern KernelTable const kKernelsPortable, kKernelsAvx2, kKernelsAvx512;

// The table of the best instruction set that this CPU has, or of the one FP4AOT_CPU_ISA names (portable, avx2, avx512),
// if the CPU has it. The variable is read once.
KernelTable const& kernels();

}  // namespace fp4aot::cpu

#endif
