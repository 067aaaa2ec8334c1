"""Outputs of the sm90a kernels on a real H200, kept to compare the simulator with: what is in the file, and how alike.

h200.npz holds: `about`, JSON (device, driver, time, versions); `problems`, written out; `values`, the distinct
outputs one after the other as bytes; `index`, a row for each output: problem, name, offset, size. Inputs come from the
problems' seeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import reference

from .gemm_problems import Gemm
from .problems import GlobalScale, ScaleLayout, assert_equal, format_of, written_out
from .quantize_problems import Dequantize, EdgeCases, Quantize
from .session import floats_of
from .w4a16_problems import W4a16, W4a16Weights

FILE = Path(__file__).with_name("h200.npz")
IMAGE = "sm90a"


def problems() -> list[object]:
    """Small ones that reach every kind of kernel; every tactic of the products. Changing this needs a new record."""
    return [*_quantize_problems(), *_layout_problems(), *_gemm_problems(), *_w4a16_problems()]


def _quantize_problems() -> Iterable[object]:
    for op in ("quantize_nvfp4", "quantize_mxfp4"):
        yield EdgeCases(op)
        for dtype in ("bf16", "fp16", "fp32"):
            yield Quantize(op, 33, 96, dtype, "special")
            yield Quantize(op, 17, 160, dtype, "wide", layout="linear", gap=3, lead=1)
    yield Quantize("quantize_mxfp4", 33, 96, kind="wide", rounding="floor")
    for dtype in ("bf16", "fp16", "fp32"):
        for op, scale in (("silu_mul_quantize_nvfp4", 50.0), ("silu_mul_quantize_mxfp4", None)):
            yield Quantize(op, 33, 192, dtype, global_scale=scale)
        yield Quantize("rmsnorm_quantize_nvfp4", 33, 208, dtype, global_scale=12.0, residual=True)
        yield Quantize("rmsnorm_quantize_nvfp4", 2, 8192, dtype, layout="linear", global_scale=12.0)


def _layout_problems() -> Iterable[object]:
    for dtype in ("bf16", "fp16", "fp32"):
        for op in ("dequantize_nvfp4", "dequantize_mxfp4"):
            yield Dequantize(op, 9, 160, dtype, global_scale=0.3 if "nv" in op else None)
        yield GlobalScale("nvfp4_global_scale", 130, 1000, dtype)
    yield ScaleLayout("swizzle_scales", 131, 33, gap=3)
    yield ScaleLayout("unswizzle_scales", 131, 33, gap=3)


def _gemm_problems() -> Iterable[object]:
    for op in ("gemm_nvfp4", "gemm_mxfp4"):
        yield Gemm(op, 33, 72, 1120, alpha=0.37, bias="bf16")
        yield Gemm(op, 9, 72, 1120, dtype="fp32", seed=1)
        yield Gemm(op, 9, 72, 352, dtype="fp16", seed=2)


def _w4a16_problems() -> Iterable[object]:
    for format in ("nvfp4", "mxfp4"):
        for a_dtype in ("bf16", "fp16"):
            yield W4a16(f"gemm_w4a16_{format}", 17, 72, 1120, a_dtype, alpha=0.37, bias="bf16")
        yield W4a16(f"gemm_w4a16_{format}", 9, 72, 352, dtype="fp32", seed=1)
        for op in (f"prepare_w4a16_{format}", f"restore_w4a16_{format}"):
            yield W4a16Weights(op, 24, 96, gap=8)


def store(path: Path, about: dict, outputs: list[dict[str, np.ndarray]]) -> None:
    """outputs: of each of problems(), in order."""
    values, index, places = [], [], {}
    size = 0
    for number, found in enumerate(outputs):
        for name, array in found.items():
            data = array.tobytes()
            if data not in places:
                places[data] = size
                values.append(data)
                size += len(data)
            index.append((number, name, str(places[data]), str(len(data)), array.dtype.str, json.dumps(array.shape)))
    np.savez_compressed(
        path,
        about=json.dumps(about),
        problems=np.array([written_out(problem) for problem in problems()]),
        values=np.frombuffer(b"".join(values), np.uint8),
        index=np.array([tuple(map(str, row)) for row in index]),
    )


def load(path: Path = FILE) -> tuple[dict, list[dict[str, np.ndarray]]]:
    """What store wrote. Fails if the record is of other problems than those of today."""
    with np.load(path) as file:
        about, recorded, values, index = (file[name] for name in ("about", "problems", "values", "index"))
    assert recorded.tolist() == [written_out(problem) for problem in problems()], (
        f"{path} is of other problems: record again"
    )
    outputs: list[dict[str, np.ndarray]] = [{} for _ in recorded]
    for number, name, start, size, dtype, shape in index:
        data = values[int(start) : int(start) + int(size)].tobytes()
        outputs[int(number)][name] = np.frombuffer(data, dtype).reshape(json.loads(shape))
    return json.loads(str(about)), outputs


def compare(problem, simulated: dict[str, np.ndarray], recorded: dict[str, np.ndarray]) -> None:
    """Bits, but for: products, which agree within twice the bound of a summation order; fused forms, within theirs."""
    assert sorted(simulated) == sorted(recorded), f"outputs {sorted(simulated)}, recorded {sorted(recorded)}"
    if isinstance(problem, Gemm | W4a16):
        _compare_products(problem, simulated, recorded)
    elif isinstance(problem, Quantize) and not problem.op.startswith("quantize"):
        _compare_fused(problem, simulated, recorded)
    else:
        for name, array in recorded.items():
            assert_equal(simulated[name].view(_bits(array)), array.view(_bits(array)), name)


def _bits(array: np.ndarray) -> str:
    return f"u{array.itemsize}"


def _compare_fused(problem: Quantize, simulated: dict, recorded: dict) -> None:
    columns = problem.k // reference.VECTOR[format_of(problem.op)]
    sides = []
    for outputs in (simulated, recorded):
        scales = outputs["scales"]
        if problem.layout == "swizzled":
            scales = reference.unswizzle(scales, problem.rows, columns)
        sides += [reference.unpack_codes(outputs["codes"]), scales.reshape(problem.rows, columns)]
    reference.assert_codes_close(*sides)
    if "residual" in recorded:
        bits = _bits(recorded["residual"])
        assert_equal(simulated["residual"].view(bits), recorded["residual"].view(bits), "residual")


def _compare_products(problem: Gemm | W4a16, simulated: dict, recorded: dict) -> None:
    a, b, bias = problem.inputs()
    activations = a.astype(np.float64) if isinstance(problem, W4a16) else a.values
    expected, magnitude = reference.product(activations, b.values, problem.alpha or 1.0, bias)
    order = (problem.k / 16 + 4) * 2.0**-23 * magnitude  # of fp32 sums
    unit = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-23}[problem.dtype]
    for name, array in recorded.items():
        left = floats_of(simulated[name], problem.dtype).astype(np.float64)
        right = floats_of(array, problem.dtype).astype(np.float64)
        allowed = 2 * order + 2 * unit * (np.abs(expected) + order)
        worst = np.abs(left - right) - allowed
        assert (worst <= 0).all(), f"{name}: {(worst > 0).sum()} of {worst.size} differ by more than their order allows"
