"""Registers the torch ops ``torch.ops.fp4aot.*`` (CPU and CUDA) and their fakes. Importing this module does it.

The library behind them, libfp4aot_torch.so, uses torch's stable ABI: one binary for every torch from 2.10 on.
"""

from __future__ import annotations

import re

from . import _loader
from .errors import TorchError

MINIMUM_TORCH = (2, 10)

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise TorchError(
        "torch is not installed, and this needs it: pip install 'torch>=2.10'. "
        "(Without torch, fp4aot works on NumPy arrays.)"
    ) from None


def check_version(version: str) -> None:
    """Raises TorchError if this torch is older than what the ops need."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < MINIMUM_TORCH:
        needed = ".".join(map(str, MINIMUM_TORCH))
        raise TorchError(
            f"torch {version} is installed, but fp4aot's torch ops need torch {needed} or newer (its stable C ABI): "
            f"pip install --upgrade 'torch>={needed}'. (NumPy arrays work without it.)"
        )


def _load() -> None:
    check_version(torch.__version__)
    _loader.library()  # first: its errors are clearer than the dynamic linker's
    path = _loader.LIBRARY_DIR / "libfp4aot_torch.so"
    if not path.exists():
        raise TorchError(
            f"{path} is missing: this fp4aot was built without torch. Install the wheel, or install torch>=2.10 and "
            "rebuild with: pip install ."
        )
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise TorchError(f"{path} cannot be loaded under torch {torch.__version__}: {error}") from None


_load()

from . import torch_fakes  # noqa: E402  (needs the ops)

torch_fakes.register()

Tensor = torch.Tensor
is_dynamo_compiling = torch.compiler.is_dynamo_compiling


# torch's own numbers of the dtypes (c10::ScalarType, fixed by its file formats): an op takes a microsecond less to read
# an output dtype as a number than as a torch.dtype.
_DTYPE_NUMBERS: dict[object, object] = {None: 15, torch.bfloat16: 15, torch.float16: 5, torch.float32: 6}


class Traced:
    """Every op's overload: what torch.compile can trace."""

    @staticmethod
    def dtype(dtype: object) -> object:
        """What to give for an output dtype."""
        return torch.bfloat16 if dtype is None else dtype


class Eager:
    """The same without the overload's Python frame, half a microsecond less a call."""

    @staticmethod
    def dtype(dtype: object) -> object:
        """What to give for an output dtype."""
        number = _DTYPE_NUMBERS.get(dtype)
        if number is None:
            raise ValueError(f"dtype (out_dtype) is {dtype!r}; it must be torch.bfloat16, float16 or float32.")
        return number


for _name in torch_fakes.FAKES:
    for _op in (_name, _name + "_out"):
        _overload = getattr(torch.ops.fp4aot, _op).default
        setattr(Traced, _op, staticmethod(_overload))
        setattr(Eager, _op, staticmethod(getattr(_overload, "_op", _overload)))
