"""The C ABI written out a second time, for ctypes: what a binding in another language would do."""

import ctypes as c

import installed

OK, INVALID_ARGUMENT, UNSUPPORTED, NO_IMAGE, LOAD_FAILED, DRIVER_TOO_OLD, WORKSPACE_TOO_SMALL, LAUNCH_FAILED = range(8)
BF16, FP16, FP32 = 1, 2, 3
SWIZZLED, LINEAR = 0, 1


class Device(c.Structure):
    _fields_ = [("type", c.c_int32), ("index", c.c_int32)]


CPU, CUDA = Device(1, 0), Device(2, 0)

_COMMON = [("struct_size", c.c_size_t), ("device", Device), ("stream", c.c_void_p), ("flags", c.c_uint32)]


class Quantize(c.Structure):
    _fields_ = [
        *_COMMON,
        ("input_dtype", c.c_int32),
        ("rows", c.c_int64),
        ("k", c.c_int64),
        ("input", c.c_void_p),
        ("input_stride", c.c_int64),
        ("global_scale", c.c_void_p),
        ("codes", c.c_void_p),
        ("codes_stride", c.c_int64),
        ("scales", c.c_void_p),
        ("scales_bytes", c.c_int64),
        ("scale_layout", c.c_int32),
        ("rounding", c.c_int32),
        ("weight", c.c_void_p),
        ("residual", c.c_void_p),
        ("residual_stride", c.c_int64),
        ("epsilon", c.c_float),
    ]


class Dequantize(c.Structure):
    _fields_ = [
        *_COMMON,
        ("output_dtype", c.c_int32),
        ("rows", c.c_int64),
        ("k", c.c_int64),
        ("codes", c.c_void_p),
        ("codes_stride", c.c_int64),
        ("scales", c.c_void_p),
        ("scales_bytes", c.c_int64),
        ("scale_layout", c.c_int32),
        ("reserved", c.c_int32),
        ("global_scale", c.c_void_p),
        ("output", c.c_void_p),
        ("output_stride", c.c_int64),
    ]


class GlobalScale(c.Structure):
    _fields_ = [
        *_COMMON,
        ("input_dtype", c.c_int32),
        ("rows", c.c_int64),
        ("k", c.c_int64),
        ("input", c.c_void_p),
        ("input_stride", c.c_int64),
        ("global_scale", c.c_void_p),
        ("workspace", c.c_void_p),
        ("workspace_bytes", c.c_size_t),
    ]


class ScaleLayout(c.Structure):
    _fields_ = [
        *_COMMON,
        ("reserved", c.c_int32),
        ("rows", c.c_int64),
        ("columns", c.c_int64),
        ("linear", c.c_void_p),
        ("linear_stride", c.c_int64),
        ("swizzled", c.c_void_p),
        ("swizzled_bytes", c.c_int64),
    ]


class Gemm(c.Structure):
    _fields_ = [
        *_COMMON,
        ("tactic", c.c_int32),
        ("m", c.c_int64),
        ("n", c.c_int64),
        ("k", c.c_int64),
        ("a_codes", c.c_void_p),
        ("a_stride", c.c_int64),
        ("a_scales", c.c_void_p),
        ("a_scales_bytes", c.c_int64),
        ("b_codes", c.c_void_p),
        ("b_stride", c.c_int64),
        ("b_scales", c.c_void_p),
        ("b_scales_bytes", c.c_int64),
        ("alpha", c.c_void_p),
        ("bias", c.c_void_p),
        ("d", c.c_void_p),
        ("d_stride", c.c_int64),
        ("d_dtype", c.c_int32),
        ("bias_dtype", c.c_int32),
        ("workspace", c.c_void_p),
        ("workspace_bytes", c.c_size_t),
    ]


class W4a16Weights(c.Structure):
    _fields_ = [
        *_COMMON,
        ("scale_layout", c.c_int32),
        ("n", c.c_int64),
        ("k", c.c_int64),
        ("codes", c.c_void_p),
        ("codes_stride", c.c_int64),
        ("scales", c.c_void_p),
        ("scales_stride", c.c_int64),
        ("scales_bytes", c.c_int64),
        ("prepared", c.c_void_p),
        ("prepared_bytes", c.c_int64),
    ]


