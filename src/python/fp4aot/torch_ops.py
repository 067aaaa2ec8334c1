"""Registers the torch ops ``torch.ops.fp4aot.*`` (CPU and CUDA) and their fakes. Importing this module does it.

The library behind them, libfp4aot_torch.so, uses torch's stable ABI: one binary for every torch from 2.10 on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _fork, _loader
from .errors import TorchError

MINIMUM_TORCH = (2, 10)

try:
    import torch
except Exception as error:  # a broken installation raises anything
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        raise TorchError(
            "torch is not installed, and this needs it: pip install 'torch>=2.10'. "
            "(Without torch, fp4aot works on NumPy arrays.)"
        ) from None
    raise TorchError(
        f"torch is installed but cannot be imported ({type(error).__name__}: {error}). Check it with: "
        "python -c 'import torch'. (NumPy arrays work without it.)"
    ) from error
if not hasattr(torch, "__version__"):
    _where = getattr(torch, "__file__", None) or list(getattr(torch, "__path__", []))
    raise TorchError(
        f"the module torch (from {_where}) has no __version__, so it is not PyTorch: rename what shadows it, or "
        "reinstall it with: pip install --force-reinstall torch. (NumPy arrays work without it.)"
    )


def check_version(version: str) -> None:
    """Raises TorchError if this torch is older than what the ops need."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < MINIMUM_TORCH:
        needed = ".".join(map(str, MINIMUM_TORCH))
        raise TorchError(
            f"torch {version} is installed, but fp4aot's torch ops need torch {needed} or newer (its stable C ABI): "
            f"pip install --upgrade 'torch>={needed}'. (NumPy arrays work without it.)"
        )


def _check_namespace(path: Path) -> None:
    """Raises TorchError if something else has registered torch.ops.fp4aot: a second one kills the process in torch."""
    try:
        torch.library.Library("fp4aot", "DEF")._destroy()
    except RuntimeError as error:
        others = [other for other in torch.ops.loaded_libraries if Path(other).name == path.name]
        other = ", ".join(others) or f"other code ({str(error).splitlines()[0]})"
        raise TorchError(
            f"{path} cannot register torch.ops.fp4aot: it is registered already, by {other}. A process can use one "
            "copy of fp4aot: remove the other from sys.path and start Python again."
        ) from None


def _load() -> None:
    check_version(torch.__version__)
    _loader.library()  # first: its errors are clearer than the dynamic linker's
    path = _loader.LIBRARY_DIR / "libfp4aot_torch.so"
    if not path.exists():
        raise TorchError(
            f"{path} is missing: this fp4aot was built without torch. Install the wheel, or install torch>=2.10 and "
            "rebuild with: pip install ."
        )
    if os.path.realpath(path) in torch.ops.loaded_libraries:
        return  # imported again; its registrations live as long as the process
    _check_namespace(path)
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise TorchError(f"{path} cannot be loaded under torch {torch.__version__}: {error}") from None
    if _fork.in_child:  # torch's threads may be the parent's, and waiting for them would never end
        _loader.library().fp4aot_set_cpu_executor(None)


_load()

from . import _fast_path, torch_fakes  # noqa: E402  (needs the ops)

torch_fakes.register()

Tensor = torch.Tensor
is_dynamo_compiling = torch.compiler.is_dynamo_compiling


# torch's own numbers of the dtypes (c10::ScalarType, fixed by its file formats): an op takes a microsecond less to read
# an output dtype as a number than as a torch.dtype.
_BFLOAT16 = 15
_HALVES: dict[object, object] = {torch.bfloat16: _BFLOAT16, torch.float16: 5}
_DTYPE_NUMBERS: dict[object, object] = {**_HALVES, torch.float32: 6}


class Traced:
    """Every op's overload: what torch.compile can trace."""

    @staticmethod
    def dtype(dtype: object) -> object:
        """What to give for an output dtype."""
        return torch.bfloat16 if dtype is None else dtype

    @staticmethod
    def output_dtype(dtype: object, activations: object) -> object:
        """The same of W4A16: None is the dtype of the activations (of one that is not allowed the op says so)."""
        if dtype is None:
            return activations if activations in _HALVES else torch.bfloat16
        return dtype


