"""What this installation can do: images, devices, supported ops, tactics."""

from __future__ import annotations

import ctypes
import json
import re
import sys
from typing import TYPE_CHECKING, Any, Union

from . import _abi, _loader

if TYPE_CHECKING:
    import torch

Device = Union["torch.device", str, int, None]


def parse_device(device: Device) -> Any:
    """The C ABI's device for "cpu", "cuda", "cuda:1", an index, a torch.device, or None (the default: a CUDA device
    if torch is imported and sees one, else the CPU)."""
    struct = _abi.load().structs["fp4aot_device"]
    torch = sys.modules.get("torch")
    if device is None:
        device = "cuda" if torch is not None and torch.cuda.is_available() else "cpu"
    if hasattr(device, "__index__") and not isinstance(device, bool):
        device = f"cuda:{device}"
    match = re.fullmatch(r"(cpu|cuda)(?::([0-9]+))?", str(device))
    if match is None:
        raise ValueError(
            f"device {device!r} is not known; give 'cpu', 'cuda', 'cuda:<index>', an index or a torch.device."
        )
    kind, index = match.groups()
    if index and int(index) >= (1 << 31 if kind == "cuda" else 1):
        raise ValueError(
            f"device {device!r} does not exist: there is one CPU, 'cpu', and CUDA indices fit 32 bits. "
            "`fp4aot info` lists the devices."
        )
    constants = _abi.load().constants
    if kind == "cpu":
        return struct(type=constants["FP4AOT_CPU"], index=0)
    if not index:
        index = str(torch.cuda.current_device()) if torch is not None and torch.cuda.is_initialized() else "0"
    return struct(type=constants["FP4AOT_CUDA"], index=int(index))


def supports(op: str, device: Device = None) -> bool:
    """True if the image that serves ``device`` has a kernel for ``op`` ("gemm_nvfp4", …).

    Binds the device (CUDA is initialised if it names one). No image for the device counts as False;
    :func:`image_name` then says why.
    """
    return bool(_loader.library().fp4aot_supports(_loader.slot(op), parse_device(device)))


def preload(device: Device = None) -> None:
    """Loads the device's image and its kernels now, so that no first call pays for it (before a graph capture, say)."""
    _loader.check(_loader.library().fp4aot_preload(parse_device(device)))


def image_name(device: Device = None) -> str:
    """The image that serves the device: "cpu", "sm90a", …"""
    name = ctypes.c_char_p()
    _loader.check(_loader.library().fp4aot_image_name(parse_device(device), ctypes.byref(name)))
    assert name.value is not None
    return name.value.decode()


def info() -> dict[str, Any]:
    """Images, devices, drivers, ops and why an image was or was not chosen. Creates no CUDA context."""
    text = _loader.library().fp4aot_info_json()
    result: dict[str, Any] = json.loads(text)
    return result


_MAX_INT64 = (1 << 63) - 1
_WITH_TACTICS = ("gemm_nvfp4", "gemm_mxfp4", "gemm_w4a16_nvfp4", "gemm_w4a16_mxfp4")


