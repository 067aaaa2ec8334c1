/* fp4aot C ABI: FP4 (NVFP4, MXFP4) quantisation and matrix products, compiled ahead of time.
 *
 * Conventions
 *   A = activations [m, k], B = weights [n, k], D = [m, n]; the last dimension is contiguous. All sizes are int64.
 *   codes      two e2m1 values in a byte, the low nibble is the even k: [rows, k/2] bytes.
 *   scales     NVFP4: one e4m3 byte for each 16 values along k; MXFP4: one ue8m0 byte for each 32.
 *              FP4AOT_SCALES_LINEAR:   [rows, k/vec].
 *              FP4AOT_SCALES_SWIZZLED: 512-byte atoms of 128 rows x 4 scales (formats.h, scale_offset);
 *              the buffer is roundup(rows,128) * roundup(k/vec,4) bytes and its padding is written as zero.
 *   global_scale (NVFP4) multiplies when quantising; the product is rescaled by alpha = 1 / (global_a * global_b),
 *              best computed as 1 / global_a / global_b: global scales reach 2^100 and their product may overflow.
 *   alignment  codes 8 bytes (16 in a product), swizzled scales and workspaces 16 bytes, everything else its element.
 *   Bit-exact rules of quantisation and their edge cases are in formats.h.
 *
 * Every op is one function fp4aot_<op>(params) and one fp4aot_<op>_workspace_size(params, &bytes), listed in ops.def.
 *   - Set struct_size to sizeof(the struct) and zero-initialise the rest: zero is every optional field's default.
 *   - Work is queued on `stream` (a cudaStream_t/CUstream; ignored on the CPU, where the call returns when done).
 *     Nothing is allocated or synchronised; every call may be captured in a CUDA graph and made from any thread.
 *   - Arguments are checked before anything is queued. On failure the status says what kind of error it was and
 *     fp4aot_last_error() gives a sentence with what was given, what is allowed and what to do.
 */
#ifndef FP4AOT_FP4AOT_H_
#define FP4AOT_FP4AOT_H_

#include <stddef.h>
#include <stdint.h>

#define FP4AOT_ABI_MAJOR 1 /* changes when a struct or a slot changes its meaning */
#define FP4AOT_ABI_MINOR 2 /* changes when an op, a trailing field or a function is added */

#if defined(FP4AOT_BUILDING_CORE)
#define FP4AOT_API __attribute__((visibility("default")))
#else
#define FP4AOT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fp4aot_status {
  FP4AOT_OK = 0,
  FP4AOT_INVALID_ARGUMENT = 1,    /* a parameter is out of its allowed range, null, misaligned or inconsistent */
  FP4AOT_UNSUPPORTED = 2,         /* the chosen image has no kernel for this op */
  FP4AOT_NO_IMAGE = 3,            /* no image for this device in this installation */
  FP4AOT_LOAD_FAILED = 4,         /* an image or the driver could not be loaded, or its ABI does not match */
  FP4AOT_DRIVER_TOO_OLD = 5,      /* the driver is older than the toolkit the image was built with needs */
  FP4AOT_WORKSPACE_TOO_SMALL = 6, /* workspace_bytes is less than fp4aot_<op>_workspace_size says */
  FP4AOT_LAUNCH_FAILED = 7        /* the CUDA runtime refused a launch; the message carries its reason */
} fp4aot_status;

typedef enum fp4aot_device_type { FP4AOT_CPU = 1, FP4AOT_CUDA = 2 } fp4aot_device_type; /* DLPack's numbers */

typedef struct fp4aot_device {
  int32_t type;  /* fp4aot_device_type */
  int32_t index; /* CUDA ordinal as CUDA numbers it (after CUDA_VISIBLE_DEVICES); 0 for the CPU */
} fp4aot_device;

typedef enum fp4aot_dtype { FP4AOT_BF16 = 1, FP4AOT_FP16 = 2, FP4AOT_FP32 = 3 } fp4aot_dtype;

typedef enum fp4aot_scale_layout { FP4AOT_SCALES_SWIZZLED = 0, FP4AOT_SCALES_LINEAR = 1 } fp4aot_scale_layout;

typedef enum fp4aot_rounding {
  FP4AOT_ROUND_CEIL = 0, /* MXFP4: the smallest power of two s with amax / 6 <= s (nothing saturates) */
  FP4AOT_ROUND_FLOOR = 1 /* MXFP4, OCP MX v1.0 section 6.3: 2^(floor(log2(amax)) - 2), large values saturate */
} fp4aot_rounding;

/* Flags of every op. PDL: programmatic stream serialization; the kernel may start before its predecessor in the stream
 * has ended, and waits before it touches memory (sm_90 and later; else ignored). Results and tactics are the same. */
