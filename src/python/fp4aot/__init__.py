"""fp4aot: FP4 (NVFP4, MXFP4) kernels for NVIDIA GPUs, compiled ahead of time, and for the CPU.

Importing is light: no torch, no GPU, no driver is needed, nothing is initialised, and forking afterwards is fine. An op
is loaded when it is first named. If torch is already imported, ``torch.ops.fp4aot.*`` is registered at once; else when
the first op is named: to call ``torch.ops.fp4aot.*`` directly, import torch before fp4aot, or ``import fp4aot.ops``.

Shapes, dtypes and layouts of all ops: :mod:`fp4aot.ops`. A drop-in linear layer: :mod:`fp4aot.nn`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Any

from . import _fork as _fork
from .errors import (
    DriverTooOldError,
    Fp4aotError,
    LaunchError,
    LoadError,
    NoImageError,
    TorchError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from . import nn, ops
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
    from .runtime import default_tactic, image_name, info, list_tactics, preload, supports
    from .scales import nvfp4_global_scale, swizzle_scales, unswizzle_scales
    from .w4a16 import PreparedWeight, gemm_w4a16_mxfp4, gemm_w4a16_nvfp4, prepare_w4a16_weights

    __version__: str

__all__ = [
    "DriverTooOldError",
    "Fp4aotError",
    "LaunchError",
    "LoadError",
    "NoImageError",
    "PreparedWeight",
    "TorchError",
    "UnsupportedError",
    "__version__",
    "default_tactic",
    "dequantize_mxfp4",
    "dequantize_nvfp4",
    "gemm_mxfp4",
    "gemm_nvfp4",
    "gemm_w4a16_mxfp4",
    "gemm_w4a16_nvfp4",
    "image_name",
    "info",
    "list_tactics",
    "nn",
    "nvfp4_global_scale",
    "ops",
    "preload",
    "prepare_w4a16_weights",
    "quantize_mxfp4",
    "quantize_nvfp4",
    "rmsnorm_quantize_nvfp4",
    "silu_mul_quantize_mxfp4",
    "silu_mul_quantize_nvfp4",
    "supports",
    "swizzle_scales",
    "unswizzle_scales",
]

_MODULES = {"nn", "ops"}
_RUNTIME = {"default_tactic", "image_name", "info", "list_tactics", "preload", "supports"}


def __getattr__(name: str) -> Any:
    value: Any
    if name not in __all__:
        raise AttributeError(f"module 'fp4aot' has no attribute {name!r}")
    with _fork.importing:
        if name in _MODULES:
            value = importlib.import_module(f".{name}", __name__)
        elif name == "__version__":
            from . import _loader

            value = _loader.library().fp4aot_version().decode()
        else:
            value = getattr(importlib.import_module(".runtime" if name in _RUNTIME else ".ops", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))


if "torch" in sys.modules:
    # Registers torch.ops.fp4aot.*. What goes wrong here is said as an error when an op is given a tensor.
    with contextlib.suppress(Fp4aotError):
        importlib.import_module(".torch_ops", __name__)
