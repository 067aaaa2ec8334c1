// formats.h behind C functions over arrays, so that the Python test can compare every value with the reference.
#include "fp4aot/formats.h"

using namespace fp4aot;

// Index arithmetic beyond 2^31 and 2^32 bytes, evaluated by the compiler: a wrap would not compile or not hold.
static_assert(scale_offset(0, 0, 448) == 0);
static_assert(scale_offset(97, 3, 448) == 1 * 16 + 3 * 4 + 3);
static_assert(scale_offset(int64_t{1} << 31, 0, 448) == (int64_t{1} << 31) * 448);
static_assert(scale_offset((int64_t{1} << 33) + 97, 447, 448) == (int64_t{1} << 33) * 448 + 111 * 512 + 16 + 12 + 3);
static_assert(scale_offset(131072, (int64_t{1} << 26) - 1, int64_t{1} << 26) ==
              (int64_t{1} << 17) * (int64_t{1} << 26) + ((int64_t{1} << 24) - 1) * 512 + 3);
static_assert(swizzled_scale_bytes((int64_t{1} << 31) + 1, 5) == ((int64_t{1} << 31) + 128) * 8);
static_assert(swizzled_scale_bytes(0, 5) == 0);

extern "C" {

void e2m1_encode(float const* x, uint8_t* out, int64_t count) {
  for (int64_t i = 0; i < count; i++) out[i] = e2m1_rn_satfinite(x[i]);
}

void e4m3_encode(float const* x, uint8_t* out, int64_t count) {
  for (int64_t i = 0; i < count; i++) out[i] = e4m3_rn_satfinite(x[i]);
}

void decode(int format, uint8_t const* x, float* out, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    out[i] = format == 0 ? e2m1_to_float(x[i]) : format == 1 ? e4m3_to_float(x[i]) : ue8m0_to_float(x[i]);
  }
}

void nvfp4_scale(float const* amax, float global_scale, uint8_t* byte, uint8_t* poisoned, float* r, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    BlockScale const scale = nvfp4_block_scale(amax[i], global_scale);
    byte[i] = scale.byte, poisoned[i] = scale.poisoned, r[i] = scale.r;
  }
}

void mxfp4_scale(float const* amax, int floor_rounding, uint8_t* byte, uint8_t* poisoned, float* r, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    BlockScale const scale = mxfp4_block_scale(amax[i], floor_rounding != 0);
    byte[i] = scale.byte, poisoned[i] = scale.poisoned, r[i] = scale.r;
  }
}

void global_scale_of(float const* amax, float* out, int64_t count) {
  for (int64_t i = 0; i < count; i++) out[i] = nvfp4_global_scale_of(amax[i]);
}

void offsets(int64_t rows, int64_t columns, int64_t* out) {
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t column = 0; column < columns; column++) *out++ = scale_offset(row, column, columns);
  }
}
}