enum { FP4AOT_FLAG_PDL = 1u };

/* quantize_nvfp4, quantize_mxfp4: input [rows, k] -> codes, scales.
 * silu_mul_quantize_*: input [rows, 2k], the gate in columns 0..k-1; quantises silu(gate) * up, where
 * silu(x) = x / (1 + exp(-x)); computed in fp32 and rounded to the input type first.
 * rmsnorm_quantize_nvfp4: x = input (+ residual; the sum, rounded to the input type, is also written back to residual);
 * quantises x / sqrt(mean(x^2) + epsilon) * weight, computed in fp32 and rounded to the input type first.
 * k is a multiple of the scale vector: 16 (NVFP4), 32 (MXFP4). rows may be 0. */
typedef struct fp4aot_quantize_params {
  size_t struct_size;
  fp4aot_device device;
  void* stream;
  uint32_t flags;
  int32_t input_dtype; /* fp4aot_dtype */
  int64_t rows, k;
  void const* input;
  int64_t input_stride;      /* elements from row to row, >= its columns */
  float const* global_scale; /* NVFP4: one float on the device, finite and > 0; NULL means 1. MXFP4: NULL */
  uint8_t* codes;            /* [rows, k/2] */
  int64_t codes_stride;      /* bytes from row to row, >= k/2 and a multiple of 8 */
  uint8_t* scales;           /* in scale_layout */
  int64_t scales_bytes;      /* size of the buffer: at least what the layout needs; bytes beyond are not touched */
  int32_t scale_layout;      /* fp4aot_scale_layout */
  int32_t rounding;          /* fp4aot_rounding, MXFP4 only */
  /* rmsnorm_quantize_* only, else NULL and 0: */
  void const* weight;      /* [k], input dtype */
  void* residual;          /* [rows, k], input dtype, updated in place; or NULL */
  int64_t residual_stride; /* elements */
  float epsilon;           /* >= 0, finite */
} fp4aot_quantize_params;

/* dequantize_nvfp4, dequantize_mxfp4: output[r, c] = e2m1(code) * scale / global_scale, in fp32, rounded once. */
typedef struct fp4aot_dequantize_params {
  size_t struct_size;
  fp4aot_device device;
  void* stream;
  uint32_t flags;
  int32_t output_dtype; /* fp4aot_dtype */
  int64_t rows, k;
  uint8_t const* codes;
  int64_t codes_stride; /* bytes */
  uint8_t const* scales;
  int64_t scales_bytes;
  int32_t scale_layout;
  int32_t reserved;          /* 0 */
  float const* global_scale; /* NVFP4: one float on the device; NULL means 1. MXFP4: NULL */
  void* output;              /* [rows, k] */
  int64_t output_stride;     /* elements */
} fp4aot_dequantize_params;

/* nvfp4_global_scale: *global_scale = 448 * 6 / amax(|input|) over the finite values, clamped to [2^-100, 2^100];
 * 1 if no finite value is non-zero. Stays on the device. Needs a workspace. */
typedef struct fp4aot_global_scale_params {
  size_t struct_size;
  fp4aot_device device;
  void* stream;
  uint32_t flags;
  int32_t input_dtype;
  int64_t rows, k; /* any k >= 1 */
  void const* input;
  int64_t input_stride; /* elements */
  float* global_scale;  /* one float on the device, written */
  void* workspace;
  size_t workspace_bytes;
} fp4aot_global_scale_params;

/* swizzle_scales: linear [rows, columns] -> swizzled, padding zero. unswizzle_scales: the inverse.
 * columns = k / vec scale bytes a row, any number >= 1. Works for e4m3 and ue8m0 alike. */
typedef struct fp4aot_scale_layout_params {
  size_t struct_size;
  fp4aot_device device;
  void* stream;
  uint32_t flags;
  int32_t reserved; /* 0 */
  int64_t rows, columns;
  uint8_t* linear;       /* input of swizzle_scales, output of unswizzle_scales */
  int64_t linear_stride; /* bytes from row to row, >= columns */
  uint8_t* swizzled;
  int64_t swizzled_bytes; /* size of the buffer */
} fp4aot_scale_layout_params;

/* gemm_nvfp4, gemm_mxfp4 (W4A4): d[i, j] = alpha * sum_k a[i, k] * b[j, k] + bias[j], accumulated in fp32, alpha and
 * bias applied in fp32, rounded once to d_dtype. k a multiple of 32, n of 8; m may be 0. Scales are swizzled.
 * a_codes, b_codes and their strides are multiples of 16 bytes, the scale buffers' addresses too.
 * Scales beyond the last row may be anything. Where k/vec is no multiple of 4, the bytes beyond it in a used row must be
 * zero, as every function here writes them: Blackwell's tensor cores multiply them by codes of zero, and NaN * 0 is NaN.
 * FP4AOT_CHECK_SCALES=1 in the environment looks for others (debugging). */
