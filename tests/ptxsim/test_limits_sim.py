"""Products too large for every kernel of an image: nothing is offered that the launch would refuse."""

import ctypes
from dataclasses import dataclass

import c_abi
import numpy as np
import pytest

from . import build, suite
from .gemm_problems import Gemm
from .session import OPS, CallFailed, Session

pytestmark = pytest.mark.ptxsim


@dataclass(frozen=True)
class Limit:
    """A shape that is refused, with what is too large and the most it may be in the message; or has a valid default."""

    op: str
    m: int
    n: int
    k: int
    a_stride: int | None = None  # bytes; None: of rows without gaps
    b_stride: int | None = None
    refused: str = ""  # a field's name
    most: int = 0

    def run(self, session: Session) -> dict[str, np.ndarray]:
        fields = {"m": self.m, "n": self.n, "k": self.k, "d_stride": self.n, "d_dtype": c_abi.BF16}
        fields |= {"a_stride": self.a_stride or self.k // 2, "b_stride": self.b_stride or self.k // 2}
        # Launches are refused before anything is read, so nothing has to be as large as it says.
        buffers = {name: session.allocate(1024) for name in ("a_codes", "b_codes", "a_scales", "b_scales", "d")}
        buffers |= {"a_scales_bytes": 2**60, "b_scales_bytes": 2**60}
        params = session.params(self.op, **fields, **buffers)
        default, size = ctypes.c_int32(-1), ctypes.c_size_t()
        asked = {
            "default": lambda: session._call(
                "default_tactic", OPS.index(self.op), ctypes.byref(params), ctypes.byref(default)
            ),
            "list": lambda: session.tactics(self.op, **fields),
            "size": lambda: session._call(f"{self.op}_workspace_size", params, ctypes.byref(size)),
        }
        if not self.refused:
            assert asked["list"]()
            asked["default"]()
            asked["size"]()
            assert default.value in asked["list"]()
            return {}
        sentence = f"{self.refused} = {fields[self.refused]}, but its kernels take at most {self.most}."
        for tactic in (0, 1):
            params.tactic = tactic
            for name, ask in (asked | {"launch": lambda: session._call(self.op, params)}).items():
                with pytest.raises(CallFailed) as raised:
                    ask()
                assert sentence in str(raised.value), name
        return {}

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        """Nothing was launched."""


@dataclass(frozen=True)
class NoRows:
    """A product without rows: it has the tactics of one row, and launches nothing."""

    op: str
    n: int
    k: int

    def run(self, session: Session) -> dict[str, np.ndarray]:
        width = 2 if self.op.startswith("gemm_w4a16") else 1
        stride = self.k if width == 2 else self.k // 2
        fields = {"n": self.n, "k": self.k, "a_stride": stride, "d_stride": self.n, "d_dtype": c_abi.BF16}
        fields |= {"a_dtype": c_abi.BF16} if width == 2 else {"b_stride": self.k // 2}
        listed = [session.tactics(self.op, m=m, **fields) for m in (0, 1)]
        assert listed[0] == listed[1]
        params, default, size = session.params(self.op, m=0, **fields), ctypes.c_int32(-1), ctypes.c_size_t(1)
        session._call("default_tactic", OPS.index(self.op), ctypes.byref(params), ctypes.byref(default))
        assert default.value in listed[0]
        session._call(f"{self.op}_workspace_size", params, ctypes.byref(size))
        assert size.value == 0
        session._call(self.op, params)
        return {}

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        """Nothing was launched."""


@dataclass(frozen=True)
class InAChain:
    """A product that is launched early (PDL) has the tactics, the default and the workspace of any other."""

    op: str
    m: int
    n: int = 4096
    k: int = 7168

    def run(self, session: Session) -> dict[str, np.ndarray]:
        fields = {"m": self.m, "n": self.n, "k": self.k, "a_stride": self.k, "d_stride": self.n}
        fields |= {"a_dtype": c_abi.BF16, "d_dtype": c_abi.BF16}
        answers = []
        for pdl in (True, False, True):
            params, default = session.params(self.op, pdl=pdl, **fields), ctypes.c_int32(-1)
            session._call("default_tactic", OPS.index(self.op), ctypes.byref(params), ctypes.byref(default))
            size = ctypes.c_size_t(1)
            session._call(f"{self.op}_workspace_size", params, ctypes.byref(size))
            answers.append((session.tactics(self.op, pdl=pdl, **fields), default.value, size.value))
        assert answers[0] == answers[1] == answers[2]
        return {}

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        """Nothing was launched."""


MOST_K = {"sm90a": 2**29 - 32}  # others: of CUTLASS's kernels
CUTLASS_MOST_K = 2**27
BEYOND = 2**40  # bytes: what a stride of a tensor map must be less than


def limits(image: str) -> list[object]:
    k = MOST_K.get(image, CUTLASS_MOST_K)
    formats = ("nvfp4", "mxfp4")
    listed: list[object] = [
        NoRows(f"gemm_{kind}{f}", n, 64) for kind in ("", "w4a16_") for f in formats for n in (8, 8192)
    ]
    listed += [InAChain(f"gemm_w4a16_{f}", m) for f in formats for m in (1, 33, 64, 65)]
    for op in ("gemm_nvfp4", "gemm_mxfp4"):
        listed += [
            Limit(op, 3, 64, k),
            Limit(op, 3, 64, k + 32, refused="k", most=k),
            Limit(op, 3, 64, 64, b_stride=BEYOND - 16),
            Limit(op, 3, 64, 64, b_stride=BEYOND, refused="b_stride", most=BEYOND - 16),
            Limit(op, 1, 64, 64, a_stride=BEYOND),
        ]
        if image != "sm90a":  # which reads A by address
            listed.append(Limit(op, 3, 64, 64, a_stride=BEYOND, refused="a_stride", most=BEYOND - 16))
        # The stride of a single row may be anything.
        listed += [Gemm(op, 1, 72, 96, a_gap=BEYOND), Gemm(op, 1, 72, 96, d_gap=BEYOND, dtype="fp16")]
    return listed


@pytest.mark.parametrize(
    "case", [suite.Case(image, problem) for image in build.images() for problem in limits(image)], ids=str
)
def test_limit(results, case):
    results.check(case)
