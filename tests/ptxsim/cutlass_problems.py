"""Products by CUTLASS's own kernels (cutlass/), in a process whose folder is cutlass_kernels.folder(chip)."""

from __future__ import annotations

import ctypes as c
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import reference

from .gemm_problems import Operand
from .session import CallFailed, Session, floats_of

ALIGNMENT = 256  # of operands, bytes


class Operands(c.Structure):
    """cutlass/product.h"""

    _fields_ = [
        *((name, c.c_int32) for name in "mnk"),
        *((name, c.c_void_p) for name in ("a", "b", "a_scales", "b_scales", "d", "alpha")),
    ]


@dataclass(frozen=True)
class CutlassProduct:
    """One product, or a group for each of `rows`; every one has its own weights and its own alpha."""

    op: str  # the function of cutlass/<chip>.cu
    format: str
    rows: tuple[int, ...]
    n: int
    k: int
    pdl: bool = False  # a programmatic dependent launch
    # What the kernel before delivers: fields of Operands; "arrays": what describes the groups.
    late: tuple[str, ...] = ()
    seed: int = 0

    @property
    def is_grouped(self) -> bool:
        return self.op == "grouped"

    def inputs(self) -> list[tuple[Operand, Operand, np.float32]]:
        rng = np.random.default_rng(self.seed)
        return [
            (
                Operand.random(rng, m, self.k, self.format),
                Operand.random(rng, self.n, self.k, self.format),
                np.float32(0.37 * (-1.5) ** i),
            )
            for i, m in enumerate(self.rows)
        ]

    def run(self, session: Session) -> dict[str, np.ndarray]:
        library = load()
        products, outputs, late = (Operands * len(self.rows))(), [], []
        for product, m, (a, b, alpha) in zip(products, self.rows, self.inputs(), strict=True):
            product.m, product.n, product.k = m, self.n, self.k
            outputs.append(session.allocate(m * self.n * 2))
            product.d = outputs[-1].address
            for name, values in {
                "a": reference.pack_codes(a.codes), "b": reference.pack_codes(b.codes),
                "a_scales": a.swizzled() if m else a.scales, "b_scales": b.swizzled(), "alpha": np.array([alpha]),
            }.items():  # fmt: skip
                if name in self.late:
                    late.append((product, name, values))
                else:
                    setattr(product, name, session.upload(values).address)
        if late:
            self._deliver(library, session, late)
        if self.is_grouped:
            why = library.grouped(products, len(products), self.pdl, "arrays" in self.late)
        else:
            why = getattr(library, self.op)(products, self.pdl)
        session.synchronize()
        if why is not None:
            raise CallFailed(f"{self.op}: {why.decode()} {session.complaints()}")
        return {
            f"group {i}": session.download(d.address, (m, self.n), np.uint16)
            for i, (m, d) in enumerate(zip(self.rows, outputs, strict=True))
            if m
        }

    @staticmethod
    def _deliver(library: c.CDLL, session: Session, late: list[tuple[Operands, str, np.ndarray]]) -> None:
        """All in one launch: a product waits for no more than the one before it."""
        pieces, places = [], []
        for _, _, values in late:
            piece = np.frombuffer(values.tobytes(), np.uint8)
            places.append(sum(map(len, pieces)))
            pieces.append(np.pad(piece, (0, -len(piece) % ALIGNMENT)))
        staged = session.upload(np.concatenate(pieces))
        target = session.allocate(staged.bytes)
        for (product, name, _), place in zip(late, places, strict=True):
            setattr(product, name, target.address + place)
        library.deliver(target.address, staged.address, staged.bytes)

    def check(self, outputs: dict[str, np.ndarray]) -> None:
        wanted = {f"group {i}": inputs for i, inputs in enumerate(self.inputs()) if self.rows[i]}
        assert outputs.keys() == wanted.keys()
        wrong = []
        for name, (a, b, alpha) in wanted.items():
            expected = reference.product(a.values, b.values, float(alpha))
            try:
                reference.assert_product(floats_of(outputs[name], "bf16"), expected, self.k, "bf16")
            except AssertionError as error:
                wrong.append(f"{name}: {error}")
        assert not wrong, "\n".join(wrong)


def load() -> c.CDLL:
    (path,) = Path(os.environ["FP4AOT_IMAGE_DIR"]).glob("libcutlass_*.so")
    library = c.CDLL(str(path))
    library.deliver.argtypes = [c.c_void_p, c.c_void_p, c.c_size_t]
    library.deliver.restype = None
    library.grouped.argtypes = [c.POINTER(Operands), c.c_int, c.c_bool, c.c_bool]
    for name in ("plain", "plain_automatic_tile"):
        if hasattr(library, name):
            getattr(library, name).argtypes = [c.POINTER(Operands), c.c_bool]
            getattr(library, name).restype = c.c_char_p
    library.grouped.restype = c.c_char_p
    return library