typedef struct fp4aot_gemm_params {
  size_t struct_size;
  fp4aot_device device;
  void* stream;
  uint32_t flags;
  int32_t tactic; /* FP4AOT_TACTIC_DEFAULT or a number from fp4aot_list_tactics */
  int64_t m, n, k;
  uint8_t const* a_codes;
  int64_t a_stride; /* bytes */
  uint8_t const* a_scales;
  int64_t a_scales_bytes;
  uint8_t const* b_codes;
  int64_t b_stride; /* bytes */
  uint8_t const* b_scales;
  int64_t b_scales_bytes;
  float const* alpha; /* one float on the device, or NULL for 1 */
  void const* bias;   /* [n] on the device, or NULL */
  void* d;            /* [m, n] */
  int64_t d_stride;   /* elements, >= n */
  int32_t d_dtype;    /* fp4aot_dtype */
  int32_t bias_dtype; /* fp4aot_dtype */
  void* workspace;    /* 16-byte aligned; may be NULL when fp4aot_gemm_*_workspace_size gives 0 */
  size_t workspace_bytes;
} fp4aot_gemm_params;

/* Weights of gemm_w4a16_*, canonical and prepared. Since ABI 1.2.
 * prepare_w4a16_nvfp4, prepare_w4a16_mxfp4: reads codes [n, k/2] and scales, writes prepared.
 * restore_w4a16_nvfp4, restore_w4a16_mxfp4: the inverse, bit for bit; swizzled padding is written as zero.
 * n is a multiple of 8, k of 16 (NVFP4) or 32 (MXFP4). The prepared layout (w4a16_layout.h) is the same on every device.
 * prepared is 16-byte aligned and prepared_bytes at least what fp4aot_w4a16_prepared_bytes says: codes and scales as
 * they are, with n padded to 16 and k to 64. An e4m3 scale with bit 7 set is invalid and becomes NaN. */
typedef struct fp4aot_w4a16_weights_params {
  size_t struct_size;
  fp4aot_device device;
  void* stream;
  uint32_t flags;
  int32_t scale_layout; /* fp4aot_scale_layout */
  int64_t n, k;
  uint8_t* codes;         /* read by prepare_*, written by restore_* */
  int64_t codes_stride;   /* bytes, >= k/2, a multiple of 8 */
  uint8_t* scales;        /* read by prepare_*, written by restore_* */
  int64_t scales_stride;  /* linear: bytes from row to row, >= k/vec; swizzled: 0 */
  int64_t scales_bytes;   /* size of the buffer, which may be larger than needed */
  uint8_t* prepared;      /* written by prepare_*, read by restore_* */
  int64_t prepared_bytes; /* size of the buffer */
} fp4aot_w4a16_weights_params;

/* gemm_w4a16_nvfp4, gemm_w4a16_mxfp4 (W4A16): d[i, j] = alpha * sum_k a[i, k] * w[j, k] + bias[j] with w the prepared
 * weights' values, accumulated in fp32, alpha and bias applied in fp32, rounded once to d_dtype. alpha is
 * 1 / global_scale of the weights (NVFP4). Values of a are exact: an infinity or a NaN in a row gives what IEEE
 * arithmetic gives, and a NaN scale makes its row of the weights, so a column of d, NaN. n is a multiple of 8, k of 16
 * (NVFP4) or 32 (MXFP4); m may be 0. Since ABI 1.2. */
typedef struct fp4aot_gemm_w4a16_params {
  size_t struct_size;
  fp4aot_device device;
  void* stream;
  uint32_t flags;
  int32_t tactic; /* FP4AOT_TACTIC_DEFAULT or a number from fp4aot_list_tactics */
  int64_t m, n, k;
  void const* a;           /* [m, k], 16-byte aligned */
  int64_t a_stride;        /* elements, >= k, a multiple of 8 */
  int32_t a_dtype;         /* FP4AOT_BF16 or FP4AOT_FP16 */
  int32_t d_dtype;         /* fp4aot_dtype */
  uint8_t const* prepared; /* 16-byte aligned */
  int64_t prepared_bytes;  /* size of the buffer */
  float const* alpha;      /* one float on the device, or NULL for 1 */
  void const* bias;        /* [n] on the device, or NULL */
  int32_t bias_dtype;      /* fp4aot_dtype */
  int32_t reserved;        /* 0 */
  void* d;                 /* [m, n] */
  int64_t d_stride;        /* elements, >= n */
  void* workspace;         /* 16-byte aligned; may be NULL when fp4aot_gemm_w4a16_*_workspace_size gives 0 */
  size_t workspace_bytes;
} fp4aot_gemm_w4a16_params;

