"""What fp4aot raises. Every text says what was given, what is allowed and what to do.

An argument out of its range raises :class:`ValueError`. Everything else is an :class:`Fp4aotError`; called through
torch, the ops raise the same texts as plain :class:`RuntimeError` and :class:`ValueError`.
"""

from __future__ import annotations


class Fp4aotError(RuntimeError):
    """Base of the errors below."""


class LoadError(Fp4aotError):
    """A library of the package, or the driver, could not be loaded, or its ABI does not match."""


class NoImageError(Fp4aotError):
    """This installation has no image for the device."""


class UnsupportedError(Fp4aotError):
    """The image that serves the device has no kernel for the op."""


class DriverTooOldError(Fp4aotError):
    """The driver is older than the CUDA toolkit that the image was built with needs."""


class LaunchError(Fp4aotError):
    """The CUDA runtime refused a launch."""


class TorchError(Fp4aotError, ImportError):
    """torch is missing or too old for the torch ops. (NumPy arrays still work.)"""


def no_backward(name: str) -> RuntimeError:
    """What a backward pass through an op or a layer raises, rather than leaving a gradient out."""
    return RuntimeError(
        f"{name} has no backward: it is for inference. Run the model under torch.no_grad(), or train the "
        "torch.nn.Linear and quantise it afterwards."
    )
