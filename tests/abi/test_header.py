"""fp4aot.h compiles as C11 and C++17 without warnings, links, and has the layout that tests/abi/c_abi.py writes out."""

import ctypes
from pathlib import Path

import c_abi
import installed
import pytest

pytestmark = pytest.mark.build

DIALECTS = {
    "c11": ("c", ["-std=c11"]),
    "c17": ("c", ["-std=c17"]),
    "c++17": ("c++", ["-std=c++17", "-x", "c++"]),
    "c++20": ("c++", ["-std=c++20", "-x", "c++"]),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_header(dialect, tmp_path):
    language, flags = DIALECTS[dialect]
    lines = []
    for name, struct in {"fp4aot_device": c_abi.Device, **c_abi.STRUCTS}.items():
        lines += [f"SIZE({name})", *(f"PRINT({name}, {field[0]})" for field in struct._fields_)]
    (tmp_path / "fields.h").write_text("#define FIELDS " + " \\\n".join(lines) + "\n")
    program, library = tmp_path / "header", installed.core_library()
    installed.run(
        installed.compiler(language), *flags, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", tmp_path,
        "-I", installed.include_dir(), Path(__file__).with_name("header.c"), "-x", "none", library,
        f"-Wl,-rpath,{library.parent}", "-o", program,
    )  # fmt: skip
    printed = dict(line.split(maxsplit=1) for line in installed.run(program).stdout.splitlines())
    expected = {}
    for name, struct in {"fp4aot_device": c_abi.Device, **c_abi.STRUCTS}.items():
        expected[name] = str(ctypes.sizeof(struct))
        expected |= {f"{name}.{field[0]}": str(getattr(struct, field[0]).offset) for field in struct._fields_}
    assert {name: value for name, value in printed.items() if name in expected} == expected
    assert printed["abi"].split()[0] == "1"
    assert int(printed["ops"]) >= len(c_abi.OPS)


@pytest.mark.parametrize("header", ["fp4aot.hpp", "formats.h", "fp4aot.h", "w4a16_layout.h"])
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_header_alone(header, standard, tmp_path):
    """Each public header compiles as the first thing of a file, and twice."""
    if not (installed.include_dir() / "fp4aot" / header).exists():
        pytest.skip(f"{header} is not installed")
    source = tmp_path / "alone.cpp"
    source.write_text(f'#include "fp4aot/{header}"\n#include "fp4aot/{header}"\nint main() {{ return 0; }}\n')
    installed.run(
        installed.compiler(), f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I",
        installed.include_dir(), "-fsyntax-only", source,
    )  # fmt: skip


def test_op_numbers_are_stable():
    library = c_abi.load()
    assert [library.fp4aot_op_name(number).decode() for number in range(len(c_abi.OPS))] == list(c_abi.OPS)
    assert library.fp4aot_op_name(-1) is None
    assert library.fp4aot_op_name(10_000) is None


def test_versions():
    library = c_abi.load()
    assert library.fp4aot_abi_version() >> 16 == 1
    major, minor, patch = library.fp4aot_version().decode().split(".")[:3]
    assert major.isdigit()
    assert minor.isdigit()
    assert patch[0].isdigit()
