"""Rows of results as lines and as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CALL_SUITES = ("chain", "host")  # whose rows are calls and their times
_TIMES = "\N{MULTIPLICATION SIGN}"


def _peers(row: Mapping[str, Any]) -> str:
    return "".join(f"  {name} {peer['us']:.1f} ({peer['ratio']:.2f}x)" for name, peer in row["peers"].items())


def row_line(suite: str, row: Mapping[str, Any]) -> str:
    """One line, and one more for ranked tactics."""
    if suite in CALL_SUITES:
        aim = "" if row["aim"] is None else f"  (aim {row['aim']:g})"
        return f"{row['call']:<36} {row['value']:7.2f} {row['unit']}{aim}"
    line = f"{row['format']} N {row['n']:5} K {row['k']:5} M {row['m']:4}  {row['tactic']:24} {row['us']:7.1f} us"
    if row["floor"] is not None:
        line += f"  read {row['floor']['us']:.1f} ({row['floor']['ratio']:.2f}x)"
    if row["tb_per_s_net"] is not None:
        line += f"  net {row['tb_per_s_net']:.2f} TB/s"
    rate, unit = (row["tflops"], "TFLOP/s") if row["tflops"] >= 1 else (1e3 * row["tflops"], "GFLOP/s")
    line += _peers(row) + f"  {rate:.3g} {unit}"
    if "check" in row:
        worst = max(row["check"].values(), key=lambda check: (not check["right"], check["norm"] or 0.0))
        line += f"  error {worst['norm']:.1e}" if worst["right"] else "  WRONG"
    if "tactics" in row:
        line += "\n    " + "  ".join(f"{name} {us:.1f}" for name, us in row["tactics"].items())
    return line


_BANDS = ((1, 16), (17, 128), (129, 512), (513, 1 << 40))  # of M: what the aims are set for


def extremes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line a format and band of M: the worst ratio to the reader, each peer and the best tactic, and where."""
    lines = []
    for format in dict.fromkeys(row["format"] for row in rows):
        for low, high in _BANDS:
            band = [row for row in rows if row["format"] == format and low <= row["m"] <= high]
            found = []
            with_floor = [row for row in band if row["floor"] is not None]
            if with_floor:
                worst = max(with_floor, key=lambda row: row["floor"]["ratio"])
                found.append(f"read at most {worst['floor']['ratio']:.2f}x ({_place(worst)})")
            for name in dict.fromkeys(name for row in band for name in row["peers"]):
                worst = min((row for row in band if name in row["peers"]), key=lambda row: row["peers"][name]["ratio"])
                found.append(f"{name} at least {worst['peers'][name]['ratio']:.2f}x ({_place(worst)})")
            ranked = [(row["us"] / next(iter(row["tactics"].values())), row) for row in band if row.get("tactics")]
            if ranked:
                ratio, worst = max(ranked, key=lambda item: item[0])
                found.append(f"default at most {ratio:.2f}x the best tactic ({_place(worst)})")
            if found:
                given = sorted(row["m"] for row in band)
                lines.append(f"{format} M {given[0]} to {given[-1]}: {', '.join(found)}")
    return lines


def _place(row: Mapping[str, Any]) -> str:
    return f"N {row['n']} K {row['k']} M {row['m']}"


def _cell(row: Mapping[str, Any] | None, peers: Sequence[str], floor: bool) -> str:
    if row is None:
        return ""
    parts = [f"{row['us']:.1f}"]
    if floor:
        parts.append("-" if row["floor"] is None else f"{row['floor']['ratio']:.2f}")
    for name in peers:
        peer = row["peers"].get(name)
        parts.append("-" if peer is None else f"{peer['ratio']:.2f} {_TIMES}")
    return ", ".join(parts)


def _table(rows: Sequence[Mapping[str, Any]], heads: Sequence[str]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(map(str, row.values())) + " |" for row in rows]


def _product_table(op: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """M down, N x K across."""
    shapes = list(dict.fromkeys((row["n"], row["k"]) for row in rows))
    peers = list(dict.fromkeys(name for row in rows for name in row["peers"]))
    floor = any(row["floor"] is not None for row in rows)
    by_place = {(row["n"], row["k"], row["m"]): row for row in rows}
    meaning = ["µs", *(["time / read"] if floor else []), *(f"{name} / time" for name in peers)]
    body = []
    for m in sorted({row["m"] for row in rows}):
        cells = {str(shape): _cell(by_place.get((*shape, m)), peers, floor) for shape in shapes}
        body.append({"m": m} | cells)
    heads = ["M", *(f"{n} {_TIMES} {k}" for n, k in shapes)]
    return [f"**`{op}`**, N {_TIMES} K: {', '.join(meaning)}", "", *_table(body, heads), ""]


def markdown_tables(suite: str, rows: Sequence[Mapping[str, Any]], heading: str) -> str:
    """The tables of the README: one a format, or the calls of CALL_SUITES."""
    lines = ["```", heading, "```", ""]
    if suite in CALL_SUITES:
        body = [
            {
                "call": row["call"],
                "value": f"{row['value']:.1f} {row['unit']}",
                "aim": "" if row["aim"] is None else f"{row['aim']:g}",
            }
            for row in rows
        ]
        return "\n".join([*lines, *_table(body, ["call", "host time" if suite == "host" else "time", "aim"]), ""])
    op = "gemm_w4a16_" if suite == "w4a16" else "gemm_"
    for format in dict.fromkeys(row["format"] for row in rows):
        lines += _product_table(op + format, [row for row in rows if row["format"] == format])
    return "\n".join(lines)
