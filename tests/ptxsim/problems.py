"""Single calls of ops: inputs from a seed, the call, and the check of its outputs against tests/reference.

A problem's run(session) gives its outputs as arrays (without gaps between rows: those were checked already),
check(outputs) compares them. Inputs end where their last row ends and have never-written bytes between rows, so that a
kernel that reads too much is found out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import reference

from .session import DTYPES, ELEMENT, Session, bits_of

NAN_SCALE = {"nvfp4": 0x7F, "mxfp4": 0xFF}


def written_out(problem) -> str:
    """The problem as source text, without the fields that have their defaults."""
    given = [f.name for f in fields(problem) if getattr(problem, f.name) != f.default]
    return f"{type(problem).__name__}({', '.join(f'{name}={getattr(problem, name)!r}' for name in given)})"


def format_of(op: str) -> str:
    return "mxfp4" if op.endswith("mxfp4") else "nvfp4"


def random_rows(rng: np.random.Generator, rows: int, k: int, kind: str) -> np.ndarray:
    """float32 [rows, k]: "normal"; "wide" (any exponent); "special" (with NaN, infinities, zeros, tiny values)."""
    values = rng.standard_normal((rows, k)).astype(np.float32)
    if kind == "wide":
        exponents = rng.integers(-140, 120, (rows, -(-k // 16))).repeat(16, axis=1)[:, :k]
        values = np.ldexp(values, exponents).astype(np.float32)
    elif kind == "special":
        where = rng.random((rows, k))
        specials = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40)
        for i, value in enumerate(specials):
            values[(where > 0.01 * i) & (where < 0.01 * (i + 1))] = value
    else:
        assert kind == "normal", kind
    return values


def as_dtype(values: np.ndarray, dtype: str) -> np.ndarray:
    """Rounded to dtype, as float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        return reference.round_to(values, dtype)


def layout_bytes(rows: int, columns: int, layout: str) -> int:
    return int(np.prod(reference.swizzled_shape(rows, columns))) if layout == "swizzled" else rows * columns


def expect_gaps_untouched(session: Session, address: int, rows: int, row_bytes: int, stride: int, what: str) -> None:
    for row in range(rows - 1):
        session.expect_untouched(address + row * stride + row_bytes, stride - row_bytes, f"{what}: gap after row {row}")


def assert_equal(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    wrong = np.argwhere(found != expected)
    if len(wrong):
        at = tuple(wrong[0])
        raise AssertionError(
            f"{what}: {len(wrong)} of {expected.size} differ, first at {list(map(int, at))}: {found[at]!r}, expected "
            f"{expected[at]!r}"
        )


@dataclass(frozen=True)
class GlobalScale:
    op: str
    rows: int
    k: int
    dtype: str = "bf16"
    kind: str = "special"
    gap: int = 0
    lead: int = 0
    seed: int = 0
    pdl: bool = False

    def inputs(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        return {"x": as_dtype(random_rows(rng, self.rows, self.k, self.kind), self.dtype)}

    def run(self, session: Session) -> dict[str, np.ndarray]:
        x, element = bits_of(self.inputs()["x"], self.dtype), ELEMENT[self.dtype]().itemsize
        stride, result = self.k + self.gap, session.allocate(4)
        session.call(
            self.op, pdl=self.pdl, rows=self.rows, k=self.k, input_dtype=DTYPES[self.dtype], input_stride=stride,
            input=session.upload(x, stride * element, self.lead * element), global_scale=result,
        )  # fmt: skip
        session.synchronize()
        return {"global_scale": session.download(result.address, (1,), np.float32)}

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        assert_equal(outputs["global_scale"], np.array([reference.nvfp4_global_scale(self.inputs()["x"])]), "scale")


@dataclass(frozen=True)
class ScaleLayout:
    op: str
    rows: int
    columns: int
    gap: int = 0  # bytes between rows of the linear side
    lead: int = 0  # bytes
    seed: int = 0
    pdl: bool = False

    def inputs(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        return {"linear": rng.integers(0, 256, (self.rows, self.columns)).astype(np.uint8)}

    def run(self, session: Session) -> dict[str, np.ndarray]:
        linear, stride = self.inputs()["linear"], self.columns + self.gap
        swizzled = reference.swizzle(linear)
        if self.op == "swizzle_scales":
            source, target = session.upload(linear, stride, self.lead), session.allocate(swizzled.size)
            sides = {"linear": source, "swizzled": target}
        else:
            target = session.allocate((self.rows - 1) * stride + self.columns)
            sides = {"linear": target, "swizzled": session.upload(swizzled)}
        session.call(
            self.op, pdl=self.pdl, rows=self.rows, columns=self.columns, linear_stride=stride,
            swizzled_bytes=swizzled.size, **sides,
        )  # fmt: skip
        session.synchronize()
        if self.op == "swizzle_scales":
            return {"scales": session.download(target.address, swizzled.shape, np.uint8)}
        expect_gaps_untouched(session, target.address, self.rows, self.columns, stride, "linear scales")
        return {"scales": session.download(target.address, linear.shape, np.uint8, stride)}

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        linear = self.inputs()["linear"]
        expected = reference.swizzle(linear) if self.op == "swizzle_scales" else linear
        assert_equal(outputs["scales"], expected, "scales")