def _gemm_params(op: str, m: int, n: int, k: int, device: Device, out_dtype: Any, a_dtype: Any) -> ctypes.Structure:
    _loader.slot(op)
    if op not in _WITH_TACTICS:
        raise ValueError(f"{op!r} has no tactics; the ops with tactics are {', '.join(_WITH_TACTICS)}.")
    m, n, k = (_loader.integer(op, name, value) for name, value in (("m", m), ("n", n), ("k", k)))
    if "w4a16" in op:
        a_type, d_type = _dtype_codes(a_dtype, out_dtype)
        return _loader.make_params(
            op,
            device=parse_device(device),
            tactic=_abi.load().constants["FP4AOT_TACTIC_DEFAULT"],
            m=m,
            n=n,
            k=k,
            a_stride=k,
            a_dtype=a_type,
            d_stride=n,
            d_dtype=d_type,
            bias_dtype=d_type,
        )
    if a_dtype is not None:
        raise ValueError(f"{op} has FP4 activations and takes no a_dtype.")
    padded_k = -(-k // (16 if op == "gemm_nvfp4" else 32))
    padded_k = (padded_k + 3) // 4 * 4
    dtype = dtype_code("bfloat16" if out_dtype is None else out_dtype)
    return _loader.make_params(
        op,
        device=parse_device(device),
        tactic=_abi.load().constants["FP4AOT_TACTIC_DEFAULT"],
        m=m,
        n=n,
        k=k,
        a_stride=k // 2,
        b_stride=k // 2,
        a_scales_bytes=min((m + 127) // 128 * 128 * padded_k, _MAX_INT64),  # m, n and k are the library's to refuse
        b_scales_bytes=min((n + 127) // 128 * 128 * padded_k, _MAX_INT64),
        d_stride=n,
        d_dtype=dtype,
        bias_dtype=dtype,
    )


def _dtype_codes(a_dtype: Any, out_dtype: Any) -> tuple[int, int]:
    """Of W4A16 activations and of the output: what is not given is as the other, and bfloat16 if that cannot be."""
    given = dtype_code("bfloat16" if out_dtype is None else out_dtype)
    if a_dtype is not None:
        activations = dtype_code(a_dtype)
        return activations, activations if out_dtype is None else given
    constants = _abi.load().constants
    return constants["FP4AOT_BF16"] if given == constants["FP4AOT_FP32"] else given, given


def dtype_code(dtype: Any) -> int:
    """fp4aot_dtype of "bfloat16", torch.float16, numpy.float32, …"""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = str(name).removeprefix("torch.")
    codes = {"bfloat16": "FP4AOT_BF16", "float16": "FP4AOT_FP16", "float32": "FP4AOT_FP32"}
    if name not in codes:
        raise ValueError(f"dtype {name} is not supported; give bfloat16, float16 or float32.")
    return _abi.load().constants[codes[name]]


def list_tactics(
    op: str, m: int, n: int, k: int, device: Device = None, out_dtype: Any = None, a_dtype: Any = None
) -> list[tuple[int, str]]:
    """The tactics (kernel x run-time choice) of ``op`` that are valid for the shape, as (number, name).

    Give a number as ``tactic=`` to :func:`fp4aot.gemm_nvfp4`; numbers are stable within an ABI major and belong to one
    image. ``out_dtype`` None means bfloat16. ``a_dtype`` is the activations' dtype of a W4A16 op; None means
    ``out_dtype``, bfloat16 where that is float32. Ops or images without a choice give an empty list.
    """
    params = _gemm_params(op, m, n, k, device, out_dtype, a_dtype)
    lib, slot = _loader.library(), _loader.slot(op)
    count = ctypes.c_size_t(0)
    _loader.check(lib.fp4aot_list_tactics(slot, ctypes.byref(params), None, ctypes.byref(count)))
    numbers = (ctypes.c_int32 * count.value)()
    _loader.check(lib.fp4aot_list_tactics(slot, ctypes.byref(params), numbers, ctypes.byref(count)))
    tactics = []
    for number in numbers[: count.value]:
        name = ctypes.c_char_p()
        _loader.check(lib.fp4aot_tactic_name(slot, parse_device(device), number, ctypes.byref(name)))
        tactics.append((number, name.value.decode() if name.value else ""))
    return tactics


def default_tactic(
    op: str,
    m: int,
    n: int,
    k: int,
    device: Device = None,
    out_dtype: Any = None,
    a_dtype: Any = None,
) -> int:
    """The tactic that ``tactic=0`` chooses for the shape."""
    params = _gemm_params(op, m, n, k, device, out_dtype, a_dtype)
    tactic = ctypes.c_int32()
    _loader.check(_loader.library().fp4aot_default_tactic(_loader.slot(op), ctypes.byref(params), ctypes.byref(tactic)))
    return tactic.value
