"""Problems of gemm_w4a16_nvfp4 and gemm_w4a16_mxfp4. Prepared weights come from the reference."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import reference

from .gemm_problems import SCALE_RANGE, Operand, multiply
from .problems import NAN_SCALE, as_dtype, assert_equal, expect_gaps_untouched, format_of
from .session import DTYPES, Session, bits_of, floats_of

WIDE_RANGE = {"nvfp4": (0x00, 0x7E), "mxfp4": (127 - 60, 127 + 60)}  # bytes of scales
SMALL_RANGE = {"nvfp4": (0x08, 0x28), "mxfp4": (127 - 20, 127)}
SPECIALS = (np.nan, np.inf, -np.inf)


@dataclass(frozen=True)
class W4a16:
    op: str
    m: int
    n: int
    k: int
    a_dtype: str = "bf16"
    dtype: str = "bf16"
    kind: str = "normal"  # "wide": any scale; "small": as weights have; "special": a few NaN, infinities, NaN scales
    tactic: int | None = None  # None: every tactic that is valid
    only: str = ""  # of those, the ones in whose name this regular expression is found
    alpha: float | None = None
    bias: str | None = None  # its dtype
    a_gap: int = 0  # elements between rows, such that rows are multiples of 8 apart
    d_gap: int = 0
    seed: int = 0
    pdl: bool = False

    def inputs(self) -> tuple[np.ndarray, Operand, np.ndarray | None]:
        rng, format = np.random.default_rng(self.seed), format_of(self.op)
        a = rng.standard_normal((self.m, self.k)).astype(np.float32)
        w = Operand.random(rng, self.n, self.k, format)
        low, high = {"normal": SCALE_RANGE, "small": SMALL_RANGE}.get(self.kind, WIDE_RANGE)[format]
        scales = rng.integers(low, high + 1, w.scales.shape).astype(np.uint8)
        if self.kind == "special":
            for i, value in enumerate(SPECIALS):
                a[3 * i % self.m, rng.integers(self.k)] = value
            scales[5 % self.n, rng.integers(scales.shape[1])] = NAN_SCALE[format]
        bias = None if self.bias is None else as_dtype(rng.standard_normal(self.n).astype(np.float32), self.bias)
        return as_dtype(a, self.a_dtype), Operand(w.codes, scales, format), bias

    def fields(self) -> dict[str, int]:
        """What list_tactics looks at."""
        return {
            "m": self.m, "n": self.n, "k": self.k, "a_stride": self.k + self.a_gap, "a_dtype": DTYPES[self.a_dtype],
            "d_stride": self.n + self.d_gap, "d_dtype": DTYPES[self.dtype],
            "bias_dtype": DTYPES[self.bias or self.dtype],
        }  # fmt: skip

    def run(self, session: Session) -> dict[str, np.ndarray]:
        """One output a tactic, under the tactic's name."""
        a, w, bias = self.inputs()
        prepared = reference.prepare_w4a16(w.codes, w.scales, w.format)
        fields = self.fields() | {
            "a": session.upload(bits_of(a, self.a_dtype), (self.k + self.a_gap) * 2),
            "prepared": session.upload(prepared), "prepared_bytes": prepared.size,
        }  # fmt: skip
        if self.alpha is not None:
            fields["alpha"] = session.upload(np.array([self.alpha], np.float32))
        if bias is not None:
            fields["bias"] = session.upload(bits_of(bias, self.bias))
        return multiply(session, self, fields)

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        a, w, bias = self.inputs()
        alpha = 1.0 if self.alpha is None else float(np.float32(self.alpha))
        result, magnitude = reference.product(a.astype(np.float64), w.values, alpha, bias)
        infinite = np.isinf(result)
        finite = np.where(infinite, 0, result), np.where(infinite, 0, magnitude)
        wrong = []
        for name, bits in outputs.items():
            out = floats_of(bits, self.dtype)
            try:
                assert np.array_equal(out[infinite], result[infinite]), "infinities differ"
                reference.assert_product(np.where(infinite, 0, out), finite, self.k, self.dtype)
            except AssertionError as error:
                wrong.append(f"{name}: {error}")
        assert not wrong, "\n".join(wrong)


