"""What a problem takes on this machine, before it is run: memory, and time of one core.

Rates of 2026-11 on one core of a cloud machine, checks against the reference included; they are good to a factor of 3.
"""

import os
from dataclasses import fields

PRODUCTS_A_SECOND = 40e6  # of each tactic
ELEMENTS_A_SECOND = 2e6
BYTES_AN_ELEMENT = 32  # as float64, once more while it is computed, as codes, on the device and beside it
FEWEST_ROWS = 16  # that a product's tile computes


def elements(problem) -> int:
    """Of all matrices, the gaps between their rows included."""
    size = {field.name: getattr(problem, field.name) for field in fields(problem)}
    gaps = sum(value for name, value in size.items() if name.endswith("gap"))
    m, n, k = size.get("m", 0), size.get("n", 0), size.get("k", size.get("columns", 0))
    rows = size.get("rows", 0)
    return m * k + n * k + m * n + rows * k + (m + n + rows) * gaps


def bytes_needed(problem) -> int:
    return elements(problem) * BYTES_AN_ELEMENT


def seconds(problem) -> float:
    """Of a product, with one tactic."""
    m = getattr(problem, "m", 0)
    products = max(m, FEWEST_ROWS) * problem.n * problem.k if m else 0
    return products / PRODUCTS_A_SECOND + elements(problem) / ELEMENTS_A_SECOND


def machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def objection(problem) -> str:
    """Why it cannot be run here; empty if it can."""
    needed = bytes_needed(problem)
    if needed <= machine_bytes():
        return ""
    return (
        f"this problem needs about {needed / 2**30:.3g} GiB of memory, and this machine has "
        f"{machine_bytes() / 2**30:.3g}: choose smaller sizes"
    )


def warning(problem, least: float = 60) -> str:
    """What to expect of a problem that takes longer than `least` seconds; empty for others."""
    if seconds(problem) < least:
        return ""
    each = " for each tactic (--tactic or --only chooses some)" if getattr(problem, "m", 0) else ""
    return f"a problem of this size takes about {seconds(problem) / 60:.3g} minutes of a core{each}"
