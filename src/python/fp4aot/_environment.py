"""Environment variables that are on or off. (Those of the C library are read there: ``core/switches.cpp``.)"""

from __future__ import annotations

import os


def switch(name: str, default: bool) -> bool:
    """Whether it is on: "1" or "0"; ``default`` if it is empty or not set. ValueError for anything else."""
    value = os.environ.get(name)
    if not value:
        return default
    if value not in ("0", "1"):
        raise ValueError(f"{name} is {value!r}; it must be 1 or 0, or not set.")
    return value == "1"