@dataclass(frozen=True)
class W4a16Weights:
    """prepare_w4a16_* and restore_w4a16_*: every code with every scale byte that is one."""

    op: str
    n: int
    k: int
    layout: str = "swizzled"
    gap: int = 0  # bytes between rows of codes, a multiple of 8; and between rows of linear scales
    seed: int = 0
    pdl: bool = False

    def inputs(self) -> tuple[np.ndarray, np.ndarray]:
        rng, format = np.random.default_rng(self.seed), format_of(self.op)
        codes = rng.integers(0, 16, (self.n, self.k)).astype(np.uint8)
        last = NAN_SCALE[format]
        return codes, rng.integers(0, last + 1, (self.n, self.k // reference.VECTOR[format])).astype(np.uint8)

    def run(self, session: Session) -> dict[str, np.ndarray]:
        codes, scales = self.inputs()
        packed, prepared = reference.pack_codes(codes), reference.prepare_w4a16(codes, scales, format_of(self.op))
        linear, preparing = self.layout == "linear", self.op.startswith("prepare")
        stored = scales if linear else reference.swizzle(scales)
        stride, columns = self.k // 2 + self.gap, scales.shape[1]
        scale_stride = columns + self.gap if linear else 0
        scales_bytes = (self.n - 1) * scale_stride + columns if linear else stored.size
        if preparing:
            target = session.allocate(prepared.size)
            sides = {
                "codes": session.upload(packed, stride), "prepared": target,
                "scales": session.upload(stored, scale_stride) if linear else session.upload(stored),
            }  # fmt: skip
        else:
            target, scale_target = session.allocate((self.n - 1) * stride + self.k // 2), session.allocate(scales_bytes)
            sides = {"codes": target, "scales": scale_target, "prepared": session.upload(prepared)}
        session.call(
            self.op, pdl=self.pdl, n=self.n, k=self.k, codes_stride=stride, scales_stride=scale_stride,
            scales_bytes=scales_bytes, prepared_bytes=prepared.size, scale_layout=int(linear), **sides,
        )  # fmt: skip
        session.synchronize()
        if preparing:
            return {"prepared": session.download(target.address, prepared.shape, np.uint8)}
        expect_gaps_untouched(session, target.address, self.n, self.k // 2, stride, "codes")
        if linear:
            expect_gaps_untouched(session, scale_target.address, self.n, columns, scale_stride, "scales")
        return {
            "codes": session.download(target.address, packed.shape, np.uint8, stride),
            "scales": session.download(scale_target.address, stored.shape, np.uint8, scale_stride or None),
        }

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        codes, scales = self.inputs()
        if self.op.startswith("prepare"):
            assert_equal(outputs["prepared"], reference.prepare_w4a16(codes, scales, format_of(self.op)), "prepared")
        else:
            assert_equal(outputs["codes"], reference.pack_codes(codes), "codes")
            assert_equal(outputs["scales"], scales if self.layout == "linear" else reference.swizzle(scales), "scales")


@dataclass(frozen=True)
class W4a16Chain:
    """Programmatic launches that read what the launch before them writes, and overwrite what it reads.

    a dequantised -> product -> other values dequantised into a -> product into another output: nothing is waited for.
    """

    op: str
    m: int
    n: int
    k: int
    a_dtype: str = "bf16"
    only: str = ""  # the first tactic in whose name this regular expression is found: none is run if there is none
    seed: int = 0

    def inputs(self) -> tuple[list[Operand], Operand]:
        rng, format = np.random.default_rng(self.seed), format_of(self.op)
        activations = [Operand.random(rng, self.m, self.k, format) for _ in range(2)]
        return activations, Operand.random(rng, self.n, self.k, format)

    def run(self, session: Session) -> dict[str, np.ndarray]:
        activations, w = self.inputs()
        common = {
            "m": self.m, "n": self.n, "k": self.k, "a_stride": self.k, "a_dtype": DTYPES[self.a_dtype],
            "d_stride": self.n, "d_dtype": DTYPES["fp32"], "bias_dtype": DTYPES["fp32"],
        }  # fmt: skip
        tactic = 0
        if self.only:
            tactics = session.tactics(self.op, **common)
            tactic = next((number for number, name in tactics.items() if re.search(self.only, name)), None)
            if tactic is None:
                return {}
        prepared = session.upload(weights := reference.prepare_w4a16(w.codes, w.scales, w.format))
        a, outputs = session.allocate(self.m * self.k * 2), [session.allocate(self.m * self.n * 4) for _ in range(2)]
        sources = [(session.upload(reference.pack_codes(x.codes)), x.swizzled()) for x in activations]
        sources = [(codes, session.upload(scales), scales.size) for codes, scales in sources]
        for (codes, scales, scales_bytes), d in zip(sources, outputs, strict=True):
            session.call(
                f"dequantize_{w.format}", pdl=True, rows=self.m, k=self.k, codes=codes, codes_stride=self.k // 2,
                scales=scales, scales_bytes=scales_bytes, output=a, output_stride=self.k,
                output_dtype=DTYPES[self.a_dtype],
            )  # fmt: skip
            session.call(
                self.op, pdl=True, **common, a=a, prepared=prepared, prepared_bytes=weights.size, d=d, tactic=tactic,
            )  # fmt: skip
        session.synchronize()
        shape = (self.m, self.n)
        return {f"product {i}": session.download(d.address, shape, np.float32) for i, d in enumerate(outputs)}

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        activations, w = self.inputs()
        for x, d in zip(activations, outputs.values(), strict=bool(outputs)):
            a = as_dtype(x.values.astype(np.float32), self.a_dtype)
            reference.assert_product(d, reference.product(a.astype(np.float64), w.values), self.k, "fp32")