#define FP4AOT_TACTIC_DEFAULT 0

/* One pair of functions for each op. workspace_size checks sizes, not pointers, and wants the tactic of the call. */
#define FP4AOT_OP(name, params)                          \
  FP4AOT_API fp4aot_status fp4aot_##name(const params*); \
  FP4AOT_API fp4aot_status fp4aot_##name##_workspace_size(const params*, size_t* bytes);
#include "fp4aot/ops.def"
#undef FP4AOT_OP

/* The op's slot number, for the functions below. */
typedef enum fp4aot_op {
#define FP4AOT_OP(name, params) FP4AOT_OP_##name,
#include "fp4aot/ops.def"
#undef FP4AOT_OP
  FP4AOT_OP_COUNT
} fp4aot_op;

/* Tactics: every kernel x run-time choice of an op has a number from 1 on (stable within an ABI major) and a readable
 * name; 0 lets the image choose.
 * fp4aot_list_tactics writes at most *count numbers that are valid for these params and sets *count to how many are;
 * params is the op's struct (pointers in it may be NULL). Ops without a choice have none. Both
 * functions refuse a problem that the op itself would refuse as too large for every kernel. */
FP4AOT_API fp4aot_status fp4aot_list_tactics(fp4aot_op op, void const* params, int32_t* tactics, size_t* count);
FP4AOT_API fp4aot_status fp4aot_default_tactic(fp4aot_op op, void const* params, int32_t* tactic);
FP4AOT_API fp4aot_status fp4aot_tactic_name(fp4aot_op op, fp4aot_device device, int32_t tactic, char const** name);

/* Size of prepared weights [n, k]; op is any op with w4a16 in its name and says the format. Since ABI 1.2. */
FP4AOT_API fp4aot_status fp4aot_w4a16_prepared_bytes(fp4aot_op op, int64_t n, int64_t k, int64_t* bytes);

/* What the last failed call of this thread had to say; "" after none. Valid until the thread's next failing call. */
FP4AOT_API const char* fp4aot_last_error(void);

FP4AOT_API const char* fp4aot_op_name(fp4aot_op op); /* NULL if out of range */
FP4AOT_API const char* fp4aot_version(void);         /* "0.1.0" */
FP4AOT_API uint32_t fp4aot_abi_version(void);        /* major << 16 | minor of the library loaded */

/* 1 if the image that serves this device has a kernel for the op, 0 if not or if no image serves the device (then
 * fp4aot_last_error says why). Binds the device: do not call before a fork if a CUDA device is named. */
FP4AOT_API int fp4aot_supports(fp4aot_op op, fp4aot_device device);

/* Binds the device now: loads its image, so that no first call pays for it (for instance before a graph capture).
 * Lazy loading of each kernel is forced too. */
FP4AOT_API fp4aot_status fp4aot_preload(fp4aot_device device);

/* The image bound to this device ("sm90a", "cpu"), binding it if need be. */
FP4AOT_API fp4aot_status fp4aot_image_name(fp4aot_device device, char const** name);

/* Threads for CPU work. By default the cpu image starts its own, as many as this process may use (FP4AOT_NUM_THREADS,
 * when set, says how many and overrides any executor). A program that has a pool gives it here, so that two pools do not
 * fight for the same cores; fp4aot's torch ops give torch's.
 *   run      calls task(context, i) once for each i in [0, count), on any threads, and returns when all are done. It may
 *            be called by several threads at once.
 *   threads  how many tasks can run at once, asked before each run; below 1 counts as 1.
 * fp4aot_set_cpu_executor copies the struct; NULL gives the image its own threads back. What it points to must stay valid
 * as long as the process. A forked child has the image's own threads;
 * whoever sets an executor in a child answers for its threads. Since ABI 1.1. */
typedef void (*fp4aot_task)(void* context, int64_t index);
typedef void (*fp4aot_run_tasks)(void* user, int64_t count, fp4aot_task task, void* context);
typedef int32_t (*fp4aot_count_threads)(void* user);
typedef struct fp4aot_executor {
  size_t struct_size;
  fp4aot_run_tasks run;
  fp4aot_count_threads threads;
  void* user;
} fp4aot_executor;

FP4AOT_API fp4aot_status fp4aot_set_cpu_executor(fp4aot_executor const* executor);

/* JSON about images, devices as NVML sees them, drivers, ops, and why an image was or was not chosen. Creates no CUDA
 * context and does not call cuInit. Owned by the library, valid until this thread's next call. */
FP4AOT_API const char* fp4aot_info_json(void);

#ifdef __cplusplus
}
#endif

#endif
