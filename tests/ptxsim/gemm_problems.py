"""Problems of gemm_nvfp4 and gemm_mxfp4, and a chain of programmatic launches through them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import reference

from .problems import NAN_SCALE, as_dtype, expect_gaps_untouched, format_of
from .session import DTYPES, ELEMENT, CallFailed, Session, SimulationError, bits_of, floats_of

SCALE_RANGE = {"nvfp4": (0x28, 0x48), "mxfp4": (122, 129)}  # bytes around a scale of 1


@dataclass(frozen=True)
class Operand:
    """FP4 codes and scales of [rows, k]."""

    codes: np.ndarray  # not packed
    scales: np.ndarray  # linear
    format: str

    @staticmethod
    def random(rng: np.random.Generator, rows: int, k: int, format: str) -> Operand:
        low, high = SCALE_RANGE[format]
        codes = rng.integers(0, 16, (rows, k)).astype(np.uint8)
        scales = rng.integers(low, high + 1, (rows, k // reference.VECTOR[format])).astype(np.uint8)
        return Operand(codes, scales, format)

    def swizzled(self) -> np.ndarray:
        """With NaN in the rows of padding, which may hold anything, and zeros in the padding along K."""
        rows, columns = self.scales.shape
        padded_rows, padded = reference.swizzled_shape(rows, columns)
        linear = np.full((padded_rows, padded), NAN_SCALE[self.format], np.uint8)
        linear[:rows] = 0
        linear[:rows, :columns] = self.scales
        return reference.swizzle(linear)

    @property
    def values(self) -> np.ndarray:
        return reference.dequantize(self.codes, self.scales, self.format)


def multiply(session: Session, problem, fields: dict) -> dict[str, np.ndarray]:
    """The outputs of a product's tactics, under their names: all that are valid and in whose name `only` is found, or
    the one that the problem names. Failures of all tactics are raised together."""
    if problem.tactic == 0:
        tactics = {0: "default"}
    else:
        valid = session.tactics(problem.op, **problem.fields())
        if problem.tactic is not None:
            tactics = {problem.tactic: valid.get(problem.tactic, "not valid")}
        else:
            tactics = {number: name for number, name in valid.items() if re.search(problem.only, name)}
    outputs, failures, findings = {}, [], []
    for number, name in tactics.items():
        try:
            outputs[name] = _multiply(session, problem, fields, number)
        except (SimulationError, CallFailed) as error:
            failures.append(f"tactic {number} ({name}): {error}")
            findings += getattr(error, "findings", [])
            session.clear()
    if failures:
        raise SimulationError("\n".join(failures), findings)
    return outputs


def _multiply(session: Session, problem, fields: dict, tactic: int) -> np.ndarray:
    m, n, element = problem.m, problem.n, ELEMENT[problem.dtype]().itemsize
    stride = n + problem.d_gap
    d = session.allocate(((m - 1) * stride + n) * element)
    session.call(problem.op, pdl=problem.pdl, **fields, d=d, tactic=tactic)
    session.synchronize()
    expect_gaps_untouched(session, d.address, m, n * element, stride * element, "d")
    return session.download(d.address, (m, n), ELEMENT[problem.dtype], stride * element)


@dataclass(frozen=True)
class Gemm:
    op: str
    m: int
    n: int
    k: int
    dtype: str = "bf16"
    tactic: int | None = None  # None: every tactic that is valid
    only: str = ""  # of those, the ones in whose name this regular expression is found
    alpha: float | None = None
    bias: str | None = None  # its dtype
    a_gap: int = 0  # bytes between rows of codes, a multiple of 16
    b_gap: int = 0
    d_gap: int = 0  # elements
    seed: int = 0
    pdl: bool = False

    def inputs(self) -> tuple[Operand, Operand, np.ndarray | None]:
        rng = np.random.default_rng(self.seed)
        a = Operand.random(rng, self.m, self.k, format_of(self.op))
        b = Operand.random(rng, self.n, self.k, format_of(self.op))
        bias = None if self.bias is None else as_dtype(rng.standard_normal(self.n).astype(np.float32), self.bias)
        return a, b, bias

    def fields(self) -> dict[str, int]:
        """What list_tactics looks at."""
        return {
            "m": self.m, "n": self.n, "k": self.k, "a_stride": self.k // 2 + self.a_gap, "alpha": None,
            "b_stride": self.k // 2 + self.b_gap, "d_stride": self.n + self.d_gap, "d_dtype": DTYPES[self.dtype],
            "bias_dtype": DTYPES[self.bias or self.dtype],
        }  # fmt: skip

    def run(self, session: Session) -> dict[str, np.ndarray]:
        """One output a tactic, under the tactic's name."""
        a, b, bias = self.inputs()
        fields = self.fields() | {
            "a_codes": session.upload(reference.pack_codes(a.codes), self.k // 2 + self.a_gap),
            "b_codes": session.upload(reference.pack_codes(b.codes), self.k // 2 + self.b_gap),
            "a_scales": session.upload(a.swizzled()), "b_scales": session.upload(b.swizzled()),
            "a_scales_bytes": a.swizzled().size, "b_scales_bytes": b.swizzled().size,
        }  # fmt: skip
        if self.alpha is not None:
            fields["alpha"] = session.upload(np.array([self.alpha], np.float32))
        if bias is not None:
            fields["bias"] = session.upload(bits_of(bias, self.bias))
        return multiply(session, self, fields)

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        a, b, bias = self.inputs()
        expected = reference.product(a.values, b.values, 1.0 if self.alpha is None else self.alpha, bias)
        wrong = []
        for name, bits in outputs.items():
            try:
                reference.assert_product(floats_of(bits, self.dtype), expected, self.k, self.dtype)
            except AssertionError as error:
                wrong.append(f"{name}: {error}")
        assert not wrong, "\n".join(wrong)


@dataclass(frozen=True)
class Chain:
    """Programmatic launches that read what the launch before them writes, and overwrite what it reads.

    global scale of x1 -> x1 quantised -> product -> x2 quantised into the same buffers -> product into another output
    -> codes dequantised into the first output: nothing is waited for in between.
    """

    op: str
    m: int
    n: int
    k: int
    tactic: int = 0
    dtype: str = "bf16"
    seed: int = 0

    def inputs(self) -> tuple[list[np.ndarray], Operand]:
        rng = np.random.default_rng(self.seed)
        x = [as_dtype(rng.standard_normal((self.m, self.k)), self.dtype) for _ in range(2)]
        return x, Operand.random(rng, self.n, self.k, format_of(self.op))

    def run(self, session: Session) -> dict[str, np.ndarray]:
        format, rows, k = format_of(self.op), self.m, self.k
        x, w = self.inputs()
        element, padded = ELEMENT[self.dtype]().itemsize, Operand(w.codes[:1], w.scales[:1], format).swizzled().shape
        scale_bytes = reference.swizzled_shape(rows, padded[1])[0] * padded[1]
        codes, scales, scale = session.allocate(rows * k // 2), session.allocate(scale_bytes), session.allocate(4)
        sources = [session.upload(bits_of(values, self.dtype)) for values in x]
        d = [session.allocate(rows * max(self.n, k) * element) for _ in x]
        b_codes, b_scales = session.upload(reference.pack_codes(w.codes)), session.upload(w.swizzled())
        nvfp4 = format == "nvfp4"
        if nvfp4:
            session.call(
                "nvfp4_global_scale", pdl=True, rows=rows, k=k, input=sources[0], input_stride=k,
                input_dtype=DTYPES[self.dtype], global_scale=scale,
            )  # fmt: skip
        common = {"codes": codes, "codes_stride": k // 2, "scales": scales, "scales_bytes": scale_bytes}
        common |= {"rows": rows, "k": k, "pdl": True}
        if nvfp4:
            common["global_scale"] = scale
        for source, output in zip(sources, d, strict=True):
            session.call(f"quantize_{format}", **common, input=source, input_stride=k, input_dtype=DTYPES[self.dtype])
            session.call(
                self.op, pdl=True, m=rows, n=self.n, k=k, a_codes=codes, a_stride=k // 2, a_scales=scales,
                a_scales_bytes=scale_bytes, b_codes=b_codes, b_stride=k // 2, b_scales=b_scales,
                b_scales_bytes=w.swizzled().size, d=output, d_stride=self.n, d_dtype=DTYPES["bf16"],
                alpha=scale if nvfp4 else None, tactic=self.tactic,
            )  # fmt: skip
        session.call(f"dequantize_{format}", **common, output=d[0], output_stride=k, output_dtype=DTYPES[self.dtype])
        session.synchronize()
        return {
            "product": session.download(d[1].address, (rows, self.n), np.uint16),
            "values": session.download(d[0].address, (rows, k), ELEMENT[self.dtype]),
        }

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        format, (x, w) = format_of(self.op), self.inputs()
        scale = reference.nvfp4_global_scale(x[0]) if format == "nvfp4" else np.float32(1)
        codes, scales = reference.quantize(x[1], format, scale)
        a = reference.dequantize(codes, scales, format)
        expected = reference.product(a, w.values, float(scale))
        reference.assert_product(floats_of(outputs["product"], "bf16"), expected, self.k, "bf16")
        wanted = as_dtype((a.astype(np.float32) / scale).astype(np.float32), self.dtype)
        found = floats_of(outputs["values"], self.dtype)
        assert np.array_equal(found, wanted), "the codes of the second input are not those that were dequantised"