class GemmW4a16(c.Structure):
    _fields_ = [
        *_COMMON,
        ("tactic", c.c_int32),
        ("m", c.c_int64),
        ("n", c.c_int64),
        ("k", c.c_int64),
        ("a", c.c_void_p),
        ("a_stride", c.c_int64),
        ("a_dtype", c.c_int32),
        ("d_dtype", c.c_int32),
        ("prepared", c.c_void_p),
        ("prepared_bytes", c.c_int64),
        ("alpha", c.c_void_p),
        ("bias", c.c_void_p),
        ("bias_dtype", c.c_int32),
        ("reserved", c.c_int32),
        ("d", c.c_void_p),
        ("d_stride", c.c_int64),
        ("workspace", c.c_void_p),
        ("workspace_bytes", c.c_size_t),
    ]


TASK = c.CFUNCTYPE(None, c.c_void_p, c.c_int64)
RUN_TASKS = c.CFUNCTYPE(None, c.c_void_p, c.c_int64, TASK, c.c_void_p)
COUNT_THREADS = c.CFUNCTYPE(c.c_int32, c.c_void_p)


class Executor(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("run", RUN_TASKS), ("threads", COUNT_THREADS), ("user", c.c_void_p)]


# C name of the struct -> ours.
STRUCTS = {
    "fp4aot_quantize_params": Quantize,
    "fp4aot_dequantize_params": Dequantize,
    "fp4aot_global_scale_params": GlobalScale,
    "fp4aot_scale_layout_params": ScaleLayout,
    "fp4aot_gemm_params": Gemm,
    "fp4aot_w4a16_weights_params": W4a16Weights,
    "fp4aot_gemm_w4a16_params": GemmW4a16,
    "fp4aot_executor": Executor,
}

# In slot order; later ones may only follow.
OPS = {
    "quantize_nvfp4": Quantize,
    "quantize_mxfp4": Quantize,
    "silu_mul_quantize_nvfp4": Quantize,
    "silu_mul_quantize_mxfp4": Quantize,
    "rmsnorm_quantize_nvfp4": Quantize,
    "dequantize_nvfp4": Dequantize,
    "dequantize_mxfp4": Dequantize,
    "nvfp4_global_scale": GlobalScale,
    "swizzle_scales": ScaleLayout,
    "unswizzle_scales": ScaleLayout,
    "gemm_nvfp4": Gemm,
    "gemm_mxfp4": Gemm,
    # Since ABI 1.2.
    "prepare_w4a16_nvfp4": W4a16Weights,
    "prepare_w4a16_mxfp4": W4a16Weights,
    "restore_w4a16_nvfp4": W4a16Weights,
    "restore_w4a16_mxfp4": W4a16Weights,
    "gemm_w4a16_nvfp4": GemmW4a16,
    "gemm_w4a16_mxfp4": GemmW4a16,
}

FUNCTIONS = (
    "list_tactics",
    "default_tactic",
    "tactic_name",
    "last_error",
    "op_name",
    "version",
    "abi_version",
    "supports",
    "preload",
    "set_cpu_executor",
    "w4a16_prepared_bytes",
    "image_name",
    "info_json",
)


def load(path: str | None = None) -> c.CDLL:
    """libfp4aot.so (of the installed package unless a path is given), with the signatures of the header."""
    library = c.CDLL(path) if path else installed.load(installed.core_library())
    for name, struct in OPS.items():
        getattr(library, f"fp4aot_{name}").argtypes = [c.POINTER(struct)]
        getattr(library, f"fp4aot_{name}_workspace_size").argtypes = [c.POINTER(struct), c.POINTER(c.c_size_t)]
    library.fp4aot_list_tactics.argtypes = [c.c_int, c.c_void_p, c.c_void_p, c.POINTER(c.c_size_t)]
    library.fp4aot_default_tactic.argtypes = [c.c_int, c.c_void_p, c.POINTER(c.c_int32)]
    library.fp4aot_tactic_name.argtypes = [c.c_int, Device, c.c_int32, c.POINTER(c.c_char_p)]
    library.fp4aot_supports.argtypes = [c.c_int, Device]
    library.fp4aot_preload.argtypes = [Device]
    library.fp4aot_set_cpu_executor.argtypes = [c.POINTER(Executor)]
    library.fp4aot_image_name.argtypes = [Device, c.POINTER(c.c_char_p)]
    library.fp4aot_w4a16_prepared_bytes.argtypes = [c.c_int, c.c_int64, c.c_int64, c.POINTER(c.c_int64)]
    library.fp4aot_abi_version.restype = c.c_uint32
    for name in ("last_error", "op_name", "version", "info_json"):
        getattr(library, f"fp4aot_{name}").restype = c.c_char_p
    return library


def error(library: c.CDLL) -> str:
    return library.fp4aot_last_error().decode()
