"""From times to what is printed: medians, ratios and rates of one row (a format, shape and M)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

STREAMING_ROWS = 128  # up to here the time of reading the operands is a yardstick


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, statistics.median(values), high


def summarise(
    times: Mapping[str, Sequence[float]], chosen: str, peers: Sequence[str], readers: Sequence[str], empty: str | None
) -> dict[str, Any]:
    """Microseconds of ``chosen`` and what they are relative to the others.

    ``times``: microseconds of each turn by name. A peer's ratio is its time over ours (more than 1: we are faster),
    the floor's is ours over the fastest reader's.
    """
    median = {name: quartiles(values)[1] for name, values in times.items()}
    low, ours, high = quartiles(times[chosen])
    fastest = min(readers, key=lambda name: median[name], default=None)
    return {
        "us": ours,
        "us_quartiles": [low, high],
        "peers": {name: {"us": median[name], "ratio": median[name] / ours} for name in peers},
        "floor": None
        if fastest is None
        else {"us": median[fastest], "ratio": ours / median[fastest], "reader": fastest},
        "empty_us": None if empty is None else median[empty],
    }


def rates(row: Mapping[str, Any], read_bytes: int) -> dict[str, Any]:
    """TFLOP/s, and TB/s of the operands: of the whole time, and net of an empty kernel's (None if that is unknown)."""
    us, empty = row["us"], row["empty_us"]
    net = None if empty is None or us <= empty else read_bytes / (us - empty) * 1e-6
    return {
        "tflops": 2e-6 * row["m"] * row["n"] * row["k"] / us,
        "read_bytes": read_bytes,
        "tb_per_s": read_bytes / us * 1e-6,
        "tb_per_s_net": net,
    }


def ranking(times: Mapping[str, Sequence[float]], tactics: Sequence[str]) -> dict[str, float]:
    """Median microseconds of tactics, fastest first."""
    medians = {name: quartiles(times[name])[1] for name in tactics}
    return dict(sorted(medians.items(), key=lambda item: item[1]))
