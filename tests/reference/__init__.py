"""A slow and obvious reference of fp4aot's formats and ops, in numpy and fp64.

It shares no code with the library: values are looked up in tables written out here, rounding is a search for the
nearest table entry, layouts are index arithmetic on whole atoms, products are fp64. Tests compare bytes with it.

Values are passed as float32 arrays; a bf16 or fp16 tensor is widened first (exact).
"""

from .formats import (
    E2M1,
    E4M3,
    UE8M0,
    decode_e2m1,
    decode_e4m3,
    decode_ue8m0,
    encode_e2m1,
    encode_e4m3,
    pack_codes,
    round_to,
    unpack_codes,
)
from .gemm import assert_product, dequantize, product
from .layouts import offset, swizzle, swizzled_shape, unswizzle
from .quantize import VECTOR, assert_codes_close, nvfp4_global_scale, quantize, rmsnorm, silu_mul
from .w4a16 import prepare as prepare_w4a16

__all__ = [
    "E2M1",
    "E4M3",
    "UE8M0",
    "VECTOR",
    "assert_codes_close",
    "assert_product",
    "decode_e2m1",
    "decode_e4m3",
    "decode_ue8m0",
    "dequantize",
    "encode_e2m1",
    "encode_e4m3",
    "nvfp4_global_scale",
    "offset",
    "pack_codes",
    "prepare_w4a16",
    "product",
    "quantize",
    "rmsnorm",
    "round_to",
    "silu_mul",
    "swizzle",
    "swizzled_shape",
    "unpack_codes",
    "unswizzle",
]
