"""Which backend an op's first argument belongs to: torch's dispatcher or NumPy over the C ABI."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from . import numpy_ops
from ._loader import integer, is_boolean, is_switch
from ._wording import reworded
from .errors import LoadError, TorchError

if TYPE_CHECKING:
    import numpy as np
    import torch

Array = TypeVar("Array", "torch.Tensor", "np.ndarray[Any, Any]")
ScaleLayout = Literal["swizzled", "linear"]
Rounding = Literal["ceil", "floor"]

_torch_error: Exception | None = None
try:
    from . import torch_ops as _torch_ops
except (TorchError, LoadError) as error:
    _torch_error = error

    class Tensor:
        """Stands for torch.Tensor where there are no torch ops: nothing is one."""

    def torch_backend() -> Any:
        """Never called: nothing is a Tensor."""
else:
    Tensor = _torch_ops.Tensor  # type: ignore[assignment,misc]
    _traced, _eager, _is_traced = _torch_ops.Traced, _torch_ops.Eager, _torch_ops.is_dynamo_compiling

    def torch_backend() -> Any:
        """Where the torch ops are to be called."""
        return _traced if _is_traced() else _eager


# Compared by identity, which is fastest, and which no bool shares; an equal string is looked up.
DEFAULT_TACTIC = 0
SWIZZLED = "swizzled"
LAYOUTS = {SWIZZLED: 0, "linear": 1}
ROUNDINGS = {"ceil": 0, "floor": 1}


def code(codes: dict[str, int], name: str, value: str) -> int:
    """The C ABI's number for a named choice, or a ValueError that lists the names."""
    try:
        return codes[value]
    except (KeyError, TypeError):
        raise ValueError(f"{name} is {value!r}; it must be " + " or ".join(map(repr, codes)) + ".") from None


def numpy_backend(first: object, pdl: object = False) -> Any:
    """numpy_ops, once it is sure that ``first`` is no torch tensor. ``pdl`` means nothing there, but is checked."""
    if type(first).__module__.partition(".")[0] == "torch" and _torch_error is not None:
        raise _torch_error
    if not is_switch(pdl):
        raise TypeError(f"pdl is {pdl!r}; it must be True or False.")
    return numpy_ops


def argument_error(op: str, error: Exception, out: object, **arguments: object) -> Exception:
    """What to raise after ``error``: torch's own parser does not say what an op takes, so arguments are looked at again
    here, where good calls never come."""
    pair = op.find("quantize_") >= 0 and not op.startswith("dequantize")
    outputs = () if out is None else out if pair and isinstance(out, (tuple, list)) else (out,)
    if out is not None and pair and len(outputs) != 2:
        return ValueError(f"{op}: out has {len(outputs)} tensor(s); it must be a pair (codes, scales).")
    named = [*arguments.items(), *(("out", value) for value in outputs)]
    for name, value in named:
        if name in ("tactic", "rows", "columns", "n", "k"):
            try:
                integer(op, name, value, 32 if name == "tactic" else 64)
            except (TypeError, ValueError) as better:
                return better
            continue
        if name == "epsilon":
            if not isinstance(value, (int, float)) or is_boolean(value):
                return TypeError(f"{op}: epsilon is {value!r}; it must be a float.")
            continue
        if name == "pdl":
            if not is_switch(value):
                return TypeError(f"{op}: pdl is {value!r}; it must be True or False.")
            continue
        if value is None or isinstance(value, Tensor):
            continue
        fix = "Pass a torch.Tensor on the same device"
        if isinstance(value, (int, float)) and not is_boolean(value):
            fix += f": torch.tensor({float(value)!r}, device=...)"
        return TypeError(f"{op}: {name} is a {type(value).__module__}.{type(value).__name__}. {fix}.")
    return reworded(error)


def at_16_bytes(data: Any) -> Any:
    """``data``, or a copy of it, at a multiple of 16 bytes: in a mapped file it may begin anywhere."""
    if isinstance(data, Tensor):
        with contextlib.suppress(RuntimeError):  # a tensor without memory
            if data.data_ptr() % 16:  # type: ignore[attr-defined]
                return data.clone()  # type: ignore[attr-defined]
    elif hasattr(data, "ctypes") and data.ctypes.data % 16:
        return data.copy()
    return data