class Eager:
    """The same without the overload's Python frame, half a microsecond less a call."""

    @staticmethod
    def dtype(dtype: object) -> object:
        """What to give for an output dtype."""
        if dtype is None:
            return _BFLOAT16
        number = _DTYPE_NUMBERS.get(dtype) if isinstance(dtype, torch.dtype) else None
        if number is None:
            raise ValueError(f"dtype (out_dtype) is {dtype!r}; it must be torch.bfloat16, float16 or float32.")
        return number

    @staticmethod
    def output_dtype(dtype: object, activations: object) -> object:
        """As above."""
        return _HALVES.get(activations, _BFLOAT16) if dtype is None else Eager.dtype(dtype)


# torch's public function looks at its argument's type first, which takes five times as long as the rest.
_increment_version = getattr(torch._C, "_increment_version", torch.autograd.graph.increment_version)
_is_grad_enabled = torch.is_grad_enabled


def _refuse_gradients(name: str, written: tuple[Any, ...]) -> None:
    for tensor in written:
        if getattr(tensor, "requires_grad", False):
            raise RuntimeError(
                f"{name} writes to a tensor of shape {list(tensor.shape)} that requires grad, and has no backward: "
                "gradients would be wrong. Call it under torch.no_grad(), or give a .detach().clone()."
            )


def _refuse_lost_gradients(name: str, arguments: tuple[Any, ...]) -> None:
    for argument in arguments:
        if isinstance(argument, torch.Tensor) and argument.requires_grad:
            raise RuntimeError(
                f"{name}: an argument of shape {list(argument.shape)} requires grad, and what is written to out would "
                "have no gradient. Call it under torch.no_grad(), or give a .detach()."
            )


def _writing(
    name: str, op: Callable[..., Any], first: slice, last: int | None = None, traced: bool = False
) -> Callable[..., Any]:
    """``op``, with autograd told that it wrote to its arguments at ``first`` and ``last``: a backward that needs what
    they held then fails instead of using what they hold now. torch's stable ABI has no way to say so."""

    def call(*arguments: Any) -> Any:
        written = arguments[first]
        if last is not None and arguments[last] is not None:
            written = (*written, arguments[last])
        if _is_grad_enabled():
            _refuse_gradients(name, written)
            if name.startswith(("gemm", "dequantize")):
                _refuse_lost_gradients(name, arguments)
        result = op(*arguments)
        if not traced:  # a compiled graph counts the versions of its inputs itself
            _increment_version(written)
        return result

    return call


def _rmsnorm(op: Callable[..., Any], traced: bool) -> Callable[..., Any]:
    """The functional op writes to its residual only."""
    with_residual = _writing("rmsnorm_quantize_nvfp4", op, slice(4, 5), traced=traced)

    def call(x: Any, weight: Any, global_scale: Any, epsilon: Any, residual: Any, layout: Any, pdl: Any) -> Any:
        run = op if residual is None else with_residual
        return run(x, weight, global_scale, epsilon, residual, layout, pdl)

    return call


_bind_fast = _fast_path.load()
fast_path_is_on = _bind_fast is not None

for _name in torch_fakes.FAKES:
    _count = torch_fakes.outputs(_name)
    _residual = _count + 4 if _name.startswith("rmsnorm") else None
    for _backend in (Traced, Eager):
        _traced = _backend is Traced
        _run, _run_out = (getattr(torch.ops.fp4aot, _op).default for _op in (_name, _name + "_out"))
        if not _traced:
            _run, _run_out = (getattr(_overload, "_op", _overload) for _overload in (_run, _run_out))
        if _residual is not None:
            _run = _rmsnorm(_run, _traced)
        _run_out = _writing(_name, _run_out, slice(_count), _residual, _traced)
        if not _traced and _bind_fast is not None:
            _run, _run_out = _bind_fast(_name, _run), _bind_fast(_name + "_out", _run_out)
        setattr(_backend, _name, staticmethod(_run))
        setattr(_backend, _name + "_out", staticmethod(_run_out))
