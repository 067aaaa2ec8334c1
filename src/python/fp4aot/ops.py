"""The ops of fp4aot. Torch tensors (CPU and CUDA) go to ``torch.ops.fp4aot.*``; NumPy arrays to the cpu image.

Conventions
    Activations are ``[*, K]``, weights ``[N, K]``; leading dimensions are rows (M = their product) and are kept in the
    outputs. The last dimension must be contiguous; row strides are honoured.

    codes
        uint8 ``[*, K/2]``: two e2m1 values in a byte, the low nibble is the even one. (Inputs may also be
        ``torch.float4_e2m1fn_x2``.)
    scales
        One byte for each block of K: 16 values for NVFP4 (``torch.float8_e4m3fn``), 32 for MXFP4
        (``torch.float8_e8m0fnu``); uint8 with the same bytes is taken everywhere, and is what NumPy gets
        (it may give ``ml_dtypes.float8_e4m3fn`` or ``float8_e8m0fnu``).
        ``scale_layout="swizzled"`` (default; what the products take): ``[roundup(M, 128), roundup(K/block, 4)]`` in
        the tensor cores' order, padding zero. ``"linear"``: ``[*, K/block]``. A buffer may be larger than needed (a
        linear NumPy array only if it has one dimension).
    global_scale (NVFP4)
        One float32 on the same device that multiplies before the block scales are taken; None means 1.
        :func:`nvfp4_global_scale` computes it. Products need ``alpha = 1 / (global_a * global_b)``, computed as
        ``1 / global_a / global_b``: the product of two global scales may overflow.
    out
        Tensors to write into instead of new ones; they are returned. They must not overlap the inputs or each other in
        memory (nor may ``residual``): for NumPy arrays that is refused, for tensors the result is undefined.
    prepared weights
        Products with 16-bit activations (W4A16) take a :class:`PreparedWeight`: codes and scales in the order that the
        kernels read, the same bytes on every device. Their alpha is ``1 / global_scale`` of the weights alone.
    pdl
        True launches with programmatic dependent launch (CUDA, compute capability 9.0 and newer; else ignored): the
        kernel may start before the one before it in the stream has ended, and waits for that one's end before it
        touches memory. Results and tactics are the same. Chains of products get faster by it (README, "Numbers").

Errors: ValueError for an argument that does not fit, RuntimeError for what the installation or the device cannot do;
each says what was given, what is allowed and the fix.

Gradients: the ops have no backward. One through ``gemm_w4a16_*`` raises, and torch warns of one through the others; a
product or ``dequantize_*`` with ``out`` refuses arguments that need one. Forward-mode derivatives are zero, as of every
op that torch has no formula of. ``torch.ops.fp4aot.*_out`` themselves tell autograd nothing of what they write, nor
refuse anything for it: call the functions of this module.
"""

from __future__ import annotations

from .products import gemm_mxfp4, gemm_nvfp4
from .quantization import (
    dequantize_mxfp4,
    dequantize_nvfp4,
    quantize_mxfp4,
    quantize_nvfp4,
    rmsnorm_quantize_nvfp4,
    silu_mul_quantize_mxfp4,
    silu_mul_quantize_nvfp4,
)
from .scales import nvfp4_global_scale, swizzle_scales, unswizzle_scales
from .w4a16 import PreparedWeight, gemm_w4a16_mxfp4, gemm_w4a16_nvfp4, prepare_w4a16_weights

__all__ = [
    "PreparedWeight",
    "dequantize_mxfp4",
    "dequantize_nvfp4",
    "gemm_mxfp4",
    "gemm_nvfp4",
    "gemm_w4a16_mxfp4",
    "gemm_w4a16_nvfp4",
    "nvfp4_global_scale",
    "prepare_w4a16_weights",
    "quantize_mxfp4",
    "quantize_nvfp4",
    "rmsnorm_quantize_nvfp4",
    "silu_mul_quantize_mxfp4",
    "silu_mul_quantize_nvfp4",
    "swizzle_scales",
    "unswizzle_scales",
]
