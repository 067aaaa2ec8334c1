"""Which backend an op's first argument belongs to: torch's dispatcher or NumPy over the C ABI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from . import numpy_ops
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

    def torch_backend() -> Any:
        """Where the torch ops are to be called."""
        return _torch_ops.Traced if _torch_ops.is_dynamo_compiling() else _torch_ops.Eager


LAYOUTS = {"swizzled": 0, "linear": 1}
ROUNDINGS = {"ceil": 0, "floor": 1}


def code(codes: dict[str, int], name: str, value: str) -> int:
    """The C ABI's number for a named choice, or a ValueError that lists the names."""
    number = codes.get(value)
    if number is None:
        raise ValueError(f"{name} is {value!r}; it must be " + " or ".join(map(repr, codes)) + ".")
    return number


def numpy_backend(first: object) -> Any:
    """numpy_ops, once it is sure that ``first`` is no torch tensor."""
    if type(first).__module__.partition(".")[0] == "torch" and _torch_error is not None:
        raise _torch_error
    return numpy_ops
