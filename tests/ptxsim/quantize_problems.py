"""Problems of the quantise and dequantise ops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import reference
from reference import edge_cases

from .problems import as_dtype, assert_equal, expect_gaps_untouched, format_of, layout_bytes, random_rows
from .session import DTYPES, ELEMENT, Session, bits_of, floats_of


@dataclass(frozen=True)
class Quantize:
    """quantize_*, silu_mul_quantize_*, rmsnorm_quantize_*."""

    op: str
    rows: int
    k: int
    dtype: str = "bf16"
    kind: str = "normal"
    layout: str = "swizzled"
    rounding: str = "ceil"
    global_scale: float | None = None
    residual: bool = False
    gap: int = 0  # elements between the rows of the input
    lead: int = 0  # elements by which the input is off a 256-byte boundary
    codes_gap: int = 0  # bytes, a multiple of 8
    seed: int = 0
    pdl: bool = False

    def inputs(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        columns = 2 * self.k if self.op.startswith("silu") else self.k
        scale = 3 if self.op.startswith("silu") else 1
        found = {"x": as_dtype(scale * random_rows(rng, self.rows, columns, self.kind), self.dtype)}
        if self.op.startswith("rmsnorm"):
            found["weight"] = as_dtype(1 + 0.2 * rng.standard_normal(self.k), self.dtype)
            if self.residual:
                found["residual"] = as_dtype(2 * random_rows(rng, self.rows, self.k, "normal"), self.dtype)
        return found

    def run(self, session: Session) -> dict[str, np.ndarray]:
        inputs, element = self.inputs(), ELEMENT[self.dtype]().itemsize
        x = bits_of(inputs["x"], self.dtype)
        stride = x.shape[1] + self.gap
        codes_stride = self.k // 2 + self.codes_gap
        columns = self.k // reference.VECTOR[format_of(self.op)]
        codes = session.allocate((self.rows - 1) * codes_stride + self.k // 2)
        scales = session.allocate(layout_bytes(self.rows, columns, self.layout))
        fields = {
            "input": session.upload(x, stride * element, self.lead * element), "input_stride": stride,
            "input_dtype": DTYPES[self.dtype], "rows": self.rows, "k": self.k, "codes": codes,
            "codes_stride": codes_stride, "scales": scales, "scales_bytes": scales.bytes,
            "scale_layout": int(self.layout == "linear"), "rounding": int(self.rounding == "floor"),
        }  # fmt: skip
        if self.global_scale is not None:
            fields["global_scale"] = session.upload(np.array([self.global_scale], np.float32))
        if "weight" in inputs:
            fields |= {"weight": session.upload(bits_of(inputs["weight"], self.dtype)), "epsilon": 1e-5}
        if "residual" in inputs:
            fields["residual"] = session.upload(bits_of(inputs["residual"], self.dtype), stride * element)
            fields["residual_stride"] = stride
        session.call(self.op, pdl=self.pdl, **fields)
        session.synchronize()
        expect_gaps_untouched(session, codes.address, self.rows, self.k // 2, codes_stride, "codes")
        outputs = {
            "codes": session.download(codes.address, (self.rows, self.k // 2), np.uint8, codes_stride),
            "scales": session.download(scales.address, (scales.bytes,), np.uint8),
        }
        if "residual" in inputs:
            address, shape = fields["residual"].address, (self.rows, self.k)
            outputs["residual"] = session.download(address, shape, ELEMENT[self.dtype], stride * element)
        return outputs

    def expected(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Codes (not packed), linear scales, and the new residual."""
        inputs, summed = self.inputs(), None
        values = inputs["x"]
        if self.op.startswith("silu"):
            values = reference.silu_mul(values, self.dtype)
        elif self.op.startswith("rmsnorm"):
            residual = inputs.get("residual")
            values, total = reference.rmsnorm(values, inputs["weight"], 1e-5, self.dtype, residual)
            summed = None if residual is None else total
        scale = 1.0 if self.global_scale is None else self.global_scale
        return (*reference.quantize(values, format_of(self.op), scale, self.rounding), summed)

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        codes, scales, residual = self.expected()
        linear = outputs["scales"]
        if self.layout == "swizzled":
            linear = reference.unswizzle(linear, *scales.shape)
            assert np.array_equal(reference.swizzle(linear).reshape(-1), outputs["scales"]), "padding is not zero"
        linear = linear.reshape(scales.shape)
        found = reference.unpack_codes(outputs["codes"])
        if self.op.startswith("quantize"):
            assert_equal(linear, scales, "scale bytes")
            assert_equal(found, codes, "codes")
        else:
            reference.assert_codes_close(found, linear, codes, scales)
        if residual is not None:
            assert_equal(outputs["residual"], bits_of(residual, self.dtype), "the residual")


