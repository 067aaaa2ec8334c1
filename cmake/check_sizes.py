"""Fails for a source file that has outgrown its room: 500 lines, Python 300, a kernel's mainloop 700."""

from __future__ import annotations

import sys
from pathlib import Path


def limit(path: Path) -> int:
    if path.suffix == ".py":
        return 300
    return 700 if "kernels" in path.parts and path.suffix == ".cuh" else 500


def main(names: list[str]) -> int:
    code = 0
    for path in map(Path, names):
        lines = len(path.read_text().splitlines())
        if lines > limit(path):
            print(f"{path}: {lines} lines, at most {limit(path)}; split it by what its parts do")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
