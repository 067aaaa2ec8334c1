"""The C ABI in ctypes, generated from the installed header, so that it cannot drift from the library.

``include/fp4aot/fp4aot.h`` gives the parameter structs and constants, ``ops.def`` the ops and their structs.
"""

from __future__ import annotations

import ctypes
import functools
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from .errors import LoadError


def installed(name: str) -> Path:
    """A folder of the package that the build installs. In an editable install the package has two places: the source
    tree, with the modules, and site-packages, with what was built."""
    places = [Path(place) / name for place in sys.modules[__package__].__path__]
    return next((place for place in places if place.is_dir()), Path(__file__).with_name(name))


INCLUDE = installed("include")

_C_TYPES: dict[str, Any] = {
    "size_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
}


class Abi(NamedTuple):
    """The contract as the header states it."""

    structs: dict[str, type[ctypes.Structure]]
    constants: dict[str, int]
    ops: dict[str, type[ctypes.Structure]]  # in slot order
    version: tuple[int, int]


def _read(name: str) -> str:
    path = INCLUDE / "fp4aot" / name
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LoadError(
            f"fp4aot's header {path} cannot be read ({error.strerror}); the installation is damaged. "
            "Reinstall it: pip install --force-reinstall fp4aot"
        ) from None
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def _fields(body: str, types: dict[str, Any]) -> list[tuple[str, Any]]:
    fields: list[tuple[str, Any]] = []
    for statement in filter(None, (part.strip() for part in body.split(";"))):
        match = re.fullmatch(r"(\w+)\b(.*)", re.sub(r"\bconst\b", " ", statement).strip(), flags=re.DOTALL)
        assert match is not None, statement
        for declarator in match[2].split(","):
            pointer = "*" in declarator
            name = declarator.replace("*", " ").strip()
            fields.append((name, ctypes.c_void_p if pointer else types[match[1]]))
    return fields


@functools.cache
def load() -> Abi:
    """Parses the header; once a process, about a millisecond."""
    header = _read("fp4aot.h")
    constants = {name: int(value) for name, value in re.findall(r"(FP4AOT_\w+)\s*=\s*(\d+)u?\s*[,}]", header)}
    constants |= {name: int(value) for name, value in re.findall(r"#define\s+(FP4AOT_\w+)\s+\(?(-?\d+)\)?\s", header)}
    types = dict(_C_TYPES)
    types |= dict.fromkeys(re.findall(r"typedef\s[^;{]*\(\*(\w+)\)\(", header), ctypes.c_void_p)  # functions
    structs: dict[str, type[ctypes.Structure]] = {}
    for body, name in re.findall(r"typedef\s+struct\s+\w+\s*\{(.*?)\}\s*(\w+)\s*;", header, flags=re.DOTALL):
        structs[name] = types[name] = type(name, (ctypes.Structure,), {"_fields_": _fields(body, types)})
    ops = {
        name: structs[struct] for name, struct in re.findall(r"FP4AOT_OP\((\w+),\s*(fp4aot_\w+)\)", _read("ops.def"))
    }
    return Abi(structs, constants, ops, (constants["FP4AOT_ABI_MAJOR"], constants["FP4AOT_ABI_MINOR"]))