@dataclass(frozen=True)
class EdgeCases:
    """Every block of reference.edge_cases that has this op's global scale or rounding, one a row."""

    op: str

    def groups(self) -> list[tuple[dict, list[edge_cases.Case]]]:
        if self.op == "quantize_nvfp4":
            found: dict[bytes, list] = {}
            for case in edge_cases.NVFP4_CASES:
                found.setdefault(np.float32(case.global_scale).tobytes(), []).append(case)
            return [({"global_scale": cases[0].global_scale}, cases) for cases in found.values()]
        pick = edge_cases.MXFP4_CASES
        return [({"rounding": r}, [c for c in pick if c.rounding in ("both", r)]) for r in ("ceil", "floor")]

    def run(self, session: Session) -> dict[str, np.ndarray]:
        vector, outputs = reference.VECTOR[format_of(self.op)], {}
        for i, (options, cases) in enumerate(self.groups()):
            x = np.zeros((len(cases), vector), np.float32)
            for row, case in zip(x, cases, strict=True):
                row[: len(case.values)] = case.values
            codes, scales = session.allocate(x.size // 2), session.allocate(len(cases))
            fields = {"rounding": int(options.get("rounding") == "floor")}
            if "global_scale" in options:
                fields["global_scale"] = session.upload(np.array([options["global_scale"]], np.float32))
            session.call(
                self.op, input=session.upload(x), input_stride=vector, input_dtype=DTYPES["fp32"], rows=len(cases),
                k=vector, codes=codes, codes_stride=vector // 2, scales=scales, scales_bytes=scales.bytes,
                scale_layout=1, **fields,
            )  # fmt: skip
            session.synchronize()
            outputs[f"codes{i}"] = session.download(codes.address, (len(cases), vector // 2), np.uint8)
            outputs[f"scales{i}"] = session.download(scales.address, (len(cases),), np.uint8)
        return outputs

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        wrong = []
        for i, (_, cases) in enumerate(self.groups()):
            codes = reference.unpack_codes(outputs[f"codes{i}"])
            for case, row, scale in zip(cases, codes, outputs[f"scales{i}"], strict=True):
                if scale != case.scale or tuple(row[: len(case.codes)]) != case.codes:
                    wrong.append(f"{case.name}: scale {scale:#x}, codes {row[: len(case.codes)].tolist()}")
        assert not wrong, "\n".join(wrong)


@dataclass(frozen=True)
class Dequantize:
    op: str
    rows: int
    k: int
    dtype: str = "bf16"
    layout: str = "swizzled"
    global_scale: float | None = None
    gap: int = 0  # elements between the rows of the output
    seed: int = 0
    pdl: bool = False

    def inputs(self) -> dict[str, np.ndarray]:
        rng, columns = np.random.default_rng(self.seed), self.k // reference.VECTOR[format_of(self.op)]
        top = 0x7F if self.op.endswith("nvfp4") else 0xFF  # NaN among them
        return {
            "codes": rng.integers(0, 16, (self.rows, self.k)).astype(np.uint8),
            "scales": rng.integers(0, top + 1, (self.rows, columns)).astype(np.uint8),
        }

    def run(self, session: Session) -> dict[str, np.ndarray]:
        inputs, element = self.inputs(), ELEMENT[self.dtype]().itemsize
        scales = inputs["scales"] if self.layout == "linear" else reference.swizzle(inputs["scales"])
        stride = self.k + self.gap
        output = session.allocate(((self.rows - 1) * stride + self.k) * element)
        fields = {}
        if self.global_scale is not None:
            fields["global_scale"] = session.upload(np.array([self.global_scale], np.float32))
        session.call(
            self.op, pdl=self.pdl, rows=self.rows, k=self.k, output=output, output_stride=stride,
            output_dtype=DTYPES[self.dtype], codes_stride=self.k // 2,
            codes=session.upload(reference.pack_codes(inputs["codes"])),
            scales=session.upload(scales), scales_bytes=scales.size, scale_layout=int(self.layout == "linear"),
            **fields,
        )  # fmt: skip
        session.synchronize()
        row_bytes = self.k * element
        expect_gaps_untouched(session, output.address, self.rows, row_bytes, stride * element, "output")
        shape = (self.rows, self.k)
        return {"output": session.download(output.address, shape, ELEMENT[self.dtype], stride * element)}

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        inputs, found = self.inputs(), floats_of(outputs["output"], self.dtype)
        values = reference.dequantize(inputs["codes"], inputs["scales"], format_of(self.op))
        # The definition: the product is exact in fp32, the quotient is rounded to fp32, then to the output.
        with np.errstate(over="ignore", invalid="ignore"):
            values = values.astype(np.float32) / np.float32(1 if self.global_scale is None else self.global_scale)
        expected = as_dtype(values, self.dtype)
        assert_equal(np.isnan(found), np.isnan(expected), "NaN")
        known = ~np.isnan(expected)
        assert_equal(np.where(known, found, 0), np.where(known, expected, 0), "values")
        assert_equal(np.signbit(found[known]), np.signbit(expected[known]), "signs")
