"""Products of 16-bit activations and FP4 weights (W4A16). Shapes, dtypes and layouts: :mod:`fp4aot.ops`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Literal

from . import numpy_w4a16
from ._backend import (
    DEFAULT_TACTIC,
    LAYOUTS,
    Array,
    ScaleLayout,
    Tensor,
    argument_error,
    at_16_bytes,
    code,
    numpy_backend,
    torch_backend,
)
from ._loader import integer, is_boolean
from ._w4a16_scales import refuse_negative, refuse_swizzled_as_linear, refused_swizzled
from ._wording import reworded

Format = Literal["nvfp4", "mxfp4"]
_VECTOR = {"nvfp4": 16, "mxfp4": 32}


def _prepared_bytes(format: str, n: int, k: int) -> int:
    return -(-n // 16) * -(-k // 64) * (512 + 1024 // _VECTOR[format])


def _numpy_backend(first: object, pdl: object = False) -> Any:
    numpy_backend(first, pdl)  # raises for a tensor without torch ops
    return numpy_w4a16


class PreparedWeight(Generic[Array]):
    """FP4 weights ``[N, K]`` in the order that :func:`gemm_w4a16_nvfp4` and :func:`gemm_w4a16_mxfp4` read.

    Made by :func:`prepare_w4a16_weights`. The bytes are the same on every device: ``data`` (uint8, one dimension) may
    be prepared and saved anywhere and used anywhere. N is padded to a multiple of 16 and K to one of 64; nothing else
    is added to the canonical codes and scales.

    Attributes: ``data``, ``format`` ("nvfp4" or "mxfp4"), ``n``, ``k``.
    """

    def __init__(self, data: Array, n: int, k: int, format: Format) -> None:
        """Wraps prepared bytes. To load saved ones use :meth:`from_state_dict`."""
        if not isinstance(format, str) or format not in _VECTOR:
            raise ValueError(f"PreparedWeight: format is {format!r}; it must be 'nvfp4' or 'mxfp4'.")
        n, k = integer("PreparedWeight", "n", n), integer("PreparedWeight", "k", k)
        if n < 8 or n % 8 or k < _VECTOR[format] or k % _VECTOR[format]:
            raise ValueError(
                f"PreparedWeight: shape is ({n}, {k}); N is a positive multiple of 8 and K of {_VECTOR[format]} "
                f"({format})."
            )
        _check_kind(data)
        size = _prepared_bytes(format, n, k)
        if data.ndim != 1 or not str(data.dtype).endswith("uint8") or data.shape[0] != size:
            raise ValueError(
                f"PreparedWeight: data is {data.dtype} of shape {tuple(data.shape)}; {format} weights of N = {n}, "
                f"K = {k} are uint8 of shape ({size},)."
            )
        self.data: Array = data
        self.n, self.k, self.format = n, k, format

    @property
    def nbytes(self) -> int:
        """Bytes of ``data``."""
        return _prepared_bytes(self.format, self.n, self.k)

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return self.n, self.k

    def to(self, device: Any) -> PreparedWeight[Array]:
        """The same weights on another device (tensors only)."""
        if not isinstance(self.data, Tensor):
            raise TypeError("PreparedWeight.to: the data is a NumPy array. Prepare torch tensors, or torch.from_numpy.")
        return PreparedWeight(self.data.to(device), self.n, self.k, self.format)  # type: ignore[attr-defined]

    def restore(self, *, scale_layout: ScaleLayout = "swizzled") -> tuple[Array, Array]:
        """``(codes, scales)`` as they were prepared, bit for bit; padding of swizzled scales is zero."""
        layout, op = code(LAYOUTS, "scale_layout", scale_layout), f"restore_w4a16_{self.format}"
        if not isinstance(self.data, Tensor):
            return _numpy_backend(self.data).restore(op, self.data, self.n, self.k, layout)  # type: ignore[no-any-return]
        return getattr(torch_backend(), op)(self.data, self.n, self.k, layout)  # type: ignore[no-any-return]

    def state_dict(self) -> dict[str, Array]:
        """``{"data": uint8 [bytes], "shape": int64 [2] = (N, K)}``: what safetensors and torch.save take. The format
        follows from the sizes."""
        shape: Any
        if isinstance(self.data, Tensor):
            import torch

            shape = torch.tensor([self.n, self.k])
        else:
            import numpy as np

            shape = np.array([self.n, self.k], np.int64)
        return {"data": self.data, "shape": shape}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Array]) -> PreparedWeight[Array]:
        """The inverse of :meth:`state_dict`. Data that is strided or not 16-byte aligned (a mapped file) is copied."""
        try:
            data, shape = state["data"], state["shape"]
        except (KeyError, TypeError):
            given = f"state is a {type(state).__module__}.{type(state).__name__}"
            if isinstance(state, Mapping):
                given = f"state has the keys {sorted(map(str, state))}" if state else "state is empty"
            raise ValueError(
                f"PreparedWeight.from_state_dict: {given}; it must be a mapping with 'data' and 'shape', as "
                "PreparedWeight.state_dict() gives."
            ) from None
        try:
            n, k = (integer("PreparedWeight.from_state_dict", "shape", size) for size in shape)
        except (TypeError, ValueError, RuntimeError):  # the last from a tensor without values
            raise ValueError(
                f"PreparedWeight.from_state_dict: shape is {shape!r}; it must be two integers, (N, K)."
            ) from None
        formats: dict[int, Format] = {_prepared_bytes("nvfp4", n, k): "nvfp4", _prepared_bytes("mxfp4", n, k): "mxfp4"}
        _check_kind(data)
        size = int(data.shape[0]) if data.ndim == 1 else -1
        if size not in formats:
            raise ValueError(
                f"PreparedWeight.from_state_dict: data has shape {tuple(data.shape)}; weights of N = {n}, K = {k} have "
                + " or ".join(f"{size} bytes ({format})" for size, format in formats.items())
                + "."
            )
        return cls(_aligned(data), n, k, formats[size])

    def __repr__(self) -> str:
        data: Any = self.data
        where = f", device={data.device}" if hasattr(data, "device") else ""
        return f"PreparedWeight(n={self.n}, k={self.k}, format={self.format!r}{where})"


def _check_kind(data: object) -> None:
    """Raises TypeError for what is neither a tensor nor an array."""
    if not hasattr(data, "ndim"):
        kind = f"{type(data).__module__}.{type(data).__name__}"
        raise TypeError(f"PreparedWeight: data is a {kind}; it must be a torch.Tensor or a NumPy array of bytes.")


def _aligned(data: Any) -> Any:
    """``data``, or a contiguous copy of it, at a multiple of 16 bytes."""
    if isinstance(data, Tensor):
        return at_16_bytes(data.contiguous())  # type: ignore[attr-defined]
    return at_16_bytes(data) if data.flags.c_contiguous else data.copy()


def prepare_w4a16_weights(
    b: Array, b_scales: Array, *, format: Format = "nvfp4", scale_layout: ScaleLayout = "swizzled"
) -> PreparedWeight[Array]:
    """Reorders FP4 weights for :func:`gemm_w4a16_nvfp4` or :func:`gemm_w4a16_mxfp4`, once, when a model is loaded.

    Args:
        b: codes ``[N, K/2]``, N a multiple of 8, K of 16 (NVFP4) or 32 (MXFP4); rows may be strided.
        b_scales: block scales. ``scale_layout="linear"`` is what checkpoints hold: ``[N, K/block]``, or more rows than
            N, rows may be strided, or a flat buffer. Swizzled ones may be in a larger buffer too.

    Both may begin anywhere, as tensors of a mapped file do: what is not at a multiple of 16 bytes is copied.
    The global scale of NVFP4 weights is not part of it: give ``alpha = 1 / global_scale`` to the product.

    Raises ValueError if an NVFP4 scale byte has bit 7 set (finding out waits for the device; where there are no values
    to look at, as in torch.compile, such a scale becomes NaN). Scales in the other
    layout are noticed by their shape, but not where both layouts have one: N a multiple of 128 and K of four blocks.
    Linear ones in a buffer that has the shape of swizzled ones are refused: pass ``b_scales[:N]``.
    """
    layout = code(LAYOUTS, "scale_layout", scale_layout)
    code({"nvfp4": 0, "mxfp4": 1}, "format", format)
    op = f"prepare_w4a16_{format}"
    if _has_values(b):
        b, b_scales = at_16_bytes(b), at_16_bytes(b_scales)
        if layout == LAYOUTS["linear"]:
            refuse_swizzled_as_linear("prepare_w4a16_weights", b, b_scales, _VECTOR[format])
    try:
        if isinstance(b, Tensor):
            data = getattr(torch_backend(), op)(b, b_scales, layout, False)
        else:
            data = _numpy_backend(b).prepare(op, b, b_scales, layout)
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        better = reworded(error)
        if isinstance(b, Tensor):
            better = argument_error("prepare_w4a16_weights", error, None, b=b, b_scales=b_scales)
        if isinstance(better, ValueError) and layout == LAYOUTS["swizzled"]:
            better = refused_swizzled(better, b, b_scales, _VECTOR[format])
        raise better from None
    if format == "nvfp4" and _has_values(b_scales):
        refuse_negative("prepare_w4a16_weights", b, b_scales, layout)
    return PreparedWeight(data, b.shape[0], b.shape[1] * 2, format)


def _has_values(tensor: Any) -> bool:
    """False for a tensor whose values nobody can look at: on a meta device, a fake one, one that is being traced."""
    if not isinstance(tensor, Tensor):
        return True
    import torch

    if torch.compiler.is_dynamo_compiling() or tensor.device.type == "meta":  # type: ignore[attr-defined]
        return False
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    return _get_current_dispatch_mode() is None and not isinstance(tensor, FakeTensor)


def _weight_error(op: str, format: str, b: Any) -> Exception:
    """What is wrong with ``b``, which is no weight of this format."""
    if isinstance(b, PreparedWeight):
        return ValueError(f"{op}: b holds {b.format} weights. Use gemm_w4a16_{b.format}.")
    return TypeError(
        f"{op}: b is a {type(b).__module__}.{type(b).__name__}; it must be a PreparedWeight: "
        f"prepare_w4a16_weights(b, b_scales, format={format!r})."
    )


def gemm_w4a16_nvfp4(
    a: Array,
    b: PreparedWeight[Array],
    alpha: Array | None = None,
    bias: Array | None = None,
    *,
    out_dtype: Any = None,
    out: Array | None = None,
    tactic: int = 0,
    pdl: bool = False,
) -> Array:
    """``alpha * a @ dequantised(b).T + bias`` with 16-bit activations and NVFP4 weights (W4A16), summed in float32.

    Args:
        a: activations ``[*, K]``, bfloat16 or float16; 16-byte aligned, rows may be strided by multiples of 8 elements.
        b: the weights, from :func:`prepare_w4a16_weights`.
        alpha: one float32 on the device, ``1 / global_scale`` of the weights; None means 1. It multiplies the float32
            sum, so that global scales of any size neither overflow nor vanish. That sum is up to 2688 (6 * 448) times
            the activations': from about K * amax(|a|) = 1e35 on it may overflow, where alpha times it would not.
        bias: ``[N]``, bfloat16, float16 or float32; added in float32.
        out_dtype: bfloat16, float16 or float32; None is the dtype of ``a``; ignored if ``out`` is given.
        out: ``[*, N]``, rows may be strided.
        tactic: a number of :func:`fp4aot.list_tactics` for this shape; 0 chooses.

    Returns ``[*, N]``, rounded once. A NaN scale makes its column NaN; infinities and NaN in ``a`` act as in IEEE
    arithmetic.
    """
    return _gemm("gemm_w4a16_nvfp4", "nvfp4", a, b, alpha, bias, out_dtype, out, tactic, pdl)


def gemm_w4a16_mxfp4(
    a: Array,
    b: PreparedWeight[Array],
    alpha: Array | None = None,
    bias: Array | None = None,
    *,
    out_dtype: Any = None,
    out: Array | None = None,
    tactic: int = 0,
    pdl: bool = False,
) -> Array:
    """``alpha * a @ dequantised(b).T + bias``, weights MXFP4; arguments as :func:`gemm_w4a16_nvfp4`."""
    return _gemm("gemm_w4a16_mxfp4", "mxfp4", a, b, alpha, bias, out_dtype, out, tactic, pdl)


def _gemm(
    op: str,
    format: str,
    a: Array,
    b: PreparedWeight[Array],
    alpha: Array | None,
    bias: Array | None,
    out_dtype: Any,
    out: Array | None,
    tactic: int,
    pdl: bool,
) -> Array:
    if not isinstance(b, PreparedWeight) or b.format != format:
        raise _weight_error(op, format, b)
    if not isinstance(a, Tensor):
        return _numpy_backend(a, pdl).gemm(op, a, b.data, b.n, b.k, alpha, bias, out_dtype, out, tactic)  # type: ignore[no-any-return]
    tensor: Any = a
    backend = torch_backend()
    try:
        if tactic is not DEFAULT_TACTIC and is_boolean(tactic):  # which torch counts as a number
            raise TypeError
        if out is None:
            dtype = backend.output_dtype(out_dtype, tensor.dtype)
            return getattr(backend, op)(a, b.data, b.n, b.k, dtype, alpha, bias, tactic, pdl)  # type: ignore[no-any-return]
        getattr(backend, op + "_out")(out, a, b.data, b.n, b.k, alpha, bias, tactic, pdl)
        return out
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise argument_error(
            op, error, out, a=a, b=b.data, n=b.n, k=b.k, alpha=alpha, bias=bias, tactic=tactic, pdl=pdl
        ) from None
