"""What a planted fault is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """`text` of a header, with `wrong` in its place while the fault is on; `symptom`: what the failing run prints.

    Headers are those of kernels/gemm, or of another folder if they name it.
    """

    name: str
    header: str
    text: str
    wrong: str
    symptom: str
    also: tuple[tuple[str, str], ...] = ()  # more such pairs
    program: str = ""  # that finds it, if not the header's own


WRONG_RESULT = "mismatch at"
