"""Puts the ops' fast functions (the extension module ``_torch_fast``) in front of torch's dispatcher.

A fast function does what the dispatcher would, in half the host time, if there is nothing for the dispatcher to do: no
subclass, mode, transform, gradient, trace or profiler. Else, and if anything about the arguments is unusual or wrong,
it calls the dispatcher. It needs a few functions that torch's stable ABI does not have, and the place of the handle in
a tensor's Python object, which it looks for. Without one of them, or without the module, all calls are dispatched, and
with ``FP4AOT_FAST_PATH=0``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ._environment import switch
from .errors import TorchError

VARIABLE = "FP4AOT_FAST_PATH"

Bind = Callable[[str, Callable[..., Any]], Callable[..., Any]]


def _sees_modes(is_quiet: Callable[[], bool]) -> bool:
    """Whether the module, which reads torch's state by names that are not promised, still sees what it must."""
    functorch: Any = torch._C._functorch  # type: ignore[attr-defined]
    for mode in (TorchFunctionMode, TorchDispatchMode):
        with mode():
            if is_quiet():
                return False
    functorch._vmap_increment_nesting(1, "error")
    try:
        return not is_quiet()
    finally:
        functorch._vmap_decrement_nesting()


def load() -> Bind | None:
    """What binds an op's name and its dispatched function to its fast function; None if there are no fast functions.

    Raises TorchError if the environment says neither yes nor no.
    """
    try:
        if not switch(VARIABLE, default=True):
            return None
    except ValueError as error:
        raise TorchError(str(error)) from None
    try:
        from . import _torch_fast  # type: ignore[attr-defined]

        _torch_fast.set_up(
            torch.Tensor,
            torch.nn.Parameter,
            torch._C._increment_version,  # type: ignore[attr-defined]
        )
        with torch.inference_mode(False), torch.no_grad():
            if not _torch_fast.is_quiet() or not _sees_modes(_torch_fast.is_quiet):
                return None
            with torch.inference_mode():
                _torch_fast.accept_keys()
    except (ImportError, AttributeError, TypeError, ValueError, NotImplementedError):
        return None
    return _torch_fast.bind
